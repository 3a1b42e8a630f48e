//! What one thread has read, until it exceeds its share of memory.
//!
//! A thread keeps rows in tables of small numbers: hosts and the two halves of keys are kept once and
//! numbered. When a table or the text has used up its budget, everything becomes one sorted run, and the
//! tables are empty again. The size of a table is chosen at startup: a growing one would exist twice
//! for a moment.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use foldhash::fast::RandomState;
use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_engine::event::kind::EventKind;

use super::entry::{Entry, Event, Kind, Machine};
use super::fields::{Field, Fields};
use super::origin;
use super::row::{Decision, Definition, Finding, Happened, key};
use super::run::RunWriter;
use super::value::{Decided, Host, Sight, Told, Value};

type Map<K, V> = HashMap<K, V, RandomState>;

/// What a row in the table of sights costs while it is sorted, in bytes: its slot in the table and
/// in the list.
const SIGHT_COST: usize = 96;
/// What a host costs besides its name.
const HOST_COST: usize = 320;
/// What a kept text costs besides its bytes.
const TEXT_COST: usize = 96;

/// The name of a finding about entries that one host sent in another's name. No daemon reports this.
const FOREIGN: &str = "foreign_entries";

/// Rows that one thread has gathered.
#[derive(Debug)]
pub struct Gatherer {
    hosts: Numbered<Machine>,
    known: Vec<Option<Host>>,
    texts: Numbered<Arc<[u8]>>,
    /// By the part of the key before the host, the host, and the part after it.
    sights: Map<(u32, u32, u32), Sight>,
    rows: BTreeMap<Vec<u8>, Value>,
    told: Map<Vec<u8>, Told>,
    unreadable: u64,
    /// Bytes that texts and rows occupy.
    used: usize,
    sights_max: usize,
    used_max: usize,
    /// Whether each event is a row too.
    with_events: bool,
    scratch: Vec<u8>,
}

/// Things with numbers.
#[derive(Debug)]
struct Numbered<T> {
    numbers: Map<T, u32>,
    things: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self {
            numbers: Map::default(),
            things: Vec::new(),
        }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    /// The number of a thing, and whether it is new.
    fn number<Q>(&mut self, thing: &Q) -> (u32, bool)
    where
        T: std::borrow::Borrow<Q> + for<'a> From<&'a Q>,
        Q: ?Sized + Eq + std::hash::Hash,
    {
        if let Some(number) = self.numbers.get(thing) {
            return (*number, false);
        }
        // The budget ends long before four billion.
        let number = u32::try_from(self.things.len()).unwrap_or(u32::MAX);
        let thing = T::from(thing);
        self.things.push(thing.clone());
        self.numbers.insert(thing, number);
        (number, true)
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.things.get(number as usize)
    }
}

impl From<&Machine> for Machine {
    fn from(machine: &Machine) -> Self {
        *machine
    }
}

impl Gatherer {
    /// An empty one that takes up to `budget` bytes, and also keeps each event if `with_events`.
    pub fn new(budget: usize, with_events: bool) -> Self {
        // A table has a power of two of slots, seven eighths of which are used.
        let places = (budget * 3 / 4 / SIGHT_COST).max(8);
        let places = 1_usize << places.ilog2();
        Self {
            hosts: Numbered::default(),
            known: Vec::new(),
            texts: Numbered::default(),
            sights: Map::default(),
            rows: BTreeMap::new(),
            told: Map::default(),
            unreadable: 0,
            used: 0,
            sights_max: places / 8 * 7,
            used_max: budget / 4,
            with_events,
            scratch: Vec::new(),
        }
    }

    /// Whether it has to be written.
    pub fn is_full(&self) -> bool {
        self.sights.len() + 8 >= self.sights_max || self.used >= self.used_max
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.unreadable == 0 && self.hosts.things.is_empty()
    }

    /// Takes in an entry from this sender, if known for certain.
    pub fn take(&mut self, fields: Option<&Fields<'_>>, sender: Option<&str>) {
        let Some(entry) = fields.and_then(Entry::of) else {
            self.unreadable += 1;
            return;
        };
        match sender.filter(|sender| !origin::is_from(sender, &entry.host)) {
            Some(sender) => self.foreign(&entry, sender),
            None => self.entry(&entry),
        }
    }

    /// An entry of one host that another one sent. Nothing in it is believed, except that it was sent.
    fn foreign(&mut self, entry: &Entry<'_>, sender: &str) {
        let (host, is_new) = self.hosts.number(&entry.machine);
        if is_new {
            self.known.push(None);
            self.used += HOST_COST;
        }
        let category = format!("entries of {} sent by {sender}", entry.host);
        let finding = Finding {
            severity: Severity::High,
            event: FOREIGN,
            server: "",
            tool: None,
            category: Some(&category),
            pattern: None,
        };
        self.sight(|key| key::finding(key, &finding), host, |_| {}, entry.time);
        let behind = |key: &mut Vec<u8>| key::host_alerts(key, finding.severity);
        self.sight(key::of_host, host, behind, entry.time);
    }

