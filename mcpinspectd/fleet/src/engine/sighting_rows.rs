//! Who saw which server, version and tool, and when: most of what the engine has.
//!
//! One line per row would be tens of millions, with the same names again and again. So the engine answers
//! with lists: for each definition, the hosts that saw it and when. It need not combine equal ones or sort
//! them for that, only read. Both are done here, for one tool at a time. A question covers as many servers, or
//! as many tools of a large one, as fit in memory; a single tool that does not fit is answered line by line.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read};

use mcpinspect_core::model::Timestamp;

use super::super::entry::Machine;
use super::super::value::{SightingRange, Value};
use super::columns::{read_bytes, read_length, read_u64, time};
use super::schema::Database;
use super::seen_item::SeenItem;
use super::sorted::{BLOCK, Sorted, broken};
use super::{Engine, EngineError};

/// What a row costs while it is sorted, in bytes, with room for rows that come more than once.
const ROW_COST: usize = 128;
/// Longest list to accept: rows that were not merged yet come more than once.
const LIST_MAX: usize = 1 << 24;
/// Sorts after every name: the answer is complete.
const END: &[u8] = &[0xff];

/// What one question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Span {
    /// These two servers and those in between.
    Servers(Vec<u8>, Vec<u8>),
    /// One server that is too large for one question.
    Server(Vec<u8>),
    /// Part of a server: these two tools and those in between.
    Tools(Vec<u8>, u8, Vec<u8>, Vec<u8>),
    /// A tool that is too large for lists.
    Lines(Vec<u8>, u8, Vec<u8>),
}

/// An answer being read.
#[derive(Debug)]
enum Answer<R> {
    Lists(BufReader<R>, Option<SeenItem>),
    Lines(BufReader<R>, SeenItem),
}

/// A host saw one of several things.
#[derive(Clone, Copy, Debug)]
struct Line {
    machine: Machine,
    what: u32,
    first: u64,
    last: u64,
}

/// These rows.
#[derive(Debug)]
pub struct SightingRows<'a, E: Engine> {
    engine: &'a E,
    database: &'a Database,
    /// Rows in one answer with lists.
    rows_max: u64,
    spans: VecDeque<Span>,
    answer: Option<Answer<E::Answer>>,
    /// What is known about one tool.
    before: Vec<u8>,
    behind: Vec<Vec<u8>>,
    lines: Vec<Line>,
    next: usize,
    key: Vec<u8>,
    sighting: SightingRange,
    is_over: bool,
}

impl<'a, E: Engine> SightingRows<'a, E> {
    /// Asks how many there are, in order to read them in this many bytes of memory.
    ///
    /// # Errors
    /// See [`EngineError`].
    pub fn query(
        engine: &'a E,
        database: &'a Database,
        memory: usize,
    ) -> Result<Self, EngineError> {
        let rows_max = (memory / ROW_COST) as u64;
        let counts = Counts::query(engine, database, "server", "")?;
        let ranges = ranges(counts, rows_max)?.into_iter();
        let spans = ranges.map(|range| match range.rows <= rows_max {
            false => Span::Server(range.from),
            true => Span::Servers(range.from, range.to),
        });
        Ok(Self {
            engine,
            database,
            rows_max,
            spans: spans.collect(),
            answer: None,
            before: Vec::new(),
            behind: Vec::new(),
            lines: Vec::new(),
            next: 0,
            key: Vec::new(),
            sighting: SightingRange::at(Timestamp(0)),
            is_over: false,
        })
    }

    /// Opens the next question; `false` if there is none.
    fn open(&mut self) -> Result<bool, EngineError> {
        while let Some(span) = self.spans.pop_front() {
            let wanted = match &span {
                Span::Server(server) => {
                    let parts = self.parts(server)?;
                    for part in parts.into_iter().rev() {
                        self.spans.push_front(part);
                    }
                    continue;
                }
                Span::Servers(from, to) => {
                    let (from, to) = (literal(from), literal(to));
                    format!("server >= {from} AND server <= {to}")
                }
                Span::Tools(server, part, from, to) => {
                    let (server, from, to) = (literal(server), literal(from), literal(to));
                    format!(
                        "server = {server} AND part = {part} AND tool >= {from} AND tool <= {to}"
                    )
                }
                Span::Lines(server, part, tool) => {
                    let (server, tool) = (literal(server), literal(tool));
                    format!("server = {server} AND part = {part} AND tool = {tool}")
                }
            };
            let db = self.database.name();
            self.answer = Some(match span {
                Span::Lines(server, part, tool) => {
                    let answer = self.engine.query(&lines(db, &wanted, part))?;
                    let item = SeenItem {
                        server,
                        part,
                        tool,
                        detail: Vec::new(),
                    };
                    Answer::Lines(BufReader::with_capacity(BLOCK, answer), item)
                }
                _ => {
                    let answer = self.engine.query(&lists(db, &wanted))?;
                    let mut answer = BufReader::with_capacity(BLOCK, answer);
                    let first = SeenItem::read(&mut answer, END).map_err(broken)?;
                    Answer::Lists(answer, first)
                }
            });
            return Ok(true);
        }
        Ok(false)
    }

