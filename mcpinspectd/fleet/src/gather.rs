//! What one thread has read, until it exceeds its share of memory.
//!
//! Most entries repeat what is known of their host, its servers and their tools. So every thread merges the rows of
//! its entries by itself, and its gatherer is emptied into the [table](super::table) of all rows when it is full.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_engine::event::kind::EventKind;

use super::entry::{Entry, Event, Kind, Machine};
use super::fields::{Field, Fields};
use super::origin;
use super::row::{Decision, Definition, EventRecord, Finding, key};
use super::value::{FirstText, Host, LastDecision, SightingRange, Value};

/// What a row costs besides its key, in bytes: its slot in a table that may be half empty, and an allocation.
const ROW_COST: usize = 192;

/// The name of a finding about entries that one host sent in another's name. No daemon reports this.
const FOREIGN: &str = "foreign_entries";

/// Rows that one thread has gathered.
#[derive(Debug)]
pub struct Gatherer {
    rows: HashMap<Box<[u8]>, Value, RandomState>,
    /// Bytes that they occupy.
    used: usize,
    used_max: usize,
    /// Whether each event is a row too.
    with_events: bool,
    /// The key being built.
    key: Vec<u8>,
}

impl Gatherer {
    /// An empty one that takes up to `budget` bytes, and also keeps each event if `with_events`.
    pub fn new(budget: usize, with_events: bool) -> Self {
        Self {
            rows: HashMap::default(),
            used: 0,
            used_max: budget,
            with_events,
            key: Vec::new(),
        }
    }

    /// Whether it has to be emptied.
    pub fn is_full(&self) -> bool {
        self.used >= self.used_max
    }

    /// Takes in an entry from this sender, if known for certain.
    pub fn take(&mut self, fields: Option<&Fields<'_>>, sender: Option<&str>) {
        let Some(entry) = fields.and_then(Entry::of) else {
            self.add(key::unreadable, Value::Count(1));
            return;
        };
        match sender.filter(|sender| !origin::is_from(sender, &entry.host)) {
            Some(sender) => self.foreign(&entry, sender),
            None => self.entry(&entry),
        }
    }

    /// An entry of one host that another one sent. Nothing in it is believed, except that it was sent.
    fn foreign(&mut self, entry: &Entry<'_>, sender: &str) {
        let category = format!("entries of {} sent by {sender}", entry.host);
        let finding = Finding {
            severity: Severity::High,
            event: FOREIGN,
            server: "",
            tool: None,
            category: Some(&category),
            pattern: None,
        };
        self.sighting(
            |key| key::finding(key, &finding),
            entry.machine,
            |_| {},
            entry.time,
        );
        let behind = |key: &mut Vec<u8>| key::host_alerts(key, finding.severity);
        self.sighting(key::of_host, entry.machine, behind, entry.time);
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        let time = entry.time;
        let mut host = Host::new(&entry.host, time);
        match &entry.kind {
            Kind::Other => {}
            Kind::Forged => host.forged = 1,
            Kind::Dropped => host.lost.by_journald = 1,
            Kind::Service(sign) => host.service = Some((time, *sign)),
            Kind::Event(event) => {
                host.last_event = Some(time);
                let lost = &mut host.lost;
                match event.kind {
                    EventKind::CaptureGap => {
                        lost.gaps = 1;
                        lost.bytes = event.number(Field::BytesLost).unwrap_or(0);
                    }
                    EventKind::BlindSpot => lost.blind_spots = 1,
                    EventKind::EventsDropped => {
                        lost.events = event.number(Field::Dropped).unwrap_or(0);
                    }
                    _ => {}
                }
                if self.with_events {
                    self.record(entry, event);
                }
                self.event(entry.machine, time, event);
            }
        }
        let put = |key: &mut Vec<u8>| {
            key::of_host(key);
            key.extend_from_slice(&entry.machine.0);
            key::host(key);
        };
        self.add(put, Value::Host(Box::new(host)));
    }

    fn record(&mut self, entry: &Entry<'_>, event: &Event<'_>) {
        let server = event.text(Field::Server).unwrap_or_default();
        let (tool, hash) = (event.text(Field::Tool), event.text(Field::Hash));
        let (category, pattern) = (event.text(Field::Category), event.text(Field::Pattern));
        let record = EventRecord {
            time: entry.time,
            machine: entry.machine,
            event: event.kind.name(),
            server: &server,
            tool: tool.as_deref(),
            definition: Definition::of(hash.as_deref()),
            severity: event.severity(),
            category: category.as_deref(),
            pattern: pattern.as_deref(),
        };
        let host = FirstText {
            time: entry.time,
            machine: entry.machine,
            text: entry.host.clone().into_owned(),
        };
        self.add(|key| key::event(key, &record), Value::FirstText(host));
    }

