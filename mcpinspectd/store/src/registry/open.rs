//! Opening the registry's file, and refusing to if that could lose its pins.
//!
//! A file that is damaged, belongs to another program or has a newer version stops the start: going on
//! without it would accept every tool as it is now. A reader needs no right to write, not even for the
//! files that a database creates beside itself.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpinspect_judge::registry::StorageError;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::values::failed;

/// `mcpi`: distinguishes the file from other programs' databases.
const APPLICATION_ID: i32 = 0x6d63_7069;

/// One step per version of the schema, oldest first.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
];

/// The version of the schema after all steps.
const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Size of the page cache, in KiB. The kernel caches the file too, and the registry keeps
/// what it needs often in memory.
const PAGE_CACHE_KIB: i64 = 512;

/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the registry could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read or written.
    #[error("cannot open the tool registry {path}: {source}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The database's error.
        source: StorageError,
    },
    /// The file must not be written.
    #[error("not permitted to write the tool registry {path}")]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error(
        "the tool registry {path} is damaged ({detail}); starting without it would accept every tool as it is now. Restore it from a backup, or remove it to start with an empty registry"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        detail: String,
    },
    /// The file belongs to another program.
    #[error("{path} is another program's database, not a tool registry")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by an older version of this program, and was opened only for reading.
    #[error(
        "the tool registry {path} has version {found}, but this program reads only version {known}; restart the daemon to upgrade the file"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// The file was written by a newer version of this program.
    #[error(
        "the tool registry {path} has version {found}, but this program supports only versions up to {known}; upgrade the program"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The file's version.
        found: u32,
        /// The newest supported version.
        known: u32,
    },
}

/// Opens the file at `path`, or creates it.
pub(super) fn create(path: &Path) -> Result<Connection, OpenError> {
    Connection::open(path)
        .map_err(Problem::from)
        .and_then(|connection| prepare(connection, path))
        .map_err(|problem| problem.at(path))
}

/// Opens the existing file at `path`.
pub(super) fn existing(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .map_err(Problem::from)
        .and_then(|connection| prepare(connection, path))
        .map_err(|problem| problem.at(path))
}

/// Opens a second connection to the file at `path`, which [`create`] opened, for reading.
pub(super) fn reader(path: &Path) -> Result<Connection, OpenError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB / 4)?;
        Ok(connection)
    };
    open().map_err(|problem: Problem| problem.at(path))
}

/// Opens the existing file at `path`, and never writes it.
pub(super) fn read_only(path: &Path) -> Result<Connection, OpenError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(read_only_uri(path), flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        match check(&connection)? {
            NEWEST => Ok(connection),
            older => Err(Problem::Older(older)),
        }
    };
    open().map_err(|problem| problem.at(path))
}

/// The file as a URI. Without a write-ahead log beside it, no process has it open, and it is declared
/// immutable: otherwise a user who may not create files in its folder could not read it.
fn read_only_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                uri.push(char::from(*byte));
            }
            other => {
                // Writing to a string cannot fail.
                let _ = write!(uri, "%{other:02x}");
            }
        }
    }
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if !Path::new(&log).exists() {
        uri.push_str("?immutable=1");
    }
    uri
}

/// Checks that the file is intact and a registry. Returns the version of its schema.
fn check(connection: &Connection) -> Result<u32, Problem> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && (tables > 0 || application != 0) {
        return Err(Problem::Foreign);
    }
    if version > NEWEST {
        return Err(Problem::Newer(version));
    }
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        return Err(Problem::Damaged(verdict));
    }
    Ok(version)
}

