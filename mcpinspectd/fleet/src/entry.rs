//! The parts of a journal entry that concern a fleet.
//!
//! journald itself writes the fields that begin with an underscore; everything else was sent by some
//! process on that machine. Any process that may log can claim to be the daemon, so an entry
//! counts only if root sent it. All text is escaped and cut here, on entry.

use std::borrow::Cow;

use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::kind::EventKind;
use serde::Deserialize;

use super::fields::{Field, Fields};

/// Longest name or reason to keep, in characters.
pub const TEXT_MAX: usize = 256;
/// The service's unit.
pub const UNIT: &str = "mcpinspectd.service";
/// journald's message that it dropped entries of a unit that logs too much, by `sd-messages.h`.
pub const DROPPED: &str = "a596d6fe7bfa4994828e72309e95d61e";

/// systemd's messages about the service, by `sd-messages.h`.
const SIGNS: &[(&str, Sign)] = &[
    ("39f53479d3a045ac8e11786248231fbf", Sign::Started),
    ("9d1aaa27d60140bd96365438aad20286", Sign::Stopped),
    ("7ad2d189f7e94e70a38c781354912448", Sign::Stopped),
    ("d9b373ed55a64feb8242e02dbe79a49c", Sign::Failed),
    ("be02cf6855d2428ba40df7e9d022f03d", Sign::Failed),
];

/// The last known state of a host's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sign {
    /// It runs.
    Started,
    /// It was stopped.
    Stopped,
    /// It could not be started, or crashed.
    Failed,
}

/// A machine, by the id that systemd gave it at installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine(pub [u8; 16]);

impl Machine {
    fn of(text: &str) -> Option<Self> {
        let mut id = [0; 16];
        hex::decode_to_slice(text, &mut id).ok()?;
        Some(Self(id))
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// What an entry is.
#[derive(Debug)]
pub enum Kind<'a> {
    /// An event of the daemon.
    Event(Event<'a>),
    /// Claims to be an event of the daemon but was not written by root.
    Forged,
    /// A message of systemd about the daemon's service.
    Service(Sign),
    /// A message of journald about dropped entries of the daemon's service.
    Dropped,
    /// Anything else; it shows that the host ships its journal.
    Other,
}

/// An event of the daemon. Its text is escaped and bounded when requested.
#[derive(Debug)]
pub struct Event<'a> {
    /// Its type.
    pub kind: EventKind,
    fields: &'a Fields<'a>,
}

/// A journal entry.
#[derive(Debug)]
pub struct Entry<'a> {
    /// When the host's journal received it.
    pub time: Timestamp,
    /// The host's name at that time.
    pub host: Cow<'a, str>,
    /// The host.
    pub machine: Machine,
    /// What it is.
    pub kind: Kind<'a>,
}

/// What the JSON of an event says beyond its journal fields.
#[derive(Debug, Default, Deserialize)]
pub struct Particulars {
    /// What the tool says it does.
    pub description: Option<String>,
    /// What is different.
    #[serde(default)]
    pub changes: Vec<Change>,
    /// What the server says about itself.
    pub server_info: Option<ServerInfo>,
}

/// A difference between two definitions.
#[derive(Debug, Deserialize)]
pub struct Change {
    /// Where.
    pub field: String,
}

/// What a server says about itself.
#[derive(Debug, Deserialize)]
pub struct ServerInfo {
    /// Which version it is.
    pub version: Option<String>,
}

impl<'a> Entry<'a> {
    /// Builds an entry from its fields; `None` if it has no time or no machine.
    pub fn of(fields: &'a Fields<'a>) -> Option<Self> {
        let microseconds: u64 = fields.get(Field::Time)?.parse().ok()?;
        let machine = Machine::of(fields.get(Field::Machine)?)?;
        Some(Self {
            // A whole number of microseconds even if it is too large.
            time: Timestamp(microseconds.min(u64::MAX / 1_000) * 1_000),
            host: shown(fields.get(Field::Host).unwrap_or_default()),
            machine,
            kind: kind(fields),
        })
    }
}

impl<'a> Event<'a> {
    /// The text of a field.
    pub fn text(&self, field: Field) -> Option<Cow<'a, str>> {
        self.fields.get(field).map(shown)
    }

    /// The number in a field.
    pub fn number(&self, field: Field) -> Option<u64> {
        self.fields.get(field)?.parse().ok()
    }

    /// Its severity, if it has one.
    pub fn severity(&self) -> Option<Severity> {
        Severity::from_word(self.fields.get(Field::Severity)?)
    }

    /// What its JSON says.
    pub fn particulars(&self) -> Particulars {
        let text = self.fields.event_json();
        text.and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }
}

/// `text`, harmless and bounded. Most text is plain ASCII, which is quick to check.
pub fn shown(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_MAX && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(printable(text, TEXT_MAX))
    }
}