    fn event(&mut self, host: Machine, time: Timestamp, event: &Event<'_>) {
        let server = event.text(Field::Server).unwrap_or_default();
        match event.kind {
            EventKind::SessionStarted => {
                self.server(host, time, &server);
                if let Some(fingerprint) = event.text(Field::Fingerprint) {
                    let put = |key: &mut Vec<u8>| key::fingerprint(key, &server, &fingerprint);
                    self.sighting(put, host, |_| {}, time);
                }
            }
            EventKind::SessionIdentified => {
                let info = event.particulars().server_info;
                if let Some(version) = info.and_then(|info| info.version) {
                    let version = super::entry::shown(&version);
                    self.server(host, time, &server);
                    let put = |key: &mut Vec<u8>| key::version(key, &server, &version);
                    self.sighting(put, host, |_| {}, time);
                }
            }
            EventKind::ToolSeen | EventKind::ToolChanged => {
                self.server(host, time, &server);
                self.tool(host, time, &server, event);
            }
            EventKind::Policy => self.decision(host, time, &server, event),
            _ => {}
        }
        // Each finding in a listed tool is also an event of its own.
        if let Some(severity) = event.severity()
            && event.kind != EventKind::ToolSeen
        {
            let tool = event.text(Field::Tool);
            let category = event.text(Field::Category);
            let pattern = event.text(Field::Pattern);
            let finding = Finding {
                severity,
                event: event.kind.name(),
                server: &server,
                tool: tool.as_deref(),
                category: category.as_deref(),
                pattern: pattern.as_deref(),
            };
            self.sighting(|key| key::finding(key, &finding), host, |_| {}, time);
            let behind = |key: &mut Vec<u8>| key::host_alerts(key, severity);
            self.sighting(key::of_host, host, behind, time);
        }
    }

    fn server(&mut self, host: Machine, time: Timestamp, server: &str) {
        self.sighting(|key| key::server(key, server), host, |_| {}, time);
        let behind = |key: &mut Vec<u8>| key::host_server(key, server);
        self.sighting(key::of_host, host, behind, time);
    }

    fn tool(&mut self, host: Machine, time: Timestamp, server: &str, event: &Event<'_>) {
        let Some(tool) = event.text(Field::Tool) else {
            return;
        };
        let hash = event.text(Field::Hash);
        let definition = Definition::of(hash.as_deref());
        let behind = |key: &mut Vec<u8>| key::definition(key, definition);
        self.sighting(|key| key::tool(key, server, &tool), host, behind, time);
        if definition == Definition::Gone {
            return;
        }
        if event.kind == EventKind::ToolSeen {
            let put = |key: &mut Vec<u8>| key::description(key, server, &tool, definition);
            self.first_text(put, time, host, || event.particulars().description);
        } else {
            let previous = event.text(Field::PreviousHash);
            let previous = Definition::of(previous.as_deref());
            let put = |key: &mut Vec<u8>| key::change(key, server, &tool, definition, previous);
            self.first_text(put, time, host, || {
                let changes = event.particulars().changes;
                let fields: Vec<String> = changes.into_iter().map(|change| change.field).collect();
                Some(fields.join(" ")).filter(|fields| !fields.is_empty())
            });
        }
    }

    fn decision(&mut self, machine: Machine, time: Timestamp, server: &str, event: &Event<'_>) {
        let item = match (event.text(Field::Tool), event.text(Field::Item)) {
            (Some(tool), _) => tool,
            (None, Some(item)) => format!("({item})").into(),
            (None, None) => "".into(),
        };
        let hash = event.text(Field::Hash);
        let definition = Definition::of(hash.as_deref());
        let decision = event.text(Field::Decision).unwrap_or_default();
        let (by, reason) = (event.text(Field::DecidedBy), event.text(Field::Reason));
        let any = Decision {
            time,
            machine,
            server,
            item: &item,
            definition,
            decision: &decision,
            by: by.as_deref(),
            uid: event.number(Field::DecidedByUid),
            reason: reason.as_deref(),
        };
        self.add(|key| key::decision(key, &any), Value::Nothing);
        let put = |key: &mut Vec<u8>| {
            key::tool(key, server, &item);
            key.extend_from_slice(&machine.0);
            key::decided(key, definition);
        };
        let decision = decision.into_owned();
        self.add(put, Value::LastDecision(LastDecision { time, decision }));
    }

    fn sighting(
        &mut self,
        before: impl FnOnce(&mut Vec<u8>),
        host: Machine,
        behind: impl FnOnce(&mut Vec<u8>),
        time: Timestamp,
    ) {
        let put = |key: &mut Vec<u8>| {
            before(key);
            key.extend_from_slice(&host.0);
            behind(key);
        };
        self.add(put, Value::SightingRange(SightingRange::at(time)));
    }

    /// Adds what the first host said. Its text is only extracted if it counts.
    fn first_text(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>),
        time: Timestamp,
        machine: Machine,
        text: impl FnOnce() -> Option<String>,
    ) {
        self.key.clear();
        put(&mut self.key);
        // Several entries of one host and time: the smallest text counts, so all are examined.
        if let Some(Value::FirstText(known)) = self.rows.get(self.key.as_slice())
            && (known.time, known.machine) < (time, machine)
        {
            return;
        }
        if let Some(text) = text() {
            let text = super::entry::shown(&text).into_owned();
            self.used += text.len();
            self.merge(Value::FirstText(FirstText {
                time,
                machine,
                text,
            }));
        }
    }

    fn add(&mut self, put: impl FnOnce(&mut Vec<u8>), value: Value) {
        self.key.clear();
        put(&mut self.key);
        self.merge(value);
    }

    /// Merges a value into the row whose key was built.
    fn merge(&mut self, value: Value) {
        match self.rows.get_mut(self.key.as_slice()) {
            Some(known) => known.merge(value),
            None => {
                self.used += self.key.len() + ROW_COST;
                self.rows.insert(self.key.as_slice().into(), value);
            }
        }
    }

    /// Its rows, ordered by key.
    pub fn sorted(&self) -> Vec<(&[u8], &Value)> {
        let mut rows: Vec<_> = self
            .rows
            .iter()
            .map(|(key, value)| (&**key, value))
            .collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.used = 0;
    }
}
