//! Rows by key, in SQLite: those of a collection, and those of a [state](super::state).
//!
//! Threads that read inputs bring their rows in batches, and rows with the same key become one. A table is
//! written by one program and read by the same one, so SQLite need not guard it against crashes: a file
//! that was not finished is thrown away. A file counts once its [state](super::state) is committed.

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};

use super::value::Value;

/// Incremented when rows change their meaning. Before 2, rows were in a format of their own.
pub const VERSION: u32 = 2;
/// `mcpf`: distinguishes the file from other programs' databases.
const APPLICATION_ID: u32 = 0x6d63_7066;

/// The rows, and how far each input was read.
const SCHEMA: &str = "
    CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE inputs (input TEXT PRIMARY KEY, position TEXT NOT NULL) STRICT, WITHOUT ROWID;
";
const MERGE: &str = "INSERT INTO rows (key, value) VALUES (?1, ?2)
    ON CONFLICT (key) DO UPDATE SET value = merge(value, excluded.value)";
/// Pages of rows, so that no statement stays open.
const AFTER: &str = "SELECT key, value FROM rows WHERE key > ?1 ORDER BY key LIMIT 1000";

/// Rows by key.
#[derive(Debug)]
pub struct RowTable(Connection);

impl RowTable {
    /// An empty one in memory.
    ///
    /// # Errors
    /// There is no memory.
    pub fn in_memory() -> io::Result<Self> {
        let table = Self::set_up(Connection::open_in_memory());
        table.and_then(Self::empty).map_err(io_error)
    }

