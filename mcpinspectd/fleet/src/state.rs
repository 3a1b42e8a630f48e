//! What earlier runs have read: their rows, and how far each input was read.
//!
//! Both are in one database. A run continues in a copy of it, which replaces it in one step. So a run that is
//! killed leaves the state of the previous run, and what it read is read again: nothing is counted twice, and
//! nothing is missed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::TempPath;
use thiserror::Error;

use super::table::{RowTable, VERSION, io_error};

const NAME: &str = "fleet.state";
/// How states began that were no databases, before their version in four bytes.
const OLD_MAGIC: &[u8; 16] = b"mcpinspect fleet";
/// How much of an input to check to see that it is the same.
const WITNESS: u64 = 4 << 10;

/// Why a state cannot be used.
#[derive(Debug, Error)]
pub enum StateError {
    /// Another program uses it.
    #[error("another `mcpinspect fleet` is using the state in {0}; wait for it to end")]
    InUse(PathBuf),
    /// It is not one.
    #[error(
        "{0} is not the state of a fleet, or it is damaged; remove it to read everything again"
    )]
    Damaged(PathBuf),
    /// It is of another version.
    #[error(
        "{path} has version {version}, but this program needs version {VERSION}; remove it to read everything again"
    )]
    Version {
        /// Which file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A file cannot be read or written.
    #[error("cannot use the state {path}: {error}")]
    Io {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// How far an input was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Where it was, so that it can be forgotten when it is gone.
    path: PathBuf,
    /// How far.
    at: At,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum At {
    /// A file that is read from start to end.
    Offset {
        /// The position after the last entry.
        offset: u64,
        /// The hash of what is before it.
        witness: String,
    },
    /// A journal.
    Cursor {
        /// The last entry that was read.
        cursor: Option<String>,
        /// How many entries the file had; `None` if it was not read to its end.
        entries: Option<u64>,
    },
}

/// How far all inputs were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Positions(BTreeMap<String, Position>);

impl Positions {
    /// Where to continue in a file; at its start, if it is not the one that was read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn offset(&self, file: &File) -> io::Result<u64> {
        match self.0.get(&file_key(file)?).map(|position| &position.at) {
            Some(At::Offset {
                offset,
                witness: was,
            }) if file.metadata()?.len() >= *offset && witness(file, *offset)? == *was => {
                Ok(*offset)
            }
            _ => Ok(0),
        }
    }

    /// Remembers that a file was read up to `offset`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn set_offset(&mut self, path: &Path, file: &File, offset: u64) -> io::Result<()> {
        let at = At::Offset {
            offset,
            witness: witness(file, offset)?,
        };
        let path = std::path::absolute(path)?;
        self.0.insert(file_key(file)?, Position { path, at });
        Ok(())
    }

    /// The last entry read from a journal, and how many entries it had then.
    pub fn cursor(&self, id: &str) -> (Option<&str>, Option<u64>) {
        match self.0.get(&journal_key(id)).map(|position| &position.at) {
            Some(At::Cursor { cursor, entries }) => (cursor.as_deref(), *entries),
            _ => (None, None),
        }
    }

    /// Remembers how far a journal was read.
    pub fn set_cursor(
        &mut self,
        path: &Path,
        id: &str,
        cursor: Option<String>,
        entries: Option<u64>,
    ) {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let at = At::Cursor { cursor, entries };
        self.0.insert(journal_key(id), Position { path, at });
    }

    /// A name for these positions: different positions have different names.
    pub fn name(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        hex::encode(Sha256::digest(&text).get(..16).unwrap_or_default())
    }

    fn read(rows: &RowTable) -> io::Result<Self> {
        let read = || {
            let connection = rows.connection();
            let mut statement = connection.prepare("SELECT input, position FROM inputs")?;
            let inputs = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            inputs.collect::<rusqlite::Result<Vec<(String, String)>>>()
        };
        let inputs = read().map_err(io_error)?.into_iter();
        let inputs = inputs.map(|(input, position)| Ok((input, serde_json::from_str(&position)?)));
        Ok(Self(inputs.collect::<io::Result<_>>()?))
    }

    fn write(&self, rows: &RowTable) -> io::Result<()> {
        let connection = rows.connection();
        let cleared = connection.execute("DELETE FROM inputs", []);
        cleared.map_err(io_error)?;
        let insert = connection.prepare("INSERT INTO inputs (input, position) VALUES (?1, ?2)");
        let mut insert = insert.map_err(io_error)?;
        for (input, position) in &self.0 {
            let position = serde_json::to_string(position)?;
            insert.execute((input, position)).map_err(io_error)?;
        }
        Ok(())
    }

    /// Takes over what another run has read, and forgets inputs that are gone.
    pub fn update(&mut self, new: Self) {
        self.0.retain(|_, position| position.path.exists());
        self.0.extend(new.0);
    }
}

