//! Rows from the engine: put together there, and read in their order as they come.

use std::io::{self, BufReader, Read};

use super::super::report::RowSource;
use super::super::row::Row;
use super::columns::Answered;
use super::schema::Database;
use super::{Engine, EngineError};

/// Sorts behind every key. An engine that fails in the midst of an answer may end it as if it were
/// complete; without this row it was not.
const END: u8 = 0xff;
/// What is read at once.
const BLOCK: usize = 256 << 10;

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those of the hosts, which come first.
    Hosts,
    /// All.
    All,
}

/// Rows that the engine puts together.
#[derive(Debug)]
pub struct EngineRows<R> {
    answer: BufReader<R>,
    row: Answered,
    is_over: bool,
}

/// Asks for rows.
///
/// # Errors
/// See [`EngineError`].
pub fn rows<E: Engine>(
    engine: &E,
    database: &Database,
    part: Part,
) -> Result<EngineRows<E::Answer>, EngineError> {
    let answer = engine.ask(&question(database, part))?;
    Ok(EngineRows {
        answer: BufReader::with_capacity(BLOCK, answer),
        row: Answered::default(),
        is_over: false,
    })
}

fn question(database: &Database, part: Part) -> String {
    let db = database.name();
    // Hosts have the keys that begin with 1, and before them is only one other.
    let wanted = match part {
        Part::Hosts => "WHERE key < unhex('02')",
        Part::All => "",
    };
    format!(
        "SELECT key, max(first) AS first, max(last) AS last, max(said) AS said, max(newest) AS newest,
    max(service) AS service, max(event) AS event, sum(n0) AS n0, sum(n1) AS n1, sum(n2) AS n2,
    sum(n3) AS n3, sum(n4) AS n4, sum(n5) AS n5
FROM (
    SELECT key, minMerge(first) AS first, maxMerge(last) AS last, minMerge(said) AS said,
        maxMerge(newest) AS newest, maxMerge(service) AS service, maxMerge(event) AS event,
        toUInt64(0) AS n0, toUInt64(0) AS n1, toUInt64(0) AS n2, toUInt64(0) AS n3, toUInt64(0) AS n4, toUInt64(0) AS n5
    FROM {db}.sights {wanted} GROUP BY key
    UNION ALL
    SELECT key, toUInt64(0) AS first, toUInt64(0) AS last, '' AS said, '' AS newest, '' AS service, toUInt64(0) AS event,
        sum(n0) AS n0, sum(n1) AS n1, sum(n2) AS n2, sum(n3) AS n3, sum(n4) AS n4, sum(n5) AS n5
    FROM (
        SELECT key, batch, any(n0) AS n0, any(n1) AS n1, any(n2) AS n2, any(n3) AS n3, any(n4) AS n4, any(n5) AS n5
        FROM {db}.counts {wanted} GROUP BY key, batch
    ) GROUP BY key
    UNION ALL
    SELECT unhex('FF') AS key, toUInt64(0) AS first, toUInt64(0) AS last, '' AS said, '' AS newest, '' AS service, toUInt64(0) AS event,
        toUInt64(0) AS n0, toUInt64(0) AS n1, toUInt64(0) AS n2, toUInt64(0) AS n3, toUInt64(0) AS n4, toUInt64(0) AS n5
)
GROUP BY key ORDER BY key FORMAT RowBinary"
    )
}

impl<R: Read> RowSource for EngineRows<R> {
    fn next(&mut self) -> io::Result<Option<Row<'_>>> {
        if self.is_over {
            return Ok(None);
        }
        self.row
            .read(&mut self.answer, &[END])
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                    io::Error::other("ClickHouse broke its answer off; its log says why")
                }
                _ => error,
            })?;
        let Some(value) = self.row.value.take() else {
            self.is_over = true;
            return Ok(None);
        };
        let row = Row::read(&self.row.key, value);
        row.map(Some)
            .ok_or_else(|| io::Error::other("a row in ClickHouse is damaged"))
    }
}
