//! Which servers each host has: the same rows as which hosts each server is on, in another order.

use std::io::{self, BufReader, Read};

use mcpinspect_core::model::Timestamp;

use super::super::row::key;
use super::super::value::{SightingRange, Value};
use super::columns::{read_bytes, read_u64, time};
use super::schema::Database;
use super::sorted::{BLOCK, Sorted, broken};
use super::{Engine, EngineError};

/// Sorts after every server name, as the last of the last host: the answer is complete.
const END: &[u8] = &[0xff];

/// These rows.
#[derive(Debug)]
pub struct Inventory<R> {
    answer: BufReader<R>,
    key: Vec<u8>,
    name: Vec<u8>,
    sighting: SightingRange,
    is_over: bool,
}

impl<R: Read> Inventory<R> {
    /// Requests them.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn query(
        engine: &impl Engine<Answer = R>,
        database: &Database,
    ) -> Result<Self, EngineError> {
        let db = database.name();
        let question = format!(
            "SELECT machine, server, first, last FROM (
    SELECT machine, server, minMerge(first) AS first, maxMerge(last) AS last
    FROM {db}.seen WHERE part = 0 GROUP BY machine, server
    UNION ALL
    SELECT toFixedString(unhex('{end}'), 16) AS machine, unhex('FF') AS server, toUInt64(0) AS first, toUInt64(0) AS last
)
ORDER BY machine, server FORMAT RowBinary",
            end = "FF".repeat(16)
        );
        let answer = engine.query(&question)?;
        Ok(Self {
            answer: BufReader::with_capacity(BLOCK, answer),
            key: Vec::new(),
            name: Vec::new(),
            sighting: SightingRange::at(Timestamp(0)),
            is_over: false,
        })
    }

    fn read(&mut self) -> io::Result<()> {
        let mut machine = [0; 16];
        self.answer.read_exact(&mut machine)?;
        read_bytes(&mut self.answer, &mut self.name)?;
        self.sighting = SightingRange {
            first: time(read_u64(&mut self.answer)?),
            last: time(read_u64(&mut self.answer)?),
            count: 0,
        };
        self.is_over = self.name == END;
        if !self.is_over {
            let name = std::str::from_utf8(&self.name)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.key.clear();
            key::of_host(&mut self.key);
            self.key.extend_from_slice(&machine);
            key::host_server(&mut self.key, name);
        }
        Ok(())
    }
}

impl<R: Read> Sorted for Inventory<R> {
    fn advance(&mut self) -> io::Result<()> {
        match self.is_over {
            true => Ok(()),
            false => self.read().map_err(broken),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        (!self.is_over).then_some(&self.key)
    }

    fn value(&self) -> Value {
        Value::SightingRange(self.sighting)
    }
}
