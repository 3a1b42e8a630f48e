//! The files behind the views, and whose rows may be read.
//!
//! They are opened once, before the statement is read, and stay open until the process ends: a query is
//! all that its process does. So they are leaked, which spares every cursor a reference count.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use mcpinspect_engine::history::Viewer;
use rusqlite::Connection;

use super::views::Source;
use crate::messages as message_store;
use crate::registry as store;

/// Virtual machine steps of SQLite between two checks of the clock.
pub(super) const STEPS: i32 = 1_000;

/// An open file; or why it cannot be read.
type Opened = Result<&'static Connection, String>;

/// The files behind the views.
#[derive(Debug)]
pub(super) struct Stores {
    messages: Opened,
    registry: Opened,
    pub(super) viewer: Viewer,
}

thread_local! {
    static STORES: Cell<Option<&'static Stores>> = const { Cell::new(None) };
}

impl Stores {
    /// Opens the files for this thread. Reading ends at `end`. All reads see one point in time.
    pub(super) fn open(messages: &Path, registry: Option<&Path>, viewer: Viewer, end: Instant) {
        let messages = match messages.exists() {
            true => message_store::open_to_read(messages),
            false => Err("no message store: nothing was recorded".to_owned()),
        };
        let registry = match registry.filter(|path| path.exists()) {
            Some(path) => store::open_database(path).map_err(|error| error.to_string()),
            None => Err("no tool registry found".to_owned()),
        };
        let ready = |opened: Result<Connection, String>, table| {
            opened.and_then(|connection| {
                ready(connection, table, end).map_err(|error| error.to_string())
            })
        };
        STORES.set(Some(Box::leak(Box::new(Self {
            messages: ready(messages, "session"),
            registry: ready(registry, "item"),
            viewer,
        }))));
    }

    /// The stores of this thread.
    pub(super) fn of_this_thread() -> Result<&'static Self, String> {
        STORES.get().ok_or_else(|| "no store was opened".to_owned())
    }

    /// The file behind a view.
    pub(super) fn connection(&self, source: Source) -> Opened {
        match source {
            Source::Messages => self.messages.clone(),
            Source::Registry => self.registry.clone(),
        }
    }
}

/// Begins to read, so that SQLite needs no further file later, and bounds it.
fn ready(
    mut connection: Connection,
    table: &str,
    end: Instant,
) -> rusqlite::Result<&'static Connection> {
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "query_only", true)?;
    connection.progress_handler(STEPS, Some(move || Instant::now() > end))?;
    connection.execute_batch("BEGIN")?;
    let _: bool = connection.query_row(
        &format!("SELECT EXISTS (SELECT 1 FROM {table})"),
        [],
        |row| row.get(0),
    )?;
    Ok(Box::leak(Box::new(connection)))
}