    fn entry(&mut self, entry: &Entry<'_>) {
        let time = entry.time;
        let (host, is_new) = self.hosts.number(&entry.machine);
        if is_new {
            self.known.push(None);
            self.used += HOST_COST + entry.host.len();
        }
        let Some(place) = self.known.get_mut(host as usize) else {
            return;
        };
        let known = place.get_or_insert_with(|| Host::new(&entry.host, time));
        known.heard(&entry.host, time);
        match &entry.kind {
            Kind::Other => {}
            Kind::Forged => known.forged += 1,
            Kind::Dropped => known.lost.by_journald += 1,
            Kind::Service(sign) => known.service = known.service.max(Some((time, *sign))),
            Kind::Event(event) => {
                known.last_event = known.last_event.max(Some(time));
                let lost = &mut known.lost;
                match event.kind {
                    EventKind::CaptureGap => {
                        let bytes = event.number(Field::BytesLost).unwrap_or(0);
                        lost.gaps += 1;
                        lost.bytes = lost.bytes.saturating_add(bytes);
                    }
                    EventKind::BlindSpot => lost.blind_spots += 1,
                    EventKind::EventsDropped => {
                        let dropped = event.number(Field::Dropped).unwrap_or(0);
                        lost.events = lost.events.saturating_add(dropped);
                    }
                    _ => {}
                }
                if self.with_events {
                    self.happened(entry, event);
                }
                self.event(host, entry.machine, time, event);
            }
        }
    }

    fn happened(&mut self, entry: &Entry<'_>, event: &Event<'_>) {
        let server = event.text(Field::Server).unwrap_or_default();
        let (tool, hash) = (event.text(Field::Tool), event.text(Field::Hash));
        let (category, pattern) = (event.text(Field::Category), event.text(Field::Pattern));
        let key = key::event(&Happened {
            time: entry.time,
            machine: entry.machine,
            event: event.kind.name(),
            server: &server,
            tool: tool.as_deref(),
            definition: Definition::of(hash.as_deref()),
            severity: event.severity(),
            category: category.as_deref(),
            pattern: pattern.as_deref(),
        });
        let told = Told {
            time: entry.time,
            machine: entry.machine,
            text: entry.host.clone().into_owned(),
        };
        self.row(key, Value::Told(told));
    }

    fn event(&mut self, host: u32, machine: Machine, time: Timestamp, event: &Event<'_>) {
        let server = event.text(Field::Server).unwrap_or_default();
        match event.kind {
            EventKind::SessionStarted => {
                self.server(host, time, &server);
                if let Some(fingerprint) = event.text(Field::Fingerprint) {
                    let put = |key: &mut Vec<u8>| key::fingerprint(key, &server, &fingerprint);
                    self.sight(put, host, |_| {}, time);
                }
            }
            EventKind::SessionIdentified => {
                let info = event.particulars().server_info;
                if let Some(version) = info.and_then(|info| info.version) {
                    let version = super::entry::shown(&version);
                    self.server(host, time, &server);
                    let put = |key: &mut Vec<u8>| key::version(key, &server, &version);
                    self.sight(put, host, |_| {}, time);
                }
            }
            EventKind::ToolSeen | EventKind::ToolChanged => {
                self.server(host, time, &server);
                self.tool(host, machine, time, &server, event);
            }
            EventKind::Policy => self.decision(machine, time, &server, event),
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
            self.sight(|key| key::finding(key, &finding), host, |_| {}, time);
            let behind = |key: &mut Vec<u8>| key::host_alerts(key, severity);
            self.sight(key::of_host, host, behind, time);
        }
    }

    fn server(&mut self, host: u32, time: Timestamp, server: &str) {
        self.sight(|key| key::server(key, server), host, |_| {}, time);
        let behind = |key: &mut Vec<u8>| key::host_server(key, server);
        self.sight(key::of_host, host, behind, time);
    }