    /// The questions that a large server takes.
    fn parts(&self, server: &[u8]) -> Result<Vec<Span>, EngineError> {
        let mut parts = Vec::new();
        for part in 0..=3 {
            let wanted = format!("WHERE server = {} AND part = {part}", literal(server));
            let counts = Counts::query(self.engine, self.database, "tool", &wanted)?;
            for range in ranges(counts, self.rows_max)? {
                let server = server.to_vec();
                parts.push(match range.rows <= self.rows_max {
                    true => Span::Tools(server, part, range.from, range.to),
                    false => Span::Lines(server, part, range.from),
                });
            }
        }
        Ok(parts)
    }

    /// Reads what is known about the next thing; `false` at the end of the answer.
    fn fill(&mut self) -> io::Result<bool> {
        self.lines.clear();
        self.behind.clear();
        self.next = 0;
        match &mut self.answer {
            None => Ok(false),
            Some(Answer::Lines(answer, item)) => {
                let mut machine = [0; 16];
                answer.read_exact(&mut machine)?;
                read_bytes(answer, &mut item.detail)?;
                let (first, last) = (read_u64(answer)?, read_u64(answer)?);
                if item.detail == END {
                    return Ok(false);
                }
                let (before, behind) = item.key()?;
                self.before = before;
                self.behind.push(behind);
                self.lines.push(Line {
                    machine: Machine(machine),
                    what: 0,
                    first,
                    last,
                });
                Ok(true)
            }
            Some(Answer::Lists(answer, next)) => {
                let Some(mut item) = next.take() else {
                    return Ok(false);
                };
                loop {
                    let (before, behind) = item.key()?;
                    self.before = before;
                    self.behind.push(behind);
                    let what = u32::try_from(self.behind.len() - 1).unwrap_or(u32::MAX);
                    list(answer, what, &mut self.lines)?;
                    let Some(following) = SeenItem::read(answer, END)? else {
                        break;
                    };
                    // Everything that hosts saw of a tool comes host by host.
                    if !item.is_same_tool(&following) {
                        *next = Some(following);
                        break;
                    }
                    item = following;
                }
                self.sort();
                Ok(true)
            }
        }
    }

    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..).zip(&self.behind).map(|(at, _)| at).collect();
        let behind = |at: &u32| self.behind.get(*at as usize);
        order.sort_by(|one, other| behind(one).cmp(&behind(other)));
        let mut ranks = vec![0_u32; order.len()];
        for (rank, at) in (0..).zip(&order) {
            if let Some(slot) = ranks.get_mut(*at as usize) {
                *slot = rank;
            }
        }
        for line in &mut self.lines {
            line.what = ranks.get(line.what as usize).copied().unwrap_or(0);
        }
        self.behind.sort();
        // The engine reads sorted parts one after another, which this sort takes advantage of.
        self.lines.sort_by_key(|line| (line.machine, line.what));
    }

    fn step(&mut self) -> io::Result<()> {
        while self.next >= self.lines.len() {
            if self.fill()? {
                continue;
            }
            if !self.open().map_err(io::Error::other)? {
                self.is_over = true;
                return Ok(());
            }
        }
        let Some(line) = self.lines.get(self.next).copied() else {
            return Ok(());
        };
        let (mut first, mut last) = (line.first, line.last);
        self.next += 1;
        while let Some(same) = self.lines.get(self.next)
            && (same.machine, same.what) == (line.machine, line.what)
        {
            first = first.min(same.first);
            last = last.max(same.last);
            self.next += 1;
        }
        self.sighting = SightingRange {
            first: time(first),
            last: time(last),
            count: 0,
        };
        self.key.clear();
        self.key.extend_from_slice(&self.before);
        self.key.extend_from_slice(&line.machine.0);
        if let Some(behind) = self.behind.get(line.what as usize) {
            self.key.extend_from_slice(behind);
        }
        Ok(())
    }
}

impl<E: Engine> Sorted for SightingRows<'_, E> {
    fn advance(&mut self) -> io::Result<()> {
        match self.is_over {
            true => Ok(()),
            false => self.step().map_err(broken),
        }
    }

    fn key(&self) -> Option<&[u8]> {
        (!self.is_over).then_some(&self.key)
    }

    fn value(&self) -> Value {
        Value::SightingRange(self.sighting)
    }
}

