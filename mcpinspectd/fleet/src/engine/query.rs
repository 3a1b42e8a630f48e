//! Rows from the engine: combined there, and read in order as they come.
//!
//! Three questions provide them: the facts; which servers each host has; and who saw which server and tool, in
//! parts that fit in memory. The answers are merged by key.

use std::fmt;
use std::io;

use super::super::report::RowSource;
use super::super::row::Row;
use super::facts::Facts;
use super::inventory::Inventory;
use super::schema::Database;
use super::sighting_rows::SightingRows;
use super::sorted::{Part, Sorted};
use super::{Engine, EngineError};

/// Rows that the engine combines.
pub struct EngineRows<'a> {
    parts: Vec<Box<dyn Sorted + 'a>>,
    /// The part whose row was returned last.
    at: Option<usize>,
}

impl fmt::Debug for EngineRows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineRows")
            .field("parts", &self.parts.len())
            .field("at", &self.at)
            .finish()
    }
}

/// Requests rows, which may take this many bytes of memory.
///
/// # Errors
/// See [`EngineError`].
pub fn rows<'a, E: Engine>(
    engine: &'a E,
    database: &'a Database,
    part: Part,
    memory: usize,
) -> Result<EngineRows<'a>, EngineError>
where
    E::Answer: 'a,
{
    let mut parts: Vec<Box<dyn Sorted + 'a>> =
        vec![Box::new(Facts::query(engine, database, part)?)];
    if part == Part::All {
        parts.push(Box::new(Inventory::query(engine, database)?));
        parts.push(Box::new(SightingRows::query(engine, database, memory)?));
    }
    for part in &mut parts {
        part.advance()?;
    }
    Ok(EngineRows { parts, at: None })
}

impl RowSource for EngineRows<'_> {
    fn next(&mut self) -> io::Result<Option<Row<'_>>> {
        if let Some(part) = self.at.and_then(|at| self.parts.get_mut(at)) {
            part.advance()?;
        }
        let parts = self.parts.iter().enumerate();
        let first = parts
            .filter_map(|(at, part)| part.key().map(|key| (key, at)))
            .min();
        let Some((key, at)) = first else {
            self.at = None;
            return Ok(None);
        };
        self.at = Some(at);
        let value = self.parts.get(at).map(|part| part.value());
        let row = value.and_then(|value| Row::read(key, value));
        row.map(Some)
            .ok_or_else(|| io::Error::other("a row in ClickHouse is damaged"))
    }
}