    fn tool(
        &mut self,
        host: u32,
        machine: Machine,
        time: Timestamp,
        server: &str,
        event: &Event<'_>,
    ) {
        let Some(tool) = event.text(Field::Tool) else {
            return;
        };
        let hash = event.text(Field::Hash);
        let definition = Definition::of(hash.as_deref());
        let behind = |key: &mut Vec<u8>| key::definition(key, definition);
        self.sight(|key| key::tool(key, server, &tool), host, behind, time);
        if definition == Definition::Gone {
            return;
        }
        if event.kind == EventKind::ToolSeen {
            let put = |key: &mut Vec<u8>| key::description(key, server, &tool, definition);
            self.told(put, time, machine, || event.particulars().description);
        } else {
            let previous = event.text(Field::PreviousHash);
            let previous = Definition::of(previous.as_deref());
            let put = |key: &mut Vec<u8>| key::change(key, server, &tool, definition, previous);
            self.told(put, time, machine, || {
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
        let key = key::decision(&Decision {
            time,
            machine,
            server,
            item: &item,
            definition,
            decision: &decision,
            by: by.as_deref(),
            uid: event.number(Field::DecidedByUid),
            reason: reason.as_deref(),
        });
        self.row(key, Value::Nothing);
        let mut key = Vec::new();
        key::tool(&mut key, server, &item);
        key.extend_from_slice(&machine.0);
        key::decided(&mut key, definition);
        let decision = decision.into_owned();
        self.row(key, Value::Decided(Decided { time, decision }));
    }

    fn row(&mut self, key: Vec<u8>, value: Value) {
        match self.rows.get_mut(&key) {
            Some(known) => known.and(value),
            None => {
                self.used += key.len() + 2 * TEXT_COST;
                self.rows.insert(key, value);
            }
        }
    }

    fn sight(
        &mut self,
        before: impl FnOnce(&mut Vec<u8>),
        host: u32,
        behind: impl FnOnce(&mut Vec<u8>),
        time: Timestamp,
    ) {
        let before = self.text(before);
        let behind = self.text(behind);
        let sight = Sight::at(time);
        self.sights
            .entry((before, host, behind))
            .and_modify(|known| known.and(sight))
            .or_insert(sight);
    }

    fn text(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> u32 {
        self.scratch.clear();
        put(&mut self.scratch);
        let (number, is_new) = self.texts.number(self.scratch.as_slice());
        if is_new {
            self.used += self.scratch.len() + TEXT_COST;
        }
        number
    }

    /// Remembers what the first host said. Its text is only extracted if it counts.
    fn told(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>),
        time: Timestamp,
        machine: Machine,
        text: impl FnOnce() -> Option<String>,
    ) {
        self.scratch.clear();
        put(&mut self.scratch);
        let known = self.told.get(self.scratch.as_slice());
        // Several entries of one host and time: the smallest text counts, so all are examined.
        if known.is_some_and(|known| (known.time, known.machine) < (time, machine)) {
            return;
        }
        let Some(text) = text() else { return };
        let text = super::entry::shown(&text).into_owned();
        let told = Told {
            time,
            machine,
            text,
        };
        match self.told.get_mut(self.scratch.as_slice()) {
            Some(known) => {
                if told < *known {
                    *known = told;
                }
            }
            None => {
                self.used += self.scratch.len() + told.text.len() + TEXT_COST;
                self.told.insert(self.scratch.clone(), told);
            }
        }
    }

    /// Writes all rows in order; the gatherer is then empty.
    ///
    /// # Errors
    /// The rows cannot be written.
    pub fn write(&mut self, out: &mut RunWriter) -> io::Result<()> {
        let mut others = std::mem::take(&mut self.rows);
        if self.unreadable > 0 {
            let count = Value::Count(std::mem::take(&mut self.unreadable));
            others.insert(key::unreadable(), count);
        }
        for (key, told) in self.told.drain() {
            others.insert(key, Value::Told(told));
        }
        for (machine, host) in self.hosts.things.iter().zip(self.known.drain(..)) {
            let mut key = Vec::new();
            key::of_host(&mut key);
            key.extend_from_slice(&machine.0);
            key::host(&mut key);
            if let Some(host) = host {
                others.insert(key, Value::Host(Box::new(host)));
            }
        }
        let mut others = others.into_iter().peekable();
        let mut value = Vec::new();
        let mut key = Vec::new();
        for ((before, host, behind), sight) in self.sorted() {
            key.clear();
            let parts = (
                self.texts.get(before),
                self.hosts.get(host),
                self.texts.get(behind),
            );
            if let (Some(before), Some(host), Some(behind)) = parts {
                key.extend_from_slice(before);
                key.extend_from_slice(&host.0);
                key.extend_from_slice(behind);
            }
            while let Some((other, what)) = others.next_if(|(other, _)| *other < key) {
                value.clear();
                what.write(&mut value);
                out.add(&other, &value)?;
            }
            value.clear();
            Value::Sight(sight).write(&mut value);
            out.add(&key, &value)?;
        }
        for (other, what) in others {
            value.clear();
            what.write(&mut value);
            out.add(&other, &value)?;
        }
        self.hosts = Numbered::default();
        self.texts = Numbered::default();
        self.used = 0;
        Ok(())
    }

    /// The sights ordered by key. No first half of a key begins another, so their order
    /// is that of the whole keys.
    fn sorted(&mut self) -> Vec<((u32, u32, u32), Sight)> {
        let texts = ranks(&self.texts.things);
        let hosts = ranks(&self.hosts.things);
        let rank = |ranks: &[u32], number: u32| ranks.get(number as usize).copied().unwrap_or(0);
        let mut sorted: Vec<_> = self.sights.drain().collect();
        sorted.sort_unstable_by_key(|((before, host, behind), _)| {
            let high = u64::from(rank(&texts, *before)) << 32 | u64::from(rank(&hosts, *host));
            (high, rank(&texts, *behind))
        });
        sorted
    }
}

/// For each thing, its rank in their order.
fn ranks<T: Ord>(things: &[T]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(things.len()).unwrap_or(u32::MAX)).collect();
    order.sort_unstable_by_key(|number| things.get(*number as usize));
    let mut ranks = vec![0; order.len()];
    for (rank, number) in (0..).zip(order) {
        if let Some(place) = ranks.get_mut(number as usize) {
            *place = rank;
        }
    }
    ranks
}
