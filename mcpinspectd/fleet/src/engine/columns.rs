//! A row as columns, and back, in ClickHouse's format `RowBinary`: numbers of eight bytes, the lowest
//! first, and text preceded by its length.
//!
//! What has to be the earliest or the latest of several parts becomes one text that sorts the same way:
//! a time with the highest byte first, then the rest. So the engine needs only `min` and `max`.

use std::io::{self, Read};

use mcpinspect_core::model::Timestamp;

use super::super::bytes::Reader;
use super::super::entry::{Machine, Sign};
use super::super::row::KEY_AND_VALUE_MAX;
use super::super::row::Row;
use super::super::value::{FirstText, Host, LastDecision, Losses, SightingRange, Value};

/// Numbers that are added up.
pub const NUMBERS: usize = 6;

/// The columns of a value.
#[derive(Debug, Default)]
pub struct Columns {
    /// What was earliest.
    pub first: u64,
    /// What was latest.
    pub last: u64,
    /// What was said first.
    pub said: Vec<u8>,
    /// What was said last.
    pub newest: Vec<u8>,
    /// The last state of the service.
    pub service: Vec<u8>,
    /// The newest event.
    pub event: u64,
    /// The numbers to add up.
    pub numbers: Option<[u64; NUMBERS]>,
}

impl Columns {
    /// The columns of a value.
    pub fn of(value: &Value) -> Self {
        let mut columns = Self::default();
        let one = |number| Some([number, 0, 0, 0, 0, 0]);
        match value {
            Value::Nothing => {}
            Value::Count(count) => columns.numbers = one(*count),
            Value::SightingRange(sighting) => {
                columns.first = micros(sighting.first);
                columns.last = micros(sighting.last);
                columns.numbers = one(sighting.count);
            }
            Value::FirstText(first) => {
                columns.said = timed(first.time, &[&first.machine.0, first.text.as_bytes()]);
            }
            Value::LastDecision(last) => {
                columns.newest = timed(last.time, &[last.decision.as_bytes()]);
            }
            Value::Host(host) => {
                columns.first = micros(host.first_entry);
                columns.last = micros(host.last_entry);
                columns.newest = timed(host.last_entry, &[host.name.as_bytes()]);
                columns.event = host.last_event.map_or(0, |time| micros(time) + 1);
                if let Some((since, sign)) = host.service {
                    columns.service = timed(since, &[&[sign_byte(sign)]]);
                }
                let lost = host.lost;
                columns.numbers = Some([
                    host.forged,
                    lost.bytes,
                    lost.gaps,
                    lost.blind_spots,
                    lost.events,
                    lost.by_journald,
                ]);
            }
        }
        columns
    }

    /// The value of the row with this key.
    fn value(self, kind: Kind) -> Option<Value> {
        let numbers = self.numbers.unwrap_or_default();
        Some(match kind {
            Kind::Nothing => Value::Nothing,
            Kind::Count => Value::Count(numbers[0]),
            Kind::SightingRange => Value::SightingRange(SightingRange {
                first: time(self.first),
                last: time(self.last),
                count: numbers[0],
            }),
            Kind::FirstText => {
                let mut said = Reader(&self.said);
                Value::FirstText(FirstText {
                    time: time(u64::from_be_bytes(said.array()?)),
                    machine: Machine(said.array()?),
                    text: text(said.0)?,
                })
            }
            Kind::LastDecision => {
                let mut newest = Reader(&self.newest);
                Value::LastDecision(LastDecision {
                    time: time(u64::from_be_bytes(newest.array()?)),
                    decision: text(newest.0)?,
                })
            }
            Kind::Host => {
                let service = match self.service.is_empty() {
                    true => None,
                    false => {
                        let mut service = Reader(&self.service);
                        let since = time(u64::from_be_bytes(service.array()?));
                        Some((since, sign(service.byte()?)?))
                    }
                };
                let [forged, bytes, gaps, blind_spots, events, by_journald] = numbers;
                Value::Host(Box::new(Host {
                    name: text(self.newest.get(8..)?)?,
                    first_entry: time(self.first),
                    last_entry: time(self.last),
                    last_event: self.event.checked_sub(1).map(time),
                    service,
                    forged,
                    lost: Losses {
                        bytes,
                        gaps,
                        blind_spots,
                        events,
                        by_journald,
                    },
                }))
            }
        })
    }
}