    /// An empty one in a file in `directory`, which has no name and is gone when the program ends.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        // The name is removed as soon as the database is open.
        let file = tempfile::NamedTempFile::new_in(directory)?;
        Self::create(file.path())
    }

    /// An empty one in an empty file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let table = Self::set_up(at(path));
        table.and_then(Self::empty).map_err(io_error)
    }

    /// The one in a file. See [`version`](Self::version).
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::set_up(at(path)).map_err(io_error)
    }

    fn set_up(connection: rusqlite::Result<Connection>) -> rusqlite::Result<Self> {
        let connection = connection?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let flags = FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
        connection.create_scalar_function("merge", 2, flags, merged)?;
        // One transaction: pages are written when memory is full, not batch by batch.
        connection.execute_batch("BEGIN")?;
        Ok(Self(connection))
    }

    fn empty(self) -> rusqlite::Result<Self> {
        self.0.execute_batch(SCHEMA)?;
        self.0
            .pragma_update(None, "application_id", APPLICATION_ID)?;
        self.0.pragma_update(None, "user_version", VERSION)?;
        Ok(self)
    }

    /// The version of its file; `None` if the file is something else.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn version(&self) -> io::Result<Option<u32>> {
        let number = |sql| self.0.query_row(sql, [], |row| row.get::<_, u32>(0));
        let read = || match number("PRAGMA application_id")? {
            APPLICATION_ID => number("PRAGMA user_version").map(Some),
            _ => Ok(None),
        };
        read().map_err(io_error)
    }

    /// Sets how many bytes of it to keep in memory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn set_cache(&self, bytes: usize) -> io::Result<()> {
        let kib = i64::try_from(bytes >> 10).unwrap_or(i64::MAX);
        let set = self.0.pragma_update(None, "cache_size", -kib.max(1));
        set.map_err(io_error)
    }

    /// Adds rows; one whose key is there is merged with the row that is. Rows in order are added faster.
    ///
    /// # Errors
    /// The file cannot be written, or a row in it is damaged.
    pub fn merge<'a>(
        &mut self,
        rows: impl IntoIterator<Item = (&'a [u8], &'a Value)>,
    ) -> io::Result<()> {
        let merge = || {
            let mut statement = self.0.prepare_cached(MERGE)?;
            let mut bytes = Vec::new();
            for (key, value) in rows {
                bytes.clear();
                value.write(&mut bytes);
                statement.execute((key, bytes.as_slice()))?;
            }
            Ok(())
        };
        merge().map_err(io_error)
    }

    /// Writes everything to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn commit(&mut self) -> io::Result<()> {
        self.0.execute_batch("COMMIT").map_err(io_error)
    }

    /// The database, for what it has besides rows.
    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }

    /// Its rows in order.
    pub fn rows(&self) -> RowCursor<'_> {
        RowCursor {
            connection: &self.0,
            page: VecDeque::new(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// Reads rows in order.
#[derive(Debug)]
pub struct RowCursor<'a> {
    connection: &'a Connection,
    page: VecDeque<(Vec<u8>, Vec<u8>)>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl RowCursor<'_> {
    /// Moves to the next row; `false` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn advance(&mut self) -> io::Result<bool> {
        if self.page.is_empty() {
            self.page = self.next_page().map_err(io_error)?;
        }
        let Some(row) = self.page.pop_front() else {
            return Ok(false);
        };
        (self.key, self.value) = row;
        Ok(true)
    }

    /// The row's key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The row's value.
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    fn next_page(&self) -> rusqlite::Result<VecDeque<(Vec<u8>, Vec<u8>)>> {
        let mut statement = self.connection.prepare_cached(AFTER)?;
        let rows = statement.query_map([&self.key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.collect()
    }
}

/// The database in a file that exists.
fn at(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

/// Two values of one key as one.
fn merged(values: &Context<'_>) -> rusqlite::Result<Vec<u8>> {
    let value = |index| {
        let value = Value::read(values.get_raw(index).as_blob()?);
        value.ok_or_else(|| Error::UserFunctionError("a row is damaged".into()))
    };
    let mut merged: Value = value(0)?;
    merged.merge(value(1)?);
    let mut bytes = Vec::new();
    merged.write(&mut bytes);
    Ok(bytes)
}

/// SQLite's error in the system's terms, where there is one.
pub(super) fn io_error(error: Error) -> io::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => rustix::io::Errno::NOSPC.into(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            io::Error::new(io::ErrorKind::InvalidData, error)
        }
        _ => io::Error::other(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merged_rows_hold_every_key_once(
            batches in prop::collection::vec(
                prop::collection::btree_set(prop::collection::vec(0_u8..3, 1..6), 0..40), 0..6),
            in_file: bool,
        ) {
            let directory = tempfile::tempdir().unwrap();
            let mut table = match in_file {
                true => RowTable::in_directory(directory.path()).unwrap(),
                false => RowTable::in_memory().unwrap(),
            };
            table.set_cache(0).unwrap();
            let mut expected = BTreeMap::<Vec<u8>, u64>::new();
            for keys in &batches {
                for key in keys {
                    *expected.entry(key.clone()).or_default() += 1;
                }
                table.merge(keys.iter().map(|key| (key.as_slice(), &Value::Count(1)))).unwrap();
            }
            let mut rows = table.rows();
            let mut all = Vec::new();
            while rows.advance().unwrap() {
                all.push((rows.key().to_vec(), Value::read(rows.value()).unwrap()));
            }
            prop_assert!(!rows.advance().unwrap());
            let expected: Vec<_> = expected.into_iter().map(|(key, n)| (key, Value::Count(n))).collect();
            prop_assert_eq!(all, expected);
            prop_assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }

        #[test]
        fn damaged_rows_are_an_error_and_no_panic(
            key in prop::collection::vec(any::<u8>(), 0..100), value in prop::collection::vec(any::<u8>(), 0..100)
        ) {
            if let Some(value) = Value::read(&value) {
                let _ = super::super::row::Row::read(&key, value);
            }
        }
    }

    #[test]
    fn more_rows_than_a_page_come_once_each() {
        let mut table = RowTable::in_memory().unwrap();
        let keys: Vec<_> = (1..=2_500_u32).map(u32::to_be_bytes).collect();
        table
            .merge(keys.iter().map(|key| (&key[..], &Value::Nothing)))
            .unwrap();
        let mut rows = table.rows();
        for key in &keys {
            assert!(rows.advance().unwrap());
            assert_eq!(rows.key(), key);
        }
        assert!(!rows.advance().unwrap());
    }
}
