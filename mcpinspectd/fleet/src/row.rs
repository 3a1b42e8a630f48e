//! The rows of a collection: a key that sorts, and a value that can be combined with others.
//!
//! The report is a function of these rows in order, however they were computed. The order is that of
//! the report: hosts; each server with its hosts, then its tools, each of them host by host; decisions,
//! newest first; findings, worst first; events, if requested. So the report is written as the rows pass, and
//! needs memory for one server or tool at a time.
//!
//! Text in keys ends with a zero byte, which escaped text never contains.

use mcpinspect_core::model::{Severity, Timestamp};

use super::bytes::Reader;
use super::entry::Machine;
use super::value::{FirstText, Host, LastDecision, SightingRange, Value};

/// Longest key or value: at most six texts, and what separates them.
pub const KEY_AND_VALUE_MAX: usize = 16 << 10;

const UNREADABLE: u8 = 0;
const HOST: u8 = 1;
const SERVER: u8 = 2;
const DECISION: u8 = 3;
const FINDING: u8 = 4;
const EVENT: u8 = 5;
/// Stands for absent text; sorts before any text and occurs in none.
const NO_TEXT: u8 = 1;

/// Which definition of a tool a host sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Definition<'a> {
    /// No longer any.
    Gone,
    /// The one with this SHA-256.
    Hash([u8; 32]),
    /// One that is named differently, by another version of the daemon.
    Other(&'a str),
}

impl<'a> Definition<'a> {
    /// The definition that an event names.
    pub fn of(text: Option<&'a str>) -> Self {
        let Some(text) = text else { return Self::Gone };
        let mut hash = [0; 32];
        match hex::decode_to_slice(text, &mut hash) {
            Ok(()) => Self::Hash(hash),
            Err(_) => Self::Other(text),
        }
    }

    /// As text; `None` if the tool is gone.
    pub fn shown(&self) -> Option<String> {
        match self {
            Self::Gone => None,
            Self::Hash(hash) => Some(hex::encode(hash)),
            Self::Other(text) => Some((*text).to_owned()),
        }
    }

    /// Appends its bytes, which mark their own end.
    pub fn put(&self, key: &mut Vec<u8>) {
        match self {
            Self::Gone => key.push(0),
            Self::Hash(hash) => {
                key.push(1);
                key.extend_from_slice(hash);
            }
            Self::Other(text) => {
                key.push(2);
                put(key, text);
            }
        }
    }

