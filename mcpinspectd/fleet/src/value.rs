//! What is known about one thing, such as a tool on a host, and how two parts of that become one.
//!
//! Entries come in any order, from several threads and over several runs. So every value can be computed for
//! two halves of a collection and then combined: the earliest, the latest, a sum.

use mcpinspect_core::model::Timestamp;

use super::bytes::{Reader, put_number, put_text};
use super::entry::{Machine, Sign};

/// When something was seen, and how many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SightingRange {
    /// For the first time.
    pub first: Timestamp,
    /// For the last time.
    pub last: Timestamp,
    /// How many entries say so.
    pub count: u64,
}

impl SightingRange {
    /// Seen once.
    pub fn at(time: Timestamp) -> Self {
        Self {
            first: time,
            last: time,
            count: 1,
        }
    }

    /// Combines both.
    pub fn merge(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count = self.count.saturating_add(other.count);
    }
}

/// What is missing from a host's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Losses {
    /// Bytes on the wire that were not captured.
    pub bytes: u64,
    /// Places where that happened.
    pub gaps: u64,
    /// Occasions on which bytes moved in ways that cannot be seen.
    pub blind_spots: u64,
    /// Events that the daemon left out.
    pub events: u64,
    /// Occasions on which journald dropped entries of the service.
    pub by_journald: u64,
}

impl Losses {
    /// Whether nothing is missing.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn parts(&mut self) -> [&mut u64; 5] {
        [
            &mut self.bytes,
            &mut self.gaps,
            &mut self.blind_spots,
            &mut self.events,
            &mut self.by_journald,
        ]
    }
}

/// What is known about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The last name it had.
    pub name: String,
    /// Its oldest entry, of any program.
    pub first_entry: Timestamp,
    /// Its newest entry, of any program.
    pub last_entry: Timestamp,
    /// The daemon's newest event there.
    pub last_event: Option<Timestamp>,
    /// The last state of the daemon's service, and since when.
    pub service: Option<(Timestamp, Sign)>,
    /// Entries that claim to be the daemon's.
    pub forged: u64,
    /// What is missing.
    pub lost: Losses,
}

impl Host {
    /// A host of this name that said something.
    pub fn new(name: &str, time: Timestamp) -> Self {
        Self {
            name: name.to_owned(),
            first_entry: time,
            last_entry: time,
            last_event: None,
            service: None,
            forged: 0,
            lost: Losses::default(),
        }
    }

    /// Notes an entry of it.
    pub fn heard(&mut self, name: &str, time: Timestamp) {
        self.first_entry = self.first_entry.min(time);
        if (time, name) > (self.last_entry, self.name.as_str()) {
            if self.name != name {
                name.clone_into(&mut self.name);
            }
            self.last_entry = time;
        }
    }

    fn merge(&mut self, mut other: Self) {
        self.heard(&other.name, other.last_entry);
        self.first_entry = self.first_entry.min(other.first_entry);
        self.last_event = self.last_event.max(other.last_event);
        self.service = self.service.max(other.service);
        self.forged = self.forged.saturating_add(other.forged);
        let pairs = self.lost.parts().into_iter().zip(other.lost.parts());
        for (one, other) in pairs {
            *one = one.saturating_add(*other);
        }
    }
}

/// What one host said first: if several hosts said something about the same thing, the earliest counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FirstText {
    /// When.
    pub time: Timestamp,
    /// By which host.
    pub machine: Machine,
    /// What.
    pub text: String,
}

/// A host's last decision on something.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastDecision {
    /// When.
    pub time: Timestamp,
    /// What: `approve`, `reject`, `pin`, `unpin` or `forget`.
    pub decision: String,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The key says everything.
    Nothing,
    /// When it was seen.
    SightingRange(SightingRange),
    /// A host.
    Host(Box<Host>),
    /// The first value.
    FirstText(FirstText),
    /// The last decision.
    LastDecision(LastDecision),
    /// A number of entries.
    Count(u64),
}