/// What kind of value a key has.
#[derive(Clone, Copy)]
enum Kind {
    Nothing,
    Count,
    SightingRange,
    FirstText,
    LastDecision,
    Host,
}

/// An example of each kind: the right one makes a row.
fn kind(key: &[u8]) -> Option<Kind> {
    let at = Timestamp(0);
    let examples = [
        (
            Kind::SightingRange,
            Value::SightingRange(SightingRange::at(at)),
        ),
        (Kind::Count, Value::Count(0)),
        (
            Kind::FirstText,
            Value::FirstText(FirstText {
                time: at,
                machine: Machine::default(),
                text: String::new(),
            }),
        ),
        (
            Kind::LastDecision,
            Value::LastDecision(LastDecision {
                time: at,
                decision: String::new(),
            }),
        ),
        (Kind::Host, Value::Host(Box::new(Host::new("", at)))),
        (Kind::Nothing, Value::Nothing),
    ];
    let mut examples = examples.into_iter();
    let fits = examples.find(|(_, value)| Row::read(key, value.clone()).is_some());
    fits.map(|(kind, _)| kind)
}

/// A row of an answer.
#[derive(Debug, Default)]
pub struct AnswerRow {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; `None` for the mark at the end.
    pub value: Option<Value>,
}

impl AnswerRow {
    /// Reads the next row of an answer: key, `first`, `last`, `said`, `newest`, `service`, `event` and the numbers.
    ///
    /// # Errors
    /// The answer ends or is damaged.
    pub fn read(&mut self, from: &mut impl Read, end: &[u8]) -> io::Result<()> {
        read_bytes(from, &mut self.key)?;
        let mut columns = Columns {
            first: read_u64(from)?,
            last: read_u64(from)?,
            ..Columns::default()
        };
        read_bytes(from, &mut columns.said)?;
        read_bytes(from, &mut columns.newest)?;
        read_bytes(from, &mut columns.service)?;
        columns.event = read_u64(from)?;
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = read_u64(from)?;
        }
        columns.numbers = Some(numbers);
        self.value = None;
        if self.key != end {
            let kind = kind(&self.key).ok_or_else(damaged)?;
            self.value = Some(columns.value(kind).ok_or_else(damaged)?);
        }
        Ok(())
    }
}

fn sign_byte(sign: Sign) -> u8 {
    match sign {
        Sign::Started => 1,
        Sign::Stopped => 2,
        Sign::Failed => 3,
    }
}

fn sign(byte: u8) -> Option<Sign> {
    let all = [Sign::Started, Sign::Stopped, Sign::Failed];
    all.into_iter().find(|sign| sign_byte(*sign) == byte)
}

/// Microseconds; entries' times are whole numbers of them.
pub fn micros(time: Timestamp) -> u64 {
    time.0 / 1_000
}

/// The time of these microseconds.
pub fn time(micros: u64) -> Timestamp {
    Timestamp(micros.saturating_mul(1_000))
}

fn timed(time: Timestamp, parts: &[&[u8]]) -> Vec<u8> {
    let mut text = micros(time).to_be_bytes().to_vec();
    for part in parts {
        text.extend_from_slice(part);
    }
    text
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

/// Appends a number.
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends bytes with their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    super::super::bytes::put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a number.
///
/// # Errors
/// The answer ends.
pub fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads bytes with their length.
///
/// # Errors
/// The answer ends, or they are too long.
pub fn read_bytes(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    let length = read_length(from)?;
    if length > KEY_AND_VALUE_MAX {
        return Err(damaged());
    }
    into.resize(length, 0);
    from.read_exact(into)
}

/// Reads the length of bytes or of a list.
///
/// # Errors
/// The answer ends, or it is too long.
pub fn read_length(from: &mut impl Read) -> io::Result<usize> {
    let mut length = 0_usize;
    for shift in (0..35).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        let [byte] = byte;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(length);
        }
    }
    Err(damaged())
}

/// The error for a damaged row.
pub fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a row is damaged")
}