fn journal_key(id: &str) -> String {
    format!("journal {id}")
}

fn file_key(file: &File) -> io::Result<String> {
    let metadata = file.metadata()?;
    Ok(format!("file {}:{}", metadata.dev(), metadata.ino()))
}

fn witness(file: &File, offset: u64) -> io::Result<String> {
    let begin = offset.saturating_sub(WITNESS);
    let mut bytes = vec![0; usize::try_from(offset - begin).unwrap_or(0)];
    file.read_exact_at(&mut bytes, begin)?;
    Ok(hex::encode(Sha256::digest(&bytes)))
}

/// A directory with a state, locked while it is in use.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    _lock: File,
}

impl StateDirectory {
    /// Opens a directory, and creates it if there is none.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let path = directory.join(NAME);
        let failed = |error| StateError::Io {
            path: directory.to_owned(),
            error,
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let lock = options.open(directory.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StateError::InUse(directory.to_owned())),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The state, if there is one.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn load(&self) -> Result<Option<(Positions, RowTable)>, StateError> {
        let failed = |error| self.failed(error);
        let mut start = Vec::new();
        match File::open(&self.path) {
            Ok(file) => {
                let start_max = OLD_MAGIC.len() as u64 + 4;
                file.take(start_max)
                    .read_to_end(&mut start)
                    .map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        if let Some(version) = start.strip_prefix(OLD_MAGIC)
            && let Ok(version) = version.try_into()
        {
            return Err(self.other_version(u32::from_le_bytes(version)));
        }
        let rows = RowTable::open(&self.path).map_err(failed)?;
        match rows.version().map_err(failed)? {
            Some(VERSION) => {
                let positions = Positions::read(&rows).map_err(failed)?;
                Ok(Some((positions, rows)))
            }
            Some(other) => Err(self.other_version(other)),
            None => Err(StateError::Damaged(self.path.clone())),
        }
    }

    /// Begins the next state with what the current one has.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn resume(&self) -> Result<(NextState<'_>, Positions, RowTable), StateError> {
        let Some((positions, current)) = self.load()? else {
            let (next, rows) = self.begin()?;
            return Ok((next, Positions::default(), rows));
        };
        drop(current);
        let next = self.next()?;
        std::fs::copy(&self.path, &next.file).map_err(|error| self.failed(error))?;
        let rows = RowTable::open(&next.file).map_err(|error| self.failed(error))?;
        Ok((next, positions, rows))
    }

    /// Begins the next state without rows.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn begin(&self) -> Result<(NextState<'_>, RowTable), StateError> {
        let next = self.next()?;
        let create = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&next.file)?;
            RowTable::create(&next.file)
        };
        let rows = create().map_err(|error| self.failed(error))?;
        Ok((next, rows))
    }

    fn next(&self) -> Result<NextState<'_>, StateError> {
        let file = TempPath::try_from_path(self.path.with_extension("state.new"));
        Ok(NextState {
            directory: self,
            file: file.map_err(|error| self.failed(error))?,
        })
    }

    /// The error for rows that cannot be read or written.
    pub fn failed(&self, error: io::Error) -> StateError {
        let path = self.path.clone();
        match error.kind() {
            io::ErrorKind::InvalidData => StateError::Damaged(path),
            _ => StateError::Io { path, error },
        }
    }

    fn other_version(&self, version: u32) -> StateError {
        let path = self.path.clone();
        StateError::Version { path, version }
    }
}

/// What becomes the state once it is committed, and is removed otherwise.
#[derive(Debug)]
pub struct NextState<'a> {
    directory: &'a StateDirectory,
    file: TempPath,
}

impl NextState<'_> {
    /// Makes these rows and positions the state.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn commit(self, rows: &mut RowTable, positions: &Positions) -> Result<(), StateError> {
        let Self { directory, file } = self;
        let commit = || {
            positions.write(rows)?;
            rows.commit()?;
            File::open(&file)?.sync_all()?;
            file.persist(&directory.path)?;
            match directory.path.parent() {
                Some(parent) => File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        };
        commit().map_err(|error| directory.failed(error))
    }
}
