//! A row as columns, and back, in ClickHouse's format `RowBinary`: numbers of eight bytes, the lowest
//! first, and text behind its length.
//!
//! What has to be the earliest or the latest of several parts becomes one text that sorts like them:
//! a time with the highest byte first, then the rest. So the engine needs nothing but `min` and `max`.

use std::io::{self, Read};

use super::super::bytes::{Reader, put_text};
use super::super::entry::{Machine, Sign};
use super::super::row::{Happened, Row};
use super::super::run::{KEY_AND_VALUE_MAX, Rows};
use super::super::value::{Decided, Host, Lost, Sight, Told, Value};
use crate::model::Timestamp;

/// Numbers that are added up.
pub const NUMBERS: usize = 6;

/// A row for the engine: its columns in both tables.
#[derive(Debug, Default)]
pub struct Batch {
    /// For `incoming`.
    pub sights: Vec<u8>,
    /// For `counts`.
    pub counts: Vec<u8>,
    /// For `events`.
    pub events: Vec<u8>,
    /// In how many months these are.
    pub months: usize,
    /// The last of them.
    month: Option<u64>,
    /// How many rows there are.
    pub rows: u64,
}

/// The columns of a value.
#[derive(Default)]
struct Columns {
    first: u64,
    last: u64,
    said: Vec<u8>,
    newest: Vec<u8>,
    service: Vec<u8>,
    event: u64,
    numbers: Option<[u64; NUMBERS]>,
}

impl Batch {
    /// Adds the row at which `rows` is.
    ///
    /// # Errors
    /// It is damaged.
    pub fn add(&mut self, rows: &Rows, batch: &str) -> io::Result<()> {
        let value = Value::read(rows.value()).ok_or_else(damaged)?;
        let columns = Columns::of(&value);
        let row = Row::read(rows.key(), value).ok_or_else(damaged)?;
        if let Row::Event(event, host) = &row {
            self.event(event, &host.text);
            return Ok(());
        }
        let names = names(&row);
        let is_counted = matches!(
            row,
            Row::Unreadable(_) | Row::Host(..) | Row::HostAlerts(..) | Row::Finding(..)
        );
        put_bytes(&mut self.sights, rows.key());
        for name in [
            names.part,
            names.server,
            names.tool,
            &names.detail,
            &names.machine,
        ] {
            put_text(&mut self.sights, name);
        }
        put_u64(&mut self.sights, columns.first);
        put_u64(&mut self.sights, columns.last);
        put_bytes(&mut self.sights, &columns.said);
        put_bytes(&mut self.sights, &columns.newest);
        put_bytes(&mut self.sights, &columns.service);
        put_u64(&mut self.sights, columns.event);
        if let Some(numbers) = columns.numbers.filter(|_| is_counted) {
            put_bytes(&mut self.counts, rows.key());
            put_text(&mut self.counts, batch);
            for number in numbers {
                put_u64(&mut self.counts, number);
            }
        }
        self.rows += 1;
        Ok(())
    }

    /// Bytes that it has.
    pub fn size(&self) -> usize {
        self.sights.len() + self.counts.len() + self.events.len()
    }

    fn event(&mut self, event: &Happened<'_>, host: &str) {
        let micros = micros(event.time);
        let second = u32::try_from(micros / 1_000_000).unwrap_or(u32::MAX);
        // Events come in the order of time, so each month comes once. Months are told apart roughly:
        // what counts is that they are not too many.
        let month = u64::from(second) / (28 * 86_400);
        if self.month.replace(month) != Some(month) {
            self.months += 1;
        }
        let out = &mut self.events;
        out.extend_from_slice(&second.to_le_bytes());
        put_u64(out, micros);
        put_text(out, &event.machine.to_string());
        let hash = event.definition.shown().unwrap_or_default();
        for text in [
            host,
            event.event,
            event.severity.map_or("", |severity| severity.as_str()),
            event.server,
            event.tool.unwrap_or_default(),
            &hash,
            event.category.unwrap_or_default(),
            event.pattern.unwrap_or_default(),
        ] {
            put_text(out, text);
        }
        self.rows += 1;
    }
}

