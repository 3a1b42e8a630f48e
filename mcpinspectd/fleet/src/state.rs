//! What earlier runs have read: their rows, and how far each input was read.
//!
//! Both are in one file, which is replaced in one step. So a run that is killed leaves the state of
//! the previous run, and what it read is read again: nothing is counted twice, and nothing is missed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::run::{Run, RunWriter};

const NAME: &str = "fleet.state";
const MAGIC: &[u8; 16] = b"mcpinspect fleet";
/// Incremented when rows change their meaning.
const VERSION: u32 = 1;
/// Longest list of positions: a million inputs.
const POSITIONS_MAX: u64 = 512 << 20;
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
    pub fn load(&self) -> Result<Option<(Positions, Run)>, StateError> {
        let damaged = || StateError::Damaged(self.path.clone());
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => self.failed(error),
        };
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic).map_err(failed)?;
        if magic != *MAGIC {
            return Err(damaged());
        }
        let mut version = [0; 4];
        file.read_exact(&mut version).map_err(failed)?;
        let version = u32::from_le_bytes(version);
        if version != VERSION {
            let path = self.path.clone();
            return Err(StateError::Version { path, version });
        }
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(failed)?;
        let length = u64::from_le_bytes(length);
        if length > POSITIONS_MAX {
            return Err(damaged());
        }
        let mut positions = Vec::new();
        let read = (&file).take(length).read_to_end(&mut positions);
        if read.map_err(failed)? as u64 != length {
            return Err(damaged());
        }
        let positions = serde_json::from_slice(&positions).map_err(|_| damaged())?;
        let begin = file.stream_position().map_err(failed)?;
        let end = file.metadata().map_err(failed)?.len();
        Ok(Some((positions, Run::in_file(file, begin, end))))
    }

    /// Begins a new state, beside the current one.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn begin(&self, positions: &Positions) -> Result<RunWriter, StateError> {
        let begin = || {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.beside())?;
            let positions = serde_json::to_vec(positions)?;
            file.write_all(MAGIC)?;
            file.write_all(&VERSION.to_le_bytes())?;
            file.write_all(&(positions.len() as u64).to_le_bytes())?;
            file.write_all(&positions)?;
            let begin = file.stream_position()?;
            Ok(RunWriter::in_file(file, begin))
        };
        begin().map_err(|error| self.failed(error))
    }

    /// Makes the new state the current one.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn commit(&self) -> Result<(), StateError> {
        let commit = || {
            File::open(self.beside())?.sync_all()?;
            std::fs::rename(self.beside(), &self.path)?;
            match self.path.parent() {
                Some(directory) => File::open(directory)?.sync_all(),
                None => Ok(()),
            }
        };
        commit().map_err(|error| self.failed(error))
    }

    /// Gives up a new state that cannot be written.
    pub fn abandon(&self, error: io::Error) -> StateError {
        let _ = std::fs::remove_file(self.beside());
        self.failed(error)
    }

    fn failed(&self, error: io::Error) -> StateError {
        let path = self.path.clone();
        StateError::Io { path, error }
    }

    fn beside(&self) -> PathBuf {
        self.path.with_extension("state.new")
    }
}
