//! One journal entry, as far as a fleet is concerned.
//!
//! journald itself writes the fields that begin with an underscore; everything else is what some
//! process of that machine sent. Any process that may log can claim to be the daemon, so an entry
//! counts only if root sent it. All text is escaped and cut here, on entry.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::event::kind::EventKind;
use crate::model::{Severity, Timestamp};
use crate::text::escape::printable;

/// Longest name or reason that is kept, characters.
const TEXT_MAX: usize = 256;
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

/// How the service of a host was last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It runs.
    Started,
    /// It was stopped.
    Stopped,
    /// It could not be started, or crashed.
    Failed,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An event of the daemon.
    Event(Box<Event>),
    /// Claims to be an event of the daemon but was not written by root.
    Forged,
    /// systemd about the daemon's service.
    Service(Sign),
    /// journald about entries of the daemon's service that it left out.
    Dropped,
    /// Anything else; it shows that the host ships its journal.
    Other,
}

/// An event's fields, escaped and bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// Its type, one of those that this program knows.
    pub name: &'static str,
    /// `MCPINSPECT_SERVER`.
    pub server: Option<String>,
    /// `MCPINSPECT_TOOL`.
    pub tool: Option<String>,
    /// `MCPINSPECT_HASH`.
    pub hash: Option<String>,
    /// `MCPINSPECT_SEVERITY`.
    pub severity: Option<Severity>,
    /// `MCPINSPECT_CATEGORY`.
    pub category: Option<String>,
    /// `MCPINSPECT_PATTERN`.
    pub pattern: Option<String>,
    /// `MCPINSPECT_FINGERPRINT`.
    pub fingerprint: Option<String>,
    /// `MCPINSPECT_ITEM`.
    pub item: Option<String>,
    /// `MCPINSPECT_DECISION`.
    pub decision: Option<String>,
    /// `MCPINSPECT_DECIDED_BY`.
    pub decided_by: Option<String>,
    /// `MCPINSPECT_DECIDED_BY_UID`.
    pub uid: Option<u64>,
    /// `MCPINSPECT_REASON`.
    pub reason: Option<String>,
    /// `MCPINSPECT_BYTES_LOST`.
    pub bytes_lost: u64,
    /// `MCPINSPECT_DROPPED`.
    pub dropped: u64,
}

/// A journal entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When the host's journal took it.
    pub time: Timestamp,
    /// The host's name at that time.
    pub host: String,
    /// The host's machine id.
    pub machine: String,
    /// What it is.
    pub kind: Kind,
}

/// Fields that are asked for; `journalctl` adds the addresses of each entry.
pub const FIELDS: &[&str] = &[
    "_HOSTNAME",
    "_MACHINE_ID",
    "_UID",
    "_PID",
    "_COMM",
    "MESSAGE_ID",
    "UNIT",
    "OBJECT_SYSTEMD_UNIT",
    "MCPINSPECT_EVENT",
    "MCPINSPECT_SERVER",
    "MCPINSPECT_TOOL",
    "MCPINSPECT_HASH",
    "MCPINSPECT_SEVERITY",
    "MCPINSPECT_CATEGORY",
    "MCPINSPECT_PATTERN",
    "MCPINSPECT_FINGERPRINT",
    "MCPINSPECT_ITEM",
    "MCPINSPECT_DECISION",
    "MCPINSPECT_DECIDED_BY",
    "MCPINSPECT_DECIDED_BY_UID",
    "MCPINSPECT_REASON",
    "MCPINSPECT_BYTES_LOST",
    "MCPINSPECT_DROPPED",
];