impl Columns {
    fn of(value: &Value) -> Self {
        let mut columns = Self::default();
        let one = |number| Some([number, 0, 0, 0, 0, 0]);
        match value {
            Value::Nothing => {}
            Value::Count(count) => columns.numbers = one(*count),
            Value::Sight(sight) => {
                columns.first = micros(sight.first);
                columns.last = micros(sight.last);
                columns.numbers = one(sight.count);
            }
            Value::Told(told) => {
                columns.said = timed(told.time, &[&told.machine.0, told.text.as_bytes()]);
            }
            Value::Decided(decided) => {
                columns.newest = timed(decided.time, &[decided.decision.as_bytes()]);
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
            Kind::Sight => Value::Sight(Sight {
                first: time(self.first),
                last: time(self.last),
                count: numbers[0],
            }),
            Kind::Told => {
                let mut said = Reader(&self.said);
                Value::Told(Told {
                    time: time(u64::from_be_bytes(said.array()?)),
                    machine: Machine(said.array()?),
                    text: text(said.0)?,
                })
            }
            Kind::Decided => {
                let mut newest = Reader(&self.newest);
                Value::Decided(Decided {
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
                    lost: Lost {
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
    Sight,
    Told,
    Decided,
    Host,
}

/// An example of each kind: the right one makes a row.
fn kind(key: &[u8]) -> Option<Kind> {
    let at = Timestamp(0);
    let examples = [
        (Kind::Sight, Value::Sight(Sight::at(at))),
        (Kind::Count, Value::Count(0)),
        (
            Kind::Told,
            Value::Told(Told {
                time: at,
                machine: Machine::default(),
                text: String::new(),
            }),
        ),
        (
            Kind::Decided,
            Value::Decided(Decided {
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
pub struct Answered {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; `None` for the mark at the end.
    pub value: Option<Value>,
}

impl Answered {
    /// Reads the next row of an answer: key, `first`, `last`, `said`, `newest`, `service`, `event` and the numbers.
    ///
    /// # Errors
    /// The answer ends or is none.
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

/// What a row is about, for people's own questions.
struct Names<'a> {
    part: &'static str,
    server: &'a str,
    tool: &'a str,
    detail: String,
    machine: String,
}

fn names<'a>(row: &Row<'a>) -> Names<'a> {
    let of = |part, server, tool, detail: Option<String>, machine: Option<&Machine>| Names {
        part,
        server,
        tool,
        detail: detail.unwrap_or_default(),
        machine: machine.map(Machine::to_string).unwrap_or_default(),
    };
    let text = |text: &str| Some(text.to_owned());
    match row {
        Row::Unreadable(_) => of("unreadable", "", "", None, None),
        Row::Host(host, _) => of("host", "", "", None, Some(host)),
        Row::HostServer(host, server, _) => of("host_server", server, "", None, Some(host)),
        Row::HostAlerts(host, severity, _) => {
            of("host_alerts", "", "", text(severity.as_str()), Some(host))
        }
        Row::Server(server, host, _) => of("server", server, "", None, Some(host)),
        Row::Fingerprint(server, fingerprint, host, _) => {
            of("fingerprint", server, "", text(fingerprint), Some(host))
        }
        Row::Version(server, version, host, _) => {
            of("version", server, "", text(version), Some(host))
        }
        Row::Description(server, tool, hash, _) => {
            of("description", server, tool, hash.shown(), None)
        }
        Row::Change(server, tool, hash, _, _) => of("change", server, tool, hash.shown(), None),
        Row::Tool(server, tool, host, hash, _) => {
            of("tool", server, tool, hash.shown(), Some(host))
        }
        Row::Decided(server, tool, host, hash, _) => {
            of("decided", server, tool, hash.shown(), Some(host))
        }
        Row::Decision(decision) => of(
            "decision",
            decision.server,
            decision.item,
            text(decision.decision),
            Some(&decision.machine),
        ),
        // These have columns of their own.
        Row::Event(..) => of("event", "", "", None, None),
        Row::Finding(finding, host, _) => of(
            "finding",
            finding.server,
            finding.tool.unwrap_or_default(),
            text(finding.category.unwrap_or(finding.event)),
            Some(host),
        ),
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

fn micros(time: Timestamp) -> u64 {
    time.0 / 1_000
}

fn time(micros: u64) -> Timestamp {
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

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    super::super::bytes::put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_bytes(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<()> {
    let mut length = 0_usize;
    for shift in (0..28).step_by(7) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            if length > KEY_AND_VALUE_MAX {
                return Err(damaged());
            }
            into.resize(length, 0);
            return from.read_exact(into);
        }
    }
    Err(damaged())
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a row is damaged")
}
