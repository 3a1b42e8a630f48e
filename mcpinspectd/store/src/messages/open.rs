//! Opening the store's file, and setting it aside if it is damaged.
//!
//! Unlike the registry, the store protects no one: a damaged one is moved aside, so that recording
//! goes on, and a file of a newer version is left alone. Nothing is checked at startup, since a file of
//! gigabytes takes minutes to read: SQLite notices damage when it meets it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

/// `mcpm`: distinguishes the file from other programs' databases.
const APPLICATION_ID: i32 = 0x6d63_706d;

/// One step per version of the schema, oldest first.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// The version of the schema after all steps.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Size of the writer's page cache, in KiB.
const WRITE_CACHE_KIB: i64 = 8192;

/// Size of a reader's.
const READ_CACHE_KIB: i64 = 4096;

/// Pages after which the write-ahead log is merged into the file: 8 MiB.
const CHECKPOINT_PAGES: i64 = 2048;

/// Bytes to which the log is then truncated.
const LOG_KEPT: i64 = 16 << 20;

/// How long to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The suffix of a file that was set aside.
const ASIDE: &str = ".damaged";

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// It is damaged, or not one of our databases.
    #[error("damaged: {0}")]
    Damaged(String),
    /// It was written by a newer version of this program.
    #[error("written by a newer version of this program (schema {0}, known {NEWEST})")]
    Newer(u32),
    /// It cannot be read or written now.
    #[error("{0}")]
    Failed(rusqlite::Error),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            Self::Damaged(error.to_string())
        } else {
            Self::Failed(error)
        }
    }
}

/// Whether an error says that the file is damaged.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Opens the file at `path` to write it, or creates it.
pub(super) fn create(path: &Path) -> Result<Connection, Unusable> {
    // Messages are for root and the file's group. If the file cannot be created, SQLite says why.
    let _ = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(path);
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let version = version(&connection)?;
    if version == 0 {
        // Before the first table: space that retention frees goes back to the file system.
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A crash of the program loses nothing, one of the machine only the last moments.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -WRITE_CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    if version < NEWEST {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have come first.
        let version = self::version(&transaction)?;
        for step in MIGRATIONS.iter().skip(version as usize) {
            transaction.execute_batch(step)?;
        }
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", NEWEST)?;
        transaction.commit()?;
    }
    Ok(connection)
}

/// Opens the existing file at `path` for reading.
pub(super) fn read(path: &Path) -> Result<Connection, Unusable> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -READ_CACHE_KIB)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    if version(&connection)? == 0 {
        return Err(Unusable::Damaged("it has no tables".to_owned()));
    }
    Ok(connection)
}

/// Opens the file at `path` for another module that reads it.
///
/// # Errors
/// Why it cannot be read, for a person.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, String> {
    read(path).map_err(|error| format!("cannot read the message store: {error}"))
}

/// The version of the file's schema; 0 for an empty file.
fn version(connection: &Connection) -> Result<u32, Unusable> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let tables: u32 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if application != APPLICATION_ID && (tables > 0 || application != 0) {
        return Err(Unusable::Damaged(
            "it belongs to another program".to_owned(),
        ));
    }
    if version > NEWEST {
        return Err(Unusable::Newer(version));
    }
    Ok(version)
}

/// Moves the file at `path` and its logs aside, replacing any set aside earlier. Returns the new path.
pub(super) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for log in ["-wal", "-shm"] {
        let (from, to) = (
            with_suffix(path, log),
            with_suffix(path, &format!("{ASIDE}{log}")),
        );
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let _ = fs::remove_file(&to);
            }
            other => other?,
        }
    }
    let aside = with_suffix(path, ASIDE);
    fs::rename(path, &aside)?;
    Ok(aside)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
