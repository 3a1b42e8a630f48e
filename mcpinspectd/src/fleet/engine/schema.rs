//! The tables.
//!
//! `sights` has a line for each row: when it was first and last true, in an engine that merges lines of one
//! key by itself. `counts` has numbers that must be added up exactly once, so each line carries the batch
//! that it came with, and a batch that is sent again replaces itself. Columns beside the key are for
//! people's own questions, and so are the views.
//!
//! `events` has each event of the daemon, if the loader is asked to send them: by hour and host, and by month to be
//! removed. One that is sent again replaces itself.
//!
//! Only what ClickHouse 18.16 has is used, the version in Debian, so that it runs on any.

use super::{Engine, EngineError};
use std::io::Read as _;

/// Counts up when tables change.
pub const VERSION: u64 = 1;

/// The name of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database(String);

impl Database {
    /// The database of this name; `None` unless it is letters, digits and underscores.
    pub fn new(name: &str) -> Option<Self> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = !name.is_empty() && name.len() <= 64 && name.chars().all(fits);
        is_name.then(|| Self(name.to_owned()))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

const TABLES: &[&str] = &[
    "CREATE DATABASE IF NOT EXISTS {db}",
    "CREATE TABLE IF NOT EXISTS {db}.sights (
    key String,
    part String,
    server String,
    tool String,
    detail String,
    machine String,
    first AggregateFunction(min, UInt64),
    last AggregateFunction(max, UInt64),
    said AggregateFunction(min, String),
    newest AggregateFunction(max, String),
    service AggregateFunction(max, String),
    event AggregateFunction(max, UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY tuple() PRIMARY KEY key ORDER BY (key, part, server, tool, detail, machine)",
    "CREATE TABLE IF NOT EXISTS {db}.incoming (
    key String,
    part String,
    server String,
    tool String,
    detail String,
    machine String,
    first UInt64,
    last UInt64,
    said String,
    newest String,
    service String,
    event UInt64
) ENGINE = Null",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.incoming_to_sights TO {db}.sights AS
SELECT key, part, server, tool, detail, machine,
    minState(first) AS first, maxState(last) AS last, minState(said) AS said,
    maxState(newest) AS newest, maxState(service) AS service, maxState(event) AS event
FROM {db}.incoming GROUP BY key, part, server, tool, detail, machine",
    "CREATE TABLE IF NOT EXISTS {db}.counts (
    key String,
    batch String,
    n0 UInt64,
    n1 UInt64,
    n2 UInt64,
    n3 UInt64,
    n4 UInt64,
    n5 UInt64
) ENGINE = ReplacingMergeTree PARTITION BY tuple() ORDER BY (key, batch)",
    "CREATE TABLE IF NOT EXISTS {db}.events (
    time DateTime,
    micros UInt64,
    machine String,
    host String,
    event String,
    severity String,
    server String,
    tool String,
    hash String,
    category String,
    pattern String
) ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(time) PRIMARY KEY (toStartOfHour(time), machine)
ORDER BY (toStartOfHour(time), machine, micros, event, severity, server, tool, hash, category, pattern)",
    "CREATE VIEW IF NOT EXISTS {db}.definitions AS
SELECT server, tool, detail AS hash, machine,
    toDateTime(intDiv(minMerge(first), 1000000)) AS first_seen,
    toDateTime(intDiv(maxMerge(last), 1000000)) AS last_seen
FROM {db}.sights WHERE part = 'tool' GROUP BY server, tool, detail, machine",
    "CREATE VIEW IF NOT EXISTS {db}.servers AS
SELECT server, machine,
    toDateTime(intDiv(minMerge(first), 1000000)) AS first_seen,
    toDateTime(intDiv(maxMerge(last), 1000000)) AS last_seen
FROM {db}.sights WHERE part = 'server' GROUP BY server, machine",
    "CREATE VIEW IF NOT EXISTS {db}.hosts AS
SELECT machine, substring(maxMerge(newest), 9) AS host,
    toDateTime(intDiv(minMerge(first), 1000000)) AS first_entry,
    toDateTime(intDiv(maxMerge(last), 1000000)) AS last_entry
FROM {db}.sights WHERE part = 'host' GROUP BY machine",
    "CREATE TABLE IF NOT EXISTS {db}.schema (version UInt64) ENGINE = ReplacingMergeTree PARTITION BY tuple() ORDER BY version",
];

/// The statements that make the tables.
pub fn statements(database: &Database) -> impl Iterator<Item = String> {
    let version = format!("INSERT INTO {{db}}.schema VALUES ({VERSION})");
    let all = TABLES.iter().map(|text| (*text).to_owned());
    all.chain([version])
        .map(|text| text.replace("{db}", database.name()))
}

/// Makes the tables that are not there.
///
/// # Errors
/// See [`EngineError`].
pub fn apply(engine: &impl Engine, database: &Database) -> Result<(), EngineError> {
    for statement in statements(database) {
        engine.send(&statement, Vec::new())?;
    }
    Ok(())
}

/// Checks that the tables are those that this program knows.
///
/// # Errors
/// See [`EngineError`].
pub fn check(engine: &impl Engine, database: &Database) -> Result<(), EngineError> {
    let question = format!("SELECT max(version) FROM {}.schema", database.name());
    let mut answer = String::new();
    match engine.ask(&question) {
        Ok(rows) => rows.take(64).read_to_string(&mut answer)?,
        // There is no such table, or no such database.
        Err(EngineError::Refused {
            code: Some(60 | 81),
            ..
        }) => 0,
        Err(error) => return Err(error),
    };
    match answer.trim().parse().unwrap_or(0) {
        VERSION => Ok(()),
        found => Err(EngineError::Schema {
            found,
            needed: VERSION,
        }),
    }
}
