//! Fleets that outgrow one machine: the same rows, kept and combined by ClickHouse.
//!
//! A collector turns what it reads into [rows](super::row::Row) and sends those, so the engine holds what is
//! known, not what was said, unless it is asked to keep events too: it grows with hosts, servers, tools and
//! definitions, and hardly with time. Two halves of a collection are combined in the engine as in
//! [`Value::merge`](super::value::Value::merge): the earliest, the latest, a sum. So the report over its rows is that over the files.
//!
//! - [`schema`]: the tables
//! - [`columns`]: a value as columns, and back; [`seen_item`]: what was seen, as columns, and back
//! - [`batch`] and [`load`]: sending rows, each exactly once
//! - [`query`]: rows from the engine, in order, from the answers to three questions: [`facts`],
//!   [`inventory`] and [`sighting_rows`]; [`sorted`]: what these have in common
//! - [`keep`]: removing old events
//!
//! How statements reach the engine is up to the caller: see [`Engine`].

pub mod batch;
pub mod columns;
pub mod facts;
pub mod inventory;
pub mod keep;
pub mod load;
pub mod query;
pub mod schema;
pub mod seen_item;
pub mod sighting_rows;
pub mod sorted;

use std::io::{self, Read};

use thiserror::Error;

/// Codes of transient errors: overload, timeouts, too many parts that were not merged yet.
const PASSING: &[u32] = &[
    159, 160, 164, 202, 209, 210, 236, 241, 242, 243, 252, 285, 319, 999,
];

/// Why the engine did not do something.
#[derive(Debug, Error)]
pub enum EngineError {
    /// It cannot be reached, or the connection broke.
    #[error("cannot reach ClickHouse: {0}")]
    Unreachable(String),
    /// It refused.
    #[error("ClickHouse refused: {text}")]
    Refused {
        /// Its code, if it named one.
        code: Option<u32>,
        /// What it said.
        text: String,
    },
    /// It has no tables, or those of another version.
    #[error(
        "the database has schema version {found}, but this program needs {needed}; run `mcpinspect fleet schema --clickhouse URL`"
    )]
    Schema {
        /// The version found; 0 for none.
        found: u64,
        /// The required version.
        needed: u64,
    },
    /// Rows cannot be read or written on this side.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl EngineError {
    /// Whether it is worth trying again.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused { code, .. } => code.is_some_and(|code| PASSING.contains(&code)),
            Self::Schema { .. } | Self::Io(_) => false,
        }
    }
}

/// Carries statements to the engine.
pub trait Engine {
    /// The readable answer.
    type Answer: Read;

    /// Carries out a statement with these bytes as its data.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn send(&self, statement: &str, data: Vec<u8>) -> Result<(), EngineError>;

    /// Asks, and returns the answer as it comes.
    ///
    /// # Errors
    /// See [`EngineError`].
    fn query(&self, question: &str) -> Result<Self::Answer, EngineError>;
}