impl Value {
    /// Combines two values of one key. Values of different kinds never have the same key;
    /// in a damaged file, the first counts.
    pub fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::SightingRange(one), Self::SightingRange(other)) => one.merge(other),
            (Self::Host(one), Self::Host(other)) => one.merge(*other),
            (Self::FirstText(one), Self::FirstText(other)) if other < *one => *one = other,
            (Self::LastDecision(one), Self::LastDecision(other)) if other > *one => *one = other,
            (Self::Count(one), Self::Count(other)) => *one = one.saturating_add(other),
            _ => {}
        }
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Nothing => out.push(0),
            Self::SightingRange(sighting) => {
                out.push(1);
                put_time(out, sighting.first);
                put_number(out, sighting.last.nanos_since(sighting.first) / 1_000);
                put_number(out, sighting.count);
            }
            Self::Host(host) => {
                out.push(2);
                put_text(out, &host.name);
                put_time(out, host.first_entry);
                put_time(out, host.last_entry);
                put_number(out, host.last_event.map_or(0, |time| time.0 / 1_000 + 1));
                let (since, sign) = match host.service {
                    None => (Timestamp(0), 0),
                    Some((since, Sign::Started)) => (since, 1),
                    Some((since, Sign::Stopped)) => (since, 2),
                    Some((since, Sign::Failed)) => (since, 3),
                };
                put_number(out, sign);
                put_time(out, since);
                put_number(out, host.forged);
                for part in host.lost.clone().parts() {
                    put_number(out, *part);
                }
            }
            Self::FirstText(first) => {
                out.push(3);
                put_time(out, first.time);
                out.extend_from_slice(&first.machine.0);
                put_text(out, &first.text);
            }
            Self::LastDecision(last) => {
                out.push(4);
                put_time(out, last.time);
                put_text(out, &last.decision);
            }
            Self::Count(count) => {
                out.push(5);
                put_number(out, *count);
            }
        }
    }

    /// The value in these bytes; `None` if they are not one.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Reader(bytes);
        Some(match bytes.byte()? {
            0 => Self::Nothing,
            1 => {
                let first = time(&mut bytes)?;
                let more = bytes.number()?.saturating_mul(1_000);
                Self::SightingRange(SightingRange {
                    first,
                    last: Timestamp(first.0.saturating_add(more)),
                    count: bytes.number()?,
                })
            }
            2 => Self::Host(Box::new(host(&mut bytes)?)),
            3 => Self::FirstText(FirstText {
                time: time(&mut bytes)?,
                machine: Machine(bytes.array()?),
                text: bytes.text()?.to_owned(),
            }),
            4 => Self::LastDecision(LastDecision {
                time: time(&mut bytes)?,
                decision: bytes.text()?.to_owned(),
            }),
            5 => Self::Count(bytes.number()?),
            _ => return None,
        })
    }
}

fn host(bytes: &mut Reader<'_>) -> Option<Host> {
    let name = bytes.text()?.to_owned();
    let (first_entry, last_entry) = (time(bytes)?, time(bytes)?);
    let last_event = bytes.number()?.checked_sub(1);
    let sign = bytes.number()?;
    let since = time(bytes)?;
    let service = match sign {
        0 => None,
        1 => Some((since, Sign::Started)),
        2 => Some((since, Sign::Stopped)),
        3 => Some((since, Sign::Failed)),
        _ => return None,
    };
    let forged = bytes.number()?;
    let mut lost = Losses::default();
    for part in lost.parts() {
        *part = bytes.number()?;
    }
    Some(Host {
        name,
        first_entry,
        last_entry,
        last_event: last_event.map(|micros| Timestamp(micros.saturating_mul(1_000))),
        service,
        forged,
        lost,
    })
}

/// Entries' times are whole microseconds.
fn put_time(out: &mut Vec<u8>, time: Timestamp) {
    put_number(out, time.0 / 1_000);
}

fn time(bytes: &mut Reader<'_>) -> Option<Timestamp> {
    Some(Timestamp(bytes.number()?.saturating_mul(1_000)))
}