/// The fields of an entry by name; each with its first value, as text.
#[derive(Debug, Default)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Adds a field. Of several values the first counts, and unknown fields are not kept.
    pub fn add(&mut self, name: &str, value: impl FnOnce() -> Option<String>) {
        let wanted = FIELDS.contains(&name) || name == "__REALTIME_TIMESTAMP";
        if wanted
            && !self.0.contains_key(name)
            && let Some(value) = value()
        {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of a line as `journalctl -o json` writes it.
    pub fn of_json(line: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line(BTreeMap<String, Value>);
        let Line(object) = serde_json::from_slice(line).ok()?;
        let mut fields = Self::default();
        for (name, value) in object {
            fields.add(&name, || text(&value));
        }
        Some(fields)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn shown(&self, name: &str) -> Option<String> {
        self.get(name).map(|text| printable(text, TEXT_MAX))
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// journalctl writes binary values as an array of bytes, several values as an array of values, and
/// omits values that are too large.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(values) => match values.first()? {
            Value::Number(_) => {
                let bytes: Vec<u8> = values
                    .iter()
                    .map_while(|byte| u8::try_from(byte.as_u64()?).ok())
                    .collect();
                Some(String::from_utf8_lossy(&bytes).into_owned())
            }
            first => text(first),
        },
        _ => None,
    }
}

impl Entry {
    /// Builds an entry from its fields; `None` if it has no time or no machine.
    pub fn of(fields: &Fields) -> Option<Self> {
        let microseconds = fields.number("__REALTIME_TIMESTAMP")?;
        let machine = fields.get("_MACHINE_ID")?;
        if machine.len() != 32 || !machine.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        Some(Self {
            time: Timestamp(microseconds.saturating_mul(1_000)),
            host: fields.shown("_HOSTNAME").unwrap_or_default(),
            machine: machine.to_owned(),
            kind: kind(fields),
        })
    }
}

fn kind(fields: &Fields) -> Kind {
    let by_root = fields.get("_UID") == Some("0");
    if let Some(name) = fields.get("MCPINSPECT_EVENT") {
        let known = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        return match known {
            _ if !by_root => Kind::Forged,
            Some(known) => Kind::Event(Box::new(event(known.name(), fields))),
            // Written by a newer version.
            None => Kind::Other,
        };
    }
    let message = fields.get("MESSAGE_ID");
    let dropped = message == Some(DROPPED) && fields.get("OBJECT_SYSTEMD_UNIT") == Some(UNIT);
    if dropped && by_root {
        return Kind::Dropped;
    }
    let sign = SIGNS.iter().find(|(id, _)| message == Some(id));
    let by_systemd = by_root && fields.get("_PID") == Some("1");
    match sign {
        Some((_, sign)) if by_systemd && fields.get("UNIT") == Some(UNIT) => Kind::Service(*sign),
        _ => Kind::Other,
    }
}

fn event(name: &'static str, fields: &Fields) -> Event {
    Event {
        name,
        server: fields.shown("MCPINSPECT_SERVER"),
        tool: fields.shown("MCPINSPECT_TOOL"),
        hash: fields.shown("MCPINSPECT_HASH"),
        severity: fields.get("MCPINSPECT_SEVERITY").and_then(severity),
        category: fields.shown("MCPINSPECT_CATEGORY"),
        pattern: fields.shown("MCPINSPECT_PATTERN"),
        fingerprint: fields.shown("MCPINSPECT_FINGERPRINT"),
        item: fields.shown("MCPINSPECT_ITEM"),
        decision: fields.shown("MCPINSPECT_DECISION"),
        decided_by: fields.shown("MCPINSPECT_DECIDED_BY"),
        uid: fields.number("MCPINSPECT_DECIDED_BY_UID"),
        reason: fields.shown("MCPINSPECT_REASON"),
        bytes_lost: fields.number("MCPINSPECT_BYTES_LOST").unwrap_or(0),
        dropped: fields.number("MCPINSPECT_DROPPED").unwrap_or(0),
    }
}

fn severity(word: &str) -> Option<Severity> {
    [
        Severity::Low,
        Severity::Medium,
        Severity::High,
        Severity::Critical,
    ]
    .into_iter()
    .find(|severity| severity.as_str() == word)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const MACHINE: &str = "\"__REALTIME_TIMESTAMP\":\"1760000000000000\",\"_MACHINE_ID\":\"00112233445566778899aabbccddeeff\"";

    fn read(more: &str) -> Option<Entry> {
        Entry::of(&Fields::of_json(format!("{{{MACHINE}{more}}}").as_bytes())?)
    }

    #[test]
    fn only_root_is_the_daemon() {
        let event = ",\"MCPINSPECT_EVENT\":\"mcp_tool_seen\",\"MCPINSPECT_TOOL\":\"t\"";
        let kind = |uid: &str| read(&format!("{event}{uid}")).unwrap().kind;
        assert_eq!(kind(""), Kind::Forged);
        assert_eq!(kind(",\"_UID\":\"1000\""), Kind::Forged);
        assert_eq!(kind(",\"_UID\":[\"1000\",\"0\"]"), Kind::Forged);
        let Kind::Event(event) = kind(",\"_UID\":\"0\"") else {
            panic!("no event");
        };
        assert_eq!(
            (event.name, event.tool.as_deref()),
            ("mcp_tool_seen", Some("t"))
        );
    }

    #[test]
    fn text_is_made_harmless_and_bounded() {
        let entry = read(&format!(
            ",\"_HOSTNAME\":\"a\\u001b[31m\\u202eb\",\"_UID\":\"0\",\"MCPINSPECT_EVENT\":\"mcp_policy\",\
             \"MCPINSPECT_SERVER\":[104,105,255],\"MCPINSPECT_REASON\":\"{}\"",
            "x".repeat(9_000)
        ))
        .unwrap();
        assert_eq!(entry.host, "a\\u{1b}[31m\\u{202e}b");
        let Kind::Event(event) = entry.kind else {
            panic!("no event");
        };
        assert_eq!(event.server.as_deref(), Some("hi\u{fffd}"));
        assert_eq!(event.reason.unwrap().chars().count(), TEXT_MAX);
    }

    #[test]
    fn what_is_no_entry_is_none() {
        assert_eq!(read(",\"_UID\":{\"a\":1}").unwrap().kind, Kind::Other);
        assert!(Fields::of_json(b"[1]").is_none());
        assert!(Fields::of_json(b"{").is_none());
        for line in [
            "{}",
            "{\"__REALTIME_TIMESTAMP\":\"-1\",\"_MACHINE_ID\":\"00112233445566778899aabbccddeeff\"}",
            "{\"__REALTIME_TIMESTAMP\":\"1\",\"_MACHINE_ID\":\"../../etc\"}",
        ] {
            let fields = Fields::of_json(line.as_bytes()).unwrap();
            assert_eq!(Entry::of(&fields), None, "{line}");
        }
    }

    #[test]
    fn the_service_speaks_through_systemd_alone() {
        let stopped = ",\"MESSAGE_ID\":\"9d1aaa27d60140bd96365438aad20286\",\"UNIT\":\"mcpinspectd.service\",\"_UID\":\"0\"";
        assert_eq!(
            read(&format!("{stopped},\"_PID\":\"1\"")).unwrap().kind,
            Kind::Service(Sign::Stopped)
        );
        assert_eq!(
            read(&format!("{stopped},\"_PID\":\"77\"")).unwrap().kind,
            Kind::Other
        );
    }
}