fn prepare(mut connection: Connection, path: &Path) -> Result<Connection, Problem> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    check(&connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // A step may replace a table that others refer to.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have come first.
    let version: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    for step in MIGRATIONS.iter().skip(version as usize) {
        transaction.execute_batch(step)?;
    }
    if version < NEWEST {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", NEWEST)?;
        tracing::info!(path = %path.display(), from = version, to = NEWEST, "tool registry upgraded");
    }
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

/// Why a database cannot be used.
enum Problem {
    Sqlite(rusqlite::Error),
    Foreign,
    Newer(u32),
    Older(u32),
    Damaged(String),
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Problem {
    /// This problem as the error of the file at `path`.
    fn at(self, path: &Path) -> OpenError {
        let path = path.to_owned();
        let known = NEWEST;
        match self {
            Self::Newer(found) => OpenError::Newer { path, found, known },
            Self::Older(found) => OpenError::Older { path, found, known },
            Self::Foreign => OpenError::Foreign { path },
            Self::Damaged(detail) => OpenError::Damaged { path, detail },
            Self::Sqlite(source) => match source.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => OpenError::Damaged {
                    path,
                    detail: source.to_string(),
                },
                Some(ErrorCode::ReadOnly) => OpenError::ReadOnly { path },
                _ => OpenError::Unusable {
                    path,
                    source: failed(source),
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upgrading_an_older_file_keeps_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a registry?#%.db");
        let old = Connection::open(&path).unwrap();
        old.execute_batch(MIGRATIONS[0]).unwrap();
        old.execute_batch(
            "INSERT INTO item VALUES (1, 'files', 'tool', 'read', x'00', 1, NULL, x'00', NULL);
             INSERT INTO decision VALUES (1, 1, NULL, 'unpin', 0, 5, '');",
        )
        .unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        old.pragma_update(None, "user_version", 1).unwrap();
        drop(old);
        assert!(matches!(
            read_only(&path),
            Err(OpenError::Older {
                found: 1,
                known: NEWEST,
                ..
            })
        ));
        let told = |connection: Connection| -> u32 {
            connection
                .query_row(
                    "SELECT told FROM decision JOIN item ON item.id = item WHERE server = 'files'",
                    [],
                    |row| row.get(0),
                )
                .unwrap()
        };
        assert_eq!(told(create(&path).unwrap()), 1);
        assert_eq!(told(read_only(&path).unwrap()), 1);
    }

    #[test]
    fn pins_from_before_there_were_owners_belong_to_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.db");
        let old = Connection::open(&path).unwrap();
        for step in &MIGRATIONS[..4] {
            old.execute_batch(step).unwrap();
        }
        old.execute_batch(
            "INSERT INTO item VALUES (7, 'files', 'tool', 'read', x'01', 1, 1000, x'02', NULL, NULL);
             INSERT INTO version VALUES (7, x'01', '{}', 1, 's', 2);
             INSERT INTO decision VALUES (3, 7, x'01', 'approve', 1000, 5, 'why', 1);
             INSERT INTO name VALUES ('files', 'f', 1);",
        )
        .unwrap();
        old.pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        old.pragma_update(None, "user_version", 4).unwrap();
        drop(old);
        let new = create(&path).unwrap();
        let owner = |sql| new.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(owner("SELECT owner FROM name WHERE fingerprint = 'f'"), -3);
        let joined = "SELECT owner FROM item JOIN version ON version.item = item.id
                      JOIN decision ON decision.item = item.id
                      WHERE decision.id = 3 AND pinned = version.hash AND pinned_by = 1000";
        assert_eq!(owner(joined), -3);
        assert_eq!(owner("PRAGMA foreign_keys"), 1);
        let broken = new.query_row("PRAGMA foreign_key_check", [], |_| Ok(()));
        assert!(matches!(broken, Err(rusqlite::Error::QueryReturnedNoRows)));
        // The rows that refer to an item go with it, as before.
        new.execute("DELETE FROM item", []).unwrap();
        assert_eq!(owner("SELECT count(*) FROM version"), 0);
    }

    #[test]
    fn a_reader_creates_and_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.db");
        assert!(read_only(&path).is_err() && existing(&path).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let daemon = create(&path).unwrap();
        let reader = read_only(&path).unwrap();
        assert!(reader.execute("DELETE FROM item", []).is_err());
        let count = |sql| reader.query_row(sql, [], |row| row.get::<_, u32>(0));
        daemon
            .execute("INSERT INTO name VALUES (1000, 'a', 'f', 1)", [])
            .unwrap();
        assert_eq!(count("SELECT count(*) FROM name").unwrap(), 1);
    }
}
