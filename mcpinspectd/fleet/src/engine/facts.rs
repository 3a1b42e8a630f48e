//! Rows with a key and a value of their own: hosts, decisions, findings, descriptions.

use std::io::{self, BufReader, Read};

use super::super::value::Value;
use super::columns::AnswerRow;
use super::schema::Database;
use super::sorted::{BLOCK, Part, Sorted, broken};
use super::{Engine, EngineError};

/// Sorts after every key. An engine that fails in the middle of an answer may end it as if it were
/// complete; without this row it was not.
const END: u8 = 0xff;

/// These rows.
#[derive(Debug)]
pub struct Facts<R> {
    answer: BufReader<R>,
    row: AnswerRow,
    is_over: bool,
}

impl<R: Read> Facts<R> {
    /// Requests them.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn query(
        engine: &impl Engine<Answer = R>,
        database: &Database,
        part: Part,
    ) -> Result<Self, EngineError> {
        let answer = engine.query(&question(database, part))?;
        Ok(Self {
            answer: BufReader::with_capacity(BLOCK, answer),
            row: AnswerRow::default(),
            is_over: false,
        })
    }
}

fn question(database: &Database, part: Part) -> String {
    let db = database.name();
    // Hosts have the keys that begin with 1, and only one other comes before them.
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
    FROM {db}.facts {wanted} GROUP BY key
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

impl<R: Read> Sorted for Facts<R> {
    fn advance(&mut self) -> io::Result<()> {
        if !self.is_over {
            self.row.read(&mut self.answer, &[END]).map_err(broken)?;
            self.is_over = self.row.value.is_none();
        }
        Ok(())
    }

    fn key(&self) -> Option<&[u8]> {
        (!self.is_over).then_some(&self.row.key)
    }

    fn value(&self) -> Value {
        self.row.value.clone().unwrap_or(Value::Nothing)
    }
}
