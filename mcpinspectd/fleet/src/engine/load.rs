//! Sends rows, each exactly once.
//!
//! What was read, and how far, is one state, which is replaced in one step; see [`state`](super::super::state).
//! While it contains rows, they are a batch that has to be sent, and how far inputs were read is the
//! batch's name. So a loader that is killed at any time sends the same rows under the same name
//! again, or none, and the engine takes them once. Batches are sent one part after another: an engine
//! that is behind makes the loader wait.

use std::thread;
use std::time::Duration;

use super::super::state::{StateDirectory, StateError};
use super::super::table::RowTable;
use super::batch::Batch;
use super::schema::Database;
use super::{Engine, EngineError};
use thiserror::Error;

/// Rows to send at once, and their bytes.
const ROWS_MAX: u64 = 250_000;
const BYTES_MAX: usize = 24 << 20;
/// Four-week spans whose events are sent at once. Each month is a separate part in the engine, which
/// takes a hundred.
const MONTHS_MAX: usize = 45;
/// The longest pause before the next try.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Why rows were not sent.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The engine did not take them.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

/// How patient a loader is.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How many times to try a part.
    pub tries: u32,
    /// The first pause; the next ones are longer.
    pub pause: Duration,
}

impl Default for Patience {
    /// About ten minutes.
    fn default() -> Self {
        Self {
            tries: 25,
            pause: Duration::from_millis(500),
        }
    }
}

/// Sends the batch that waits in the state, if there is one. Returns how many rows it has.
///
/// # Errors
/// See [`LoadError`]. The batch then keeps waiting.
pub fn pending(
    engine: &impl Engine,
    database: &Database,
    state: &StateDirectory,
    patience: Patience,
    on_retry: &mut dyn FnMut(&EngineError),
) -> Result<u64, LoadError> {
    let Some((positions, rows)) = state.load()? else {
        return Ok(0);
    };
    let name = positions.name();
    let sent = send(engine, database, &rows, &name, patience, on_retry)?;
    if sent > 0 {
        let (next, mut empty) = state.begin()?;
        next.commit(&mut empty, &positions)?;
    }
    Ok(sent)
}

fn send(
    engine: &impl Engine,
    database: &Database,
    rows: &RowTable,
    name: &str,
    patience: Patience,
    on_retry: &mut dyn FnMut(&EngineError),
) -> Result<u64, EngineError> {
    let mut rows = rows.rows();
    let mut batch = Batch::default();
    let mut sent = 0;
    loop {
        let is_more = rows.advance()?;
        if is_more {
            batch.add(&rows, name)?;
        }
        let is_full =
            batch.rows >= ROWS_MAX || batch.size() >= BYTES_MAX || batch.months >= MONTHS_MAX;
        if is_full || (!is_more && batch.rows > 0) {
            sent += batch.rows;
            let Batch {
                seen,
                facts,
                counts,
                events,
                ..
            } = std::mem::take(&mut batch);
            for (table, data) in [
                ("seen", seen),
                ("incoming", facts),
                ("counts", counts),
                ("events", events),
            ] {
                if data.is_empty() {
                    continue;
                }
                let into = format!("INSERT INTO {}.{table} FORMAT RowBinary", database.name());
                again(patience, on_retry, || engine.send(&into, data.clone()))?;
            }
        }
        if !is_more {
            return Ok(sent);
        }
    }
}

/// Tries until it succeeds, fails for good, or patience ends.
fn again(
    patience: Patience,
    on_retry: &mut dyn FnMut(&EngineError),
    mut attempt: impl FnMut() -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut pause = patience.pause;
    for left in (0..patience.tries.max(1)).rev() {
        match attempt() {
            Err(error) if error.passes() && left > 0 => on_retry(&error),
            other => return other,
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
    Ok(())
}