/// Names in order, and how many rows each has.
struct Counts<R>(BufReader<R>);

impl<R: Read> Counts<R> {
    fn query(
        engine: &impl Engine<Answer = R>,
        database: &Database,
        column: &str,
        wanted: &str,
    ) -> Result<Self, EngineError> {
        let db = database.name();
        let question = format!(
            "SELECT name, rows FROM (
    SELECT {column} AS name, count() AS rows FROM {db}.seen {wanted} GROUP BY {column}
    UNION ALL
    SELECT unhex('FF') AS name, toUInt64(0) AS rows
)
ORDER BY name FORMAT RowBinary"
        );
        Ok(Self(BufReader::with_capacity(
            BLOCK,
            engine.query(&question)?,
        )))
    }
}

impl<R: Read> Counts<R> {
    fn next(&mut self) -> io::Result<Option<(Vec<u8>, u64)>> {
        let mut name = Vec::new();
        read_bytes(&mut self.0, &mut name).map_err(broken)?;
        let rows = read_u64(&mut self.0).map_err(broken)?;
        Ok((name != END).then_some((name, rows)))
    }
}

/// Neighbours that together fit in one answer, or one that does not fit even alone.
struct Range {
    from: Vec<u8>,
    to: Vec<u8>,
    rows: u64,
}

fn ranges<R: Read>(mut counts: Counts<R>, rows_max: u64) -> io::Result<Vec<Range>> {
    let mut ranges: Vec<Range> = Vec::new();
    while let Some((name, rows)) = counts.next()? {
        match ranges.last_mut() {
            Some(last) if last.rows.saturating_add(rows) <= rows_max => {
                last.to = name;
                last.rows += rows;
            }
            _ => ranges.push(Range {
                from: name.clone(),
                to: name,
                rows,
            }),
        }
    }
    Ok(ranges)
}

/// Reads the lists of hosts and times of one thing.
fn list(answer: &mut impl Read, what: u32, lines: &mut Vec<Line>) -> io::Result<()> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let length = read_length(answer)?;
    if length > LIST_MAX {
        return Err(io::Error::other("a list of ClickHouse is too long"));
    }
    let begin = lines.len();
    lines.reserve(length);
    for _ in 0..length {
        let mut machine = [0; 16];
        answer.read_exact(&mut machine)?;
        lines.push(Line {
            machine: Machine(machine),
            what,
            first: 0,
            last: 0,
        });
    }
    for is_last in [false, true] {
        if read_length(answer)? != length {
            return Err(damaged());
        }
        for line in lines.get_mut(begin..).into_iter().flatten() {
            let micros = read_u64(answer)?;
            match is_last {
                false => line.first = micros,
                true => line.last = micros,
            }
        }
    }
    Ok(())
}

fn lists(db: &str, wanted: &str) -> String {
    format!(
        "SELECT server, part, tool, detail, machines, firsts, lasts FROM (
    SELECT server, part, tool, detail, groupArray(machine) AS machines, groupArray(since) AS firsts, groupArray(until) AS lasts
    FROM (
        SELECT server, part, tool, detail, machine, finalizeAggregation(first) AS since, finalizeAggregation(last) AS until
        FROM {db}.seen WHERE {wanted}
    )
    GROUP BY server, part, tool, detail
    UNION ALL
    SELECT unhex('FF') AS server, toUInt8(0) AS part, '' AS tool, '' AS detail, [toFixedString(unhex('{end}'), 16)] AS machines,
        [toUInt64(0)] AS firsts, [toUInt64(0)] AS lasts
)
ORDER BY server, part, tool, detail FORMAT RowBinary",
        end = "FF".repeat(16)
    )
}

fn lines(db: &str, wanted: &str, part: u8) -> String {
    let order = match part {
        3 => "machine, multiIf(detail = '', 0, match(detail, '^[0-9a-f]{64}$'), 1, 2), detail",
        _ => "detail, machine",
    };
    format!(
        "SELECT machine, detail, first, last FROM (
    SELECT machine, detail, minMerge(first) AS first, maxMerge(last) AS last
    FROM {db}.seen WHERE {wanted} GROUP BY machine, detail
    UNION ALL
    SELECT toFixedString(unhex('{end}'), 16) AS machine, unhex('FF') AS detail, toUInt64(0) AS first, toUInt64(0) AS last
)
ORDER BY {order} FORMAT RowBinary",
        end = "FF".repeat(16)
    )
}

fn literal(text: &[u8]) -> String {
    match text {
        [] => "''".to_owned(),
        text => format!("unhex('{}')", hex::encode(text)),
    }
}
