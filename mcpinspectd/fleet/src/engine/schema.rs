//! The tables.
//!
//! `seen` says when each host first and last saw each server, version and tool, in an engine that merges
//! lines about the same thing by itself. It has most of the lines, and questions about one server read only
//! that server's. `facts` has everything else, by the key of the row. `counts` has numbers that must be added up
//! exactly once, so each line carries the batch that it came with, and a batch that is sent again replaces
//! itself. Columns beside the key are for people's own questions, and so are the views.
//!
//! `events` has each event of the daemon, if the loader is asked to send them: by hour and host, and by month so
//! that they can be removed. One that is sent again replaces itself. `journal` is for shippers that send whole entries.
//!
//! Only features of ClickHouse 18.16, the version in Debian, are used, so that it runs on any version.

use super::{Engine, EngineError};
use std::io::Read as _;

/// Incremented when tables change.
pub const VERSION: u64 = 2;

/// The name of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database(String);

impl Database {
    /// The database with this name; `None` unless it is letters, digits and underscores.
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
    "CREATE TABLE IF NOT EXISTS {db}.seen (
    server String,
    part UInt8,
    tool String,
    detail String,
    machine FixedString(16),
    first AggregateFunction(min, UInt64),
    last AggregateFunction(max, UInt64)
) ENGINE = AggregatingMergeTree PARTITION BY tuple() ORDER BY (server, part, tool, detail, machine)",
    "CREATE TABLE IF NOT EXISTS {db}.facts (
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
    "CREATE MATERIALIZED VIEW IF NOT EXISTS {db}.incoming_to_facts TO {db}.facts AS
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
    "CREATE TABLE IF NOT EXISTS {db}.journal (
    received DateTime DEFAULT now(),
    entry String
) ENGINE = MergeTree PARTITION BY toYYYYMM(received) ORDER BY received",
    "CREATE TABLE IF NOT EXISTS {db}.schema (version UInt64) ENGINE = ReplacingMergeTree PARTITION BY tuple() ORDER BY version",
];

/// Views, which hold nothing and are recreated. Lines about the same thing that were not merged yet are not
/// combined here: that would take most of the time of a question.
const VIEWS: &[(&str, &str)] = &[
    (
        "definitions",
        "SELECT server, tool, detail AS hash, lower(hex(machine)) AS host_id,
    toDateTime(intDiv(finalizeAggregation(first), 1000000)) AS first_seen,
    toDateTime(intDiv(finalizeAggregation(last), 1000000)) AS last_seen
FROM {db}.seen WHERE part = 3",
    ),
    (
        "servers",
        "SELECT server, lower(hex(machine)) AS host_id,
    toDateTime(intDiv(finalizeAggregation(first), 1000000)) AS first_seen,
    toDateTime(intDiv(finalizeAggregation(last), 1000000)) AS last_seen
FROM {db}.seen WHERE part = 0",
    ),
    (
        "versions",
        "SELECT server, detail AS version, lower(hex(machine)) AS host_id,
    toDateTime(intDiv(finalizeAggregation(first), 1000000)) AS first_seen,
    toDateTime(intDiv(finalizeAggregation(last), 1000000)) AS last_seen
FROM {db}.seen WHERE part = 2",
    ),
    (
        "hosts",
        "SELECT machine AS host_id, substring(maxMerge(newest), 9) AS host,
    toDateTime(intDiv(minMerge(first), 1000000)) AS first_entry,
    toDateTime(intDiv(maxMerge(last), 1000000)) AS last_entry
FROM {db}.facts WHERE part = 'host' GROUP BY machine",
    ),
];

/// From version 1, which had one table for everything. What is copied twice is the same, so this can be
/// repeated after an interruption.
const FROM_1: &[&str] = &[
    "INSERT INTO {db}.seen SELECT server,
    toUInt8(multiIf(part = 'server', 0, part = 'fingerprint', 1, part = 'version', 2, 3)),
    tool, detail, toFixedString(unhex(machine), 16), first, last
FROM {db}.sights WHERE part IN ('server', 'fingerprint', 'version', 'tool')",
    "INSERT INTO {db}.facts SELECT key, part, server, tool, detail, machine, first, last, said, newest, service, event
FROM {db}.sights WHERE part NOT IN ('server', 'fingerprint', 'version', 'tool', 'host_server')",
];

/// What earlier versions had.
const OLD: &[&str] = &[
    "DROP TABLE IF EXISTS {db}.incoming_to_sights",
    "DROP TABLE IF EXISTS {db}.sights",
];

/// The statements that create the tables.
pub fn statements(database: &Database) -> impl Iterator<Item = String> {
    let tables = TABLES.iter().map(|text| (*text).to_owned());
    let all = tables.chain(views()).chain([version()]);
    all.map(|text| text.replace("{db}", database.name()))
}

fn views() -> impl Iterator<Item = String> {
    VIEWS.iter().flat_map(|(name, text)| {
        [
            format!("DROP TABLE IF EXISTS {{db}}.{name}"),
            format!("CREATE VIEW {{db}}.{name} AS\n{text}"),
        ]
    })
}

fn version() -> String {
    format!("INSERT INTO {{db}}.schema VALUES ({VERSION})")
}

/// Creates missing tables, and brings those of an earlier version up to date. No loader may run
/// meanwhile.
///
/// # Errors
/// See [`EngineError`].
pub fn apply(engine: &impl Engine, database: &Database) -> Result<(), EngineError> {
    let found = found(engine, database)?;
    if found > VERSION {
        return Err(EngineError::Schema {
            found,
            needed: VERSION,
        });
    }
    let send = |text: &str| engine.send(&text.replace("{db}", database.name()), Vec::new());
    TABLES.iter().try_for_each(|text| send(text))?;
    if found == 1 {
        FROM_1.iter().try_for_each(|text| send(text))?;
    }
    views().try_for_each(|text| send(&text))?;
    send(&version())?;
    OLD.iter().try_for_each(|text| send(text))
}

/// Checks that the tables are those that this program supports.
///
/// # Errors
/// See [`EngineError`].
pub fn check(engine: &impl Engine, database: &Database) -> Result<(), EngineError> {
    match found(engine, database)? {
        VERSION => Ok(()),
        found => Err(EngineError::Schema {
            found,
            needed: VERSION,
        }),
    }
}

/// The version of the tables; 0 if there are none.
fn found(engine: &impl Engine, database: &Database) -> Result<u64, EngineError> {
    let question = format!("SELECT max(version) FROM {}.schema", database.name());
    let mut answer = String::new();
    match engine.query(&question) {
        Ok(rows) => rows.take(64).read_to_string(&mut answer)?,
        // There is no such table, or no such database.
        Err(EngineError::Refused {
            code: Some(60 | 81),
            ..
        }) => 0,
        Err(error) => return Err(error),
    };
    Ok(answer.trim().parse().unwrap_or(0))
}