    fn read(bytes: &mut Reader<'a>) -> Option<Self> {
        Some(match bytes.byte()? {
            0 => Self::Gone,
            1 => Self::Hash(bytes.array()?),
            2 => Self::Other(bytes.ended_text()?),
            _ => return None,
        })
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub enum Row<'a> {
    /// How many entries could not be read.
    Unreadable(u64),
    /// A host.
    Host(Machine, Box<Host>),
    /// A server on the host of the preceding rows.
    HostServer(Machine, &'a str, SightingRange),
    /// Alerts on the host of the preceding rows.
    HostAlerts(Machine, Severity, SightingRange),
    /// A server on a host.
    Server(&'a str, Machine, SightingRange),
    /// How a server is launched on a host.
    Fingerprint(&'a str, &'a str, Machine, SightingRange),
    /// What a server says its version is.
    Version(&'a str, &'a str, Machine, SightingRange),
    /// How a tool's definition describes it.
    Description(&'a str, &'a str, Definition<'a>, FirstText),
    /// In which fields a tool's definition differs from a previous one.
    Change(&'a str, &'a str, Definition<'a>, Definition<'a>, FirstText),
    /// A tool's definition on a host.
    Tool(&'a str, &'a str, Machine, Definition<'a>, SightingRange),
    /// A host's last decision on a definition.
    LastDecision(&'a str, &'a str, Machine, Definition<'a>, LastDecision),
    /// Any decision.
    Decision(Decision<'a>),
    /// A finding on a host.
    Finding(Finding<'a>, Machine, SightingRange),
    /// One event, and its host's name at the time. The report ignores these.
    Event(EventRecord<'a>, FirstText),
}

/// A decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// When.
    pub time: Timestamp,
    /// Where.
    pub machine: Machine,
    /// About which server.
    pub server: &'a str,
    /// About what of it.
    pub item: &'a str,
    /// About which definition.
    pub definition: Definition<'a>,
    /// What.
    pub decision: &'a str,
    /// By a person, or by the configuration.
    pub by: Option<&'a str>,
    /// By whom.
    pub uid: Option<u64>,
    /// Why.
    pub reason: Option<&'a str>,
}

/// A finding, and what it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding<'a> {
    /// How bad it is.
    pub severity: Severity,
    /// Which event says so.
    pub event: &'a str,
    /// In which server.
    pub server: &'a str,
    /// In which tool.
    pub tool: Option<&'a str>,
    /// What kind of attack.
    pub category: Option<&'a str>,
    /// By which rule.
    pub pattern: Option<&'a str>,
}

/// An event. Two that agree in all of this are one event that was sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord<'a> {
    /// When.
    pub time: Timestamp,
    /// Where.
    pub machine: Machine,
    /// What.
    pub event: &'a str,
    /// About which server.
    pub server: &'a str,
    /// About which tool.
    pub tool: Option<&'a str>,
    /// About which definition.
    pub definition: Definition<'a>,
    /// How bad it is.
    pub severity: Option<Severity>,
    /// What kind of attack.
    pub category: Option<&'a str>,
    /// By which rule.
    pub pattern: Option<&'a str>,
}

/// Builds keys. A key that ends with a host, or contains one in the middle, is built in two parts: the
/// parts recur, so they are kept once.
pub mod key {
    use super::*;

    /// For the number of unreadable entries.
    pub fn unreadable(key: &mut Vec<u8>) {
        key.push(UNREADABLE);
    }

    /// For what belongs to a host, before the host.
    pub fn of_host(key: &mut Vec<u8>) {
        key.push(HOST);
    }

    /// For a host itself, after the host.
    pub fn host(key: &mut Vec<u8>) {
        key.push(0);
    }

    /// For a server on a host, after the host.
    pub fn host_server(key: &mut Vec<u8>, server: &str) {
        key.push(1);
        put(key, server);
    }

    /// For alerts on a host, after the host.
    pub fn host_alerts(key: &mut Vec<u8>, severity: Severity) {
        key.push(2);
        key.push(rank(severity));
    }

    /// For a server on a host, before the host.
    pub fn server(key: &mut Vec<u8>, server: &str) {
        of_server(key, server, 0);
        key.push(0);
    }

    /// For a fingerprint on a host, before the host.
    pub fn fingerprint(key: &mut Vec<u8>, server: &str, fingerprint: &str) {
        of_server(key, server, 0);
        key.push(1);
        put(key, fingerprint);
    }

    /// For a version on a host, before the host.
    pub fn version(key: &mut Vec<u8>, server: &str, version: &str) {
        of_server(key, server, 0);
        key.push(2);
        put(key, version);
    }

    /// For what belongs to a tool on a host, before the host.
    pub fn tool(key: &mut Vec<u8>, server: &str, tool: &str) {
        of_server(key, server, 1);
        put(key, tool);
        key.push(1);
    }

    /// For a definition on a host, after the host.
    pub fn definition(key: &mut Vec<u8>, definition: Definition<'_>) {
        key.push(0);
        definition.put(key);
    }

    /// For a decision on a host, after the host.
    pub fn decided(key: &mut Vec<u8>, definition: Definition<'_>) {
        key.push(1);
        definition.put(key);
    }

    /// For a definition's description.
    pub fn description(key: &mut Vec<u8>, server: &str, tool: &str, of: Definition<'_>) {
        of_server(key, server, 1);
        put(key, tool);
        key.push(0);
        of.put(key);
        key.push(0);
    }

    /// For the difference between two definitions.
    pub fn change(
        key: &mut Vec<u8>,
        server: &str,
        tool: &str,
        of: Definition<'_>,
        previous: Definition<'_>,
    ) {
        of_server(key, server, 1);
        put(key, tool);
        key.push(0);
        of.put(key);
        key.push(1);
        previous.put(key);
    }

    /// For a decision.
    pub fn decision(key: &mut Vec<u8>, decision: &Decision<'_>) {
        key.push(DECISION);
        key.extend_from_slice(&(!decision.time.0).to_be_bytes());
        key.extend_from_slice(&decision.machine.0);
        put(key, decision.server);
        put(key, decision.item);
        decision.definition.put(key);
        put(key, decision.decision);
        put_some(key, decision.by);
        match decision.uid {
            None => key.push(0),
            Some(uid) => {
                key.push(1);
                key.extend_from_slice(&uid.to_be_bytes());
            }
        }
        put_some(key, decision.reason);
    }

    /// For a finding on a host, before the host.
    pub fn finding(key: &mut Vec<u8>, finding: &Finding<'_>) {
        key.push(FINDING);
        key.push(rank(finding.severity));
        put(key, finding.event);
        put(key, finding.server);
        put_some(key, finding.tool);
        put_some(key, finding.category);
        put_some(key, finding.pattern);
    }

    /// For an event.
    pub fn event(key: &mut Vec<u8>, event: &EventRecord<'_>) {
        key.push(EVENT);
        key.extend_from_slice(&event.time.0.to_be_bytes());
        key.extend_from_slice(&event.machine.0);
        put(key, event.event);
        put(key, event.server);
        put_some(key, event.tool);
        event.definition.put(key);
        key.push(event.severity.map_or(u8::MAX, rank));
        put_some(key, event.category);
        put_some(key, event.pattern);
    }

    fn of_server(key: &mut Vec<u8>, server: &str, part: u8) {
        key.push(SERVER);
        put(key, server);
        key.push(part);
    }
}

fn put(key: &mut Vec<u8>, text: &str) {
    key.extend_from_slice(text.as_bytes());
    key.push(0);
}

fn put_some(key: &mut Vec<u8>, text: Option<&str>) {
    match text {
        None => key.extend_from_slice(&[NO_TEXT, 0]),
        Some(text) => put(key, text),
    }
}

const SEVERITIES: [Severity; 4] = [
    Severity::Critical,
    Severity::High,
    Severity::Medium,
    Severity::Low,
];

/// The worst first.
fn rank(severity: Severity) -> u8 {
    match severity {
        Severity::Critical => 0,
        Severity::High => 1,
        Severity::Medium => 2,
        Severity::Low => 3,
    }
}

impl<'a> Row<'a> {
    /// The row with this key and value; `None` if they are not one.
    pub fn read(key: &'a [u8], value: Value) -> Option<Self> {
        let mut key = Reader(key);
        match key.byte()? {
            UNREADABLE => match value {
                Value::Count(count) => Some(Self::Unreadable(count)),
                _ => None,
            },
            HOST => {
                let machine = machine(&mut key)?;
                match (key.byte()?, value) {
                    (0, Value::Host(host)) => Some(Self::Host(machine, host)),
                    (1, Value::SightingRange(sighting)) => {
                        Some(Self::HostServer(machine, key.ended_text()?, sighting))
                    }
                    (2, Value::SightingRange(sighting)) => {
                        Some(Self::HostAlerts(machine, severity(&mut key)?, sighting))
                    }
                    _ => None,
                }
            }
            SERVER => of_server(&mut key, value),
            DECISION => decision(&mut key).map(Self::Decision),
            FINDING => {
                let finding = Finding {
                    severity: severity(&mut key)?,
                    event: key.ended_text()?,
                    server: key.ended_text()?,
                    tool: some_text(&mut key)?,
                    category: some_text(&mut key)?,
                    pattern: some_text(&mut key)?,
                };
                match value {
                    Value::SightingRange(sighting) => {
                        Some(Self::Finding(finding, machine(&mut key)?, sighting))
                    }
                    _ => None,
                }
            }
            EVENT => match value {
                Value::FirstText(text) => event(&mut key).map(|event| Self::Event(event, text)),
                _ => None,
            },
            _ => None,
        }
    }
}

fn of_server<'a>(key: &mut Reader<'a>, value: Value) -> Option<Row<'a>> {
    let server = key.ended_text()?;
    if key.byte()? == 0 {
        let Value::SightingRange(sighting) = value else {
            return None;
        };
        return Some(match key.byte()? {
            0 => Row::Server(server, machine(key)?, sighting),
            1 => Row::Fingerprint(server, key.ended_text()?, machine(key)?, sighting),
            _ => Row::Version(server, key.ended_text()?, machine(key)?, sighting),
        });
    }
    let tool = key.ended_text()?;
    if key.byte()? == 0 {
        let Value::FirstText(text) = value else {
            return None;
        };
        let definition = Definition::read(key)?;
        return Some(match key.byte()? {
            0 => Row::Description(server, tool, definition, text),
            _ => Row::Change(server, tool, definition, Definition::read(key)?, text),
        });
    }
    let machine = machine(key)?;
    let kind = key.byte()?;
    let definition = Definition::read(key)?;
    match (kind, value) {
        (0, Value::SightingRange(sighting)) => {
            Some(Row::Tool(server, tool, machine, definition, sighting))
        }
        (1, Value::LastDecision(decision)) => Some(Row::LastDecision(
            server, tool, machine, definition, decision,
        )),
        _ => None,
    }
}

fn decision<'a>(key: &mut Reader<'a>) -> Option<Decision<'a>> {
    Some(Decision {
        time: Timestamp(!u64::from_be_bytes(key.array()?)),
        machine: machine(key)?,
        server: key.ended_text()?,
        item: key.ended_text()?,
        definition: Definition::read(key)?,
        decision: key.ended_text()?,
        by: some_text(key)?,
        uid: match key.byte()? {
            0 => None,
            _ => Some(u64::from_be_bytes(key.array()?)),
        },
        reason: some_text(key)?,
    })
}

fn event<'a>(key: &mut Reader<'a>) -> Option<EventRecord<'a>> {
    Some(EventRecord {
        time: Timestamp(u64::from_be_bytes(key.array()?)),
        machine: machine(key)?,
        event: key.ended_text()?,
        server: key.ended_text()?,
        tool: some_text(key)?,
        definition: Definition::read(key)?,
        severity: SEVERITIES.get(usize::from(key.byte()?)).copied(),
        category: some_text(key)?,
        pattern: some_text(key)?,
    })
}

fn machine(key: &mut Reader<'_>) -> Option<Machine> {
    key.array().map(Machine)
}

fn severity(key: &mut Reader<'_>) -> Option<Severity> {
    SEVERITIES.get(usize::from(key.byte()?)).copied()
}

fn some_text<'a>(key: &mut Reader<'a>) -> Option<Option<&'a str>> {
    let text = key.ended_text()?;
    Some((text.as_bytes() != [NO_TEXT]).then_some(text))
}