fn kind<'a>(fields: &'a Fields<'a>) -> Kind<'a> {
    let by_root = fields.get(Field::Uid) == Some("0");
    if let Some(name) = fields.get(Field::Event) {
        let known = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        return match known {
            _ if !by_root => Kind::Forged,
            Some(kind) => Kind::Event(Event { kind, fields }),
            // Written by a newer version.
            None => Kind::Other,
        };
    }
    let message = fields.get(Field::MessageId);
    if message == Some(DROPPED) && fields.get(Field::ObjectUnit) == Some(UNIT) && by_root {
        return Kind::Dropped;
    }
    let sign = SIGNS.iter().find(|(id, _)| message == Some(id));
    let by_systemd = by_root && fields.get(Field::Pid) == Some("1");
    match sign {
        Some((_, sign)) if by_systemd && fields.get(Field::Unit) == Some(UNIT) => {
            Kind::Service(*sign)
        }
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "\"__REALTIME_TIMESTAMP\":\"1760000000000000\",\"_MACHINE_ID\":\"00112233445566778899aabbccddeeff\"";

    fn read<T>(more: &str, look: impl FnOnce(Entry<'_>) -> T) -> T {
        let line = format!("{{{MACHINE}{more}}}");
        let fields = Fields::of_json(line.as_bytes()).unwrap();
        look(Entry::of(&fields).unwrap())
    }

    #[test]
    fn only_root_is_the_daemon() {
        let event = ",\"MCPINSPECT_EVENT\":\"mcp_tool_seen\",\"MCPINSPECT_TOOL\":\"t\"";
        for uid in ["", ",\"_UID\":\"1000\"", ",\"_UID\":[\"1000\",\"0\"]"] {
            read(&format!("{event}{uid}"), |entry| {
                assert!(matches!(entry.kind, Kind::Forged), "{uid}");
            });
        }
        read(&format!("{event},\"_UID\":\"0\""), |entry| {
            let Kind::Event(event) = entry.kind else {
                panic!("no event");
            };
            assert_eq!(event.kind, EventKind::ToolSeen);
            assert_eq!(event.text(Field::Tool).as_deref(), Some("t"));
        });
    }

    #[test]
    fn text_is_made_harmless_and_bounded() {
        let more = format!(
            ",\"_HOSTNAME\":\"a\\u001b[31m\\u202eb\",\"_UID\":\"0\",\"MCPINSPECT_EVENT\":\"mcp_policy\",\
             \"MCPINSPECT_SERVER\":[104,105,255],\"MCPINSPECT_REASON\":\"{}\"",
            "x".repeat(9_000)
        );
        read(&more, |entry| {
            assert_eq!(entry.host, "a\\u{1b}[31m\\u{202e}b");
            let Kind::Event(event) = entry.kind else {
                panic!("no event");
            };
            assert_eq!(event.text(Field::Server).as_deref(), Some("hi\u{fffd}"));
            let reason = event.text(Field::Reason).unwrap();
            assert_eq!(reason.chars().count(), TEXT_MAX);
        });
    }

    #[test]
    fn particulars_come_from_the_events_own_json() {
        let more = ",\"_UID\":\"0\",\"MCPINSPECT_EVENT\":\"mcp_tool_changed\",\
             \"MCPINSPECT_JSON\":\"{\\\"changes\\\":[{\\\"field\\\":\\\"title\\\",\\\"new\\\":1}]}\"";
        read(more, |entry| {
            let Kind::Event(event) = entry.kind else {
                panic!("no event");
            };
            let changes = event.particulars().changes;
            assert_eq!(changes.first().unwrap().field, "title");
        });
    }

    #[test]
    fn what_is_no_entry_is_none() {
        read(
            ",\"_UID\":{\"a\":1},\"UNIT\":null,\"_PID\":[1.5,[]]",
            |entry| {
                assert!(matches!(entry.kind, Kind::Other));
            },
        );
        assert!(Fields::of_json(b"[1]").is_none());
        assert!(Fields::of_json(b"{").is_none());
        for line in [
            "{}",
            "{\"__REALTIME_TIMESTAMP\":\"-1\",\"_MACHINE_ID\":\"00112233445566778899aabbccddeeff\"}",
            "{\"__REALTIME_TIMESTAMP\":\"1\",\"_MACHINE_ID\":\"../../etc\"}",
        ] {
            let fields = Fields::of_json(line.as_bytes()).unwrap();
            assert!(Entry::of(&fields).is_none(), "{line}");
        }
    }

    #[test]
    fn the_service_speaks_through_systemd_alone() {
        let stopped = ",\"MESSAGE_ID\":\"9d1aaa27d60140bd96365438aad20286\",\"UNIT\":\"mcpinspectd.service\",\"_UID\":\"0\"";
        read(&format!("{stopped},\"_PID\":\"1\""), |entry| {
            assert!(matches!(entry.kind, Kind::Service(Sign::Stopped)));
        });
        read(&format!("{stopped},\"_PID\":\"77\""), |entry| {
            assert!(matches!(entry.kind, Kind::Other));
        });
    }
}
