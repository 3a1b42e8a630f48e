//! The registry on disk, in SQLite.
//!
//! The registry decides and this module writes: it implements [`Storage`](mcpinspect_judge::registry::Storage),
//! and nothing else in the crate knows about SQLite.
//!
//! - `open`: opening the file, and refusing to if that could lose its pins
//! - `database`: the statements
//! - `backlog`: writes that are not on disk yet
//! - `direct`: a storage that writes at once
//! - `write_behind`: a storage that writes on a separate thread, for the daemon

mod backlog;
mod database;
mod direct;
mod open;
mod values;
mod write_behind;

use std::path::Path;

use mcpinspect_judge::registry::{Registry, StorageError};
use rusqlite::Connection;

use self::database::Database;
use self::direct::DirectStorage;
pub use self::open::OpenError;
pub use self::write_behind::{Outbox, Writer};

/// Opens the registry at `path`, or creates it.
///
/// # Errors
/// If the file cannot be used as it is; [`OpenError`] says what to do. Never starts over on its own:
/// that would accept every tool as it is now.
pub fn open(path: &Path) -> Result<Registry, OpenError> {
    registry(open::create(path)?, path)
}

/// Opens the registry at `path`, or creates it. It is written by a thread of its own, the one that
/// [`Writer::start`] starts. Until then everything waits.
///
/// # Errors
/// Those of [`open()`].
pub fn open_write_behind<T: Send + 'static>(
    path: &Path,
) -> Result<(Registry, Writer<T>), OpenError> {
    let writer = Database::new(open::create(path)?);
    let reader = Database::new(open::reader(path)?);
    let open = || {
        let (storage, writer) = write_behind::new(writer, reader)?;
        Ok((Registry::new(Box::new(storage))?, writer))
    };
    open().map_err(|source| unusable(source, path))
}

/// Opens the registry at `path`, which another process created, to read it and to decide.
///
/// # Errors
/// If there is none, or it cannot be used as it is.
pub fn open_existing(path: &Path) -> Result<Registry, OpenError> {
    registry(open::existing(path)?, path)
}

/// Opens the registry at `path`, which another process created, for reading. Everything that would
/// write fails.
///
/// # Errors
/// If there is none, or it cannot be used as it is.
pub fn open_read_only(path: &Path) -> Result<Registry, OpenError> {
    registry(open::read_only(path)?, path)
}

/// Opens the database at `path`, which another process created, for another module that reads it.
///
/// # Errors
/// Those of [`open_read_only`].
pub(crate) fn open_database(path: &Path) -> Result<Connection, OpenError> {
    open::read_only(path)
}

fn registry(connection: Connection, path: &Path) -> Result<Registry, OpenError> {
    let open = || -> Result<Registry, StorageError> {
        let storage = DirectStorage::new(Database::new(connection))?;
        Registry::new(Box::new(storage))
    };
    open().map_err(|source| unusable(source, path))
}

fn unusable(source: StorageError, path: &Path) -> OpenError {
    OpenError::Unusable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod contract;
#[cfg(test)]
mod tests;
