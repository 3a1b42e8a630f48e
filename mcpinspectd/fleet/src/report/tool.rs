//! One tool, host by host.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use mcpinspect_core::model::Timestamp;

use super::super::entry::Machine;
use super::super::row::Definition as SeenDefinition;
use super::super::value::{FirstText, LastDecision, SightingRange};
use super::names::Names;
use super::{Change, Day, Definition, ToolReport};

/// Most definitions of one tool to distinguish.
const DEFINITIONS_MAX: usize = 20_000;
/// Most names, days and changes to keep for one tool.
const ROOM: usize = 1 << 20;
/// A day, in nanoseconds.
const DAY: u64 = 86_400_000_000_000;

/// What is known about a tool so far.
#[derive(Debug)]
pub struct ToolBuilder {
    name: String,
    by_bytes: HashMap<Vec<u8>, usize, RandomState>,
    definitions: Vec<Stats>,
    host: Option<OneHost>,
    not_told_apart: u64,
    has_sights: bool,
    is_approved: bool,
    list_max: usize,
    room: usize,
    scratch: Vec<u8>,
}

/// A definition over all hosts.
#[derive(Debug, Default)]
struct Stats {
    hash: Option<String>,
    bytes: Vec<u8>,
    host_count: u64,
    hosts: Vec<Machine>,
    /// When one of the hosts that see it now first saw it.
    since: Option<Timestamp>,
    /// When and where a host first saw it.
    first: Option<(Timestamp, Machine)>,
    approved: bool,
    approved_count: u64,
    not_approved: Vec<Machine>,
    description: Option<String>,
    changes: Vec<Change>,
    spread: BTreeMap<u64, u64>,
}

/// What one host sees and decided.
#[derive(Debug)]
struct OneHost {
    machine: Machine,
    /// The definition that it saw last; `None` if it is not distinguished.
    current: Option<(SightingRange, Vec<u8>, Option<usize>)>,
    approved: Vec<usize>,
}

impl ToolBuilder {
    /// A tool about which nothing is known.
    pub fn new(name: &str, list_max: usize) -> Self {
        Self {
            name: name.to_owned(),
            by_bytes: HashMap::default(),
            definitions: Vec::new(),
            host: None,
            not_told_apart: 0,
            has_sights: false,
            is_approved: false,
            list_max,
            room: ROOM,
            scratch: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How a definition describes it.
    pub fn description(&mut self, definition: SeenDefinition<'_>, text: FirstText) {
        if let Some(stats) = self.find(definition) {
            stats.description = Some(text.text);
        }
    }

    /// In which fields two definitions differ.
    pub fn change(
        &mut self,
        definition: SeenDefinition<'_>,
        previous: SeenDefinition<'_>,
        text: FirstText,
    ) {
        let Some(room) = self.room.checked_sub(1) else {
            return;
        };
        self.room = room;
        if let Some(stats) = self.find(definition) {
            stats.changes.push(Change {
                previous_hash: previous.shown(),
                fields: text.text,
            });
        }
    }

    /// A host saw a definition.
    pub fn sighting(
        &mut self,
        machine: Machine,
        definition: SeenDefinition<'_>,
        sighting: SightingRange,
    ) {
        self.has_sights = true;
        let index = self.index(definition);
        if let Some(stats) = index.and_then(|index| self.definitions.get_mut(index)) {
            let first = (sighting.first, machine);
            stats.first = Some(stats.first.map_or(first, |known| known.min(first)));
            let day = sighting.first.0 / DAY;
            if let Some(hosts) = stats.spread.get_mut(&day) {
                *hosts += 1;
            } else if let Some(room) = self.room.checked_sub(1) {
                self.room = room;
                stats.spread.insert(day, 1);
            }
        }
        let bytes = std::mem::take(&mut self.scratch);
        let host = self.host(machine);
        let is_later = host
            .current
            .as_ref()
            .is_none_or(|(known, than, _)| (known.last, than) < (sighting.last, &bytes));
        if is_later {
            host.current = Some((sighting, bytes, index));
        } else {
            self.scratch = bytes;
        }
    }

    /// A host's last decision on a definition.
    pub fn decided(
        &mut self,
        machine: Machine,
        definition: SeenDefinition<'_>,
        decided: &LastDecision,
    ) {
        if decided.decision != "approve" {
            return;
        }
        self.is_approved = true;
        let Some(index) = self.index(definition) else {
            return;
        };
        if let Some(stats) = self.definitions.get_mut(index) {
            stats.approved = true;
        }
        self.host(machine).approved.push(index);
    }

    /// Whether any host approved any definition.
    pub fn is_approved(&self) -> bool {
        self.is_approved
    }

    /// The tool; `None` if no host has it. A definition that was first seen since `new` is new.
    pub fn finish(mut self, names: &Names, new: Timestamp) -> Option<ToolReport> {
        self.settle();
        if !self.has_sights {
            return None;
        }
        self.definitions.retain(|stats| stats.host_count > 0);
        self.definitions
            .sort_by(|a, b| (b.host_count, &a.bytes).cmp(&(a.host_count, &b.bytes)));
        let definitions = self.definitions.into_iter().map(|stats| {
            let (first, machine) = stats.first.unwrap_or_default();
            Definition {
                hash: stats.hash,
                host_count: stats.host_count,
                hosts: names.names(&stats.hosts),
                since: stats.since.unwrap_or_default(),
                first_host: names.name(machine),
                is_new: first >= new,
                approved: stats.approved,
                approved_count: stats.approved_count,
                not_approved: names.names(&stats.not_approved),
                description: stats.description,
                changes: stats.changes,
                spread: spread(stats.spread),
            }
        });
        let definitions: Vec<Definition> = definitions.collect();
        Some(ToolReport {
            tool: self.name,
            agreed: definitions.len() < 2 && self.not_told_apart == 0,
            definitions,
            not_told_apart: self.not_told_apart,
        })
    }

    fn host(&mut self, machine: Machine) -> &mut OneHost {
        if self
            .host
            .as_ref()
            .is_some_and(|host| host.machine != machine)
        {
            self.settle();
        }
        self.host.get_or_insert_with(|| OneHost {
            machine,
            current: None,
            approved: Vec::new(),
        })
    }

    /// Adds up a host that is complete.
    fn settle(&mut self) {
        let Some(host) = self.host.take() else { return };
        let Some((sighting, _, index)) = host.current else {
            return;
        };
        let Some(index) = index else {
            self.not_told_apart += 1;
            return;
        };
        let Some(stats) = self.definitions.get_mut(index) else {
            return;
        };
        stats.host_count += 1;
        let since = stats.since.unwrap_or(sighting.first);
        stats.since = Some(since.min(sighting.first));
        let mut list = |hosts: &mut Vec<Machine>| {
            if hosts.len() < self.list_max && self.room > 0 {
                self.room -= 1;
                hosts.push(host.machine);
            }
        };
        list(&mut stats.hosts);
        if host.approved.contains(&index) {
            stats.approved_count += 1;
        } else {
            list(&mut stats.not_approved);
        }
    }

    fn find(&mut self, definition: SeenDefinition<'_>) -> Option<&mut Stats> {
        let index = self.index(definition)?;
        self.definitions.get_mut(index)
    }

    /// A definition's index; `None` if there are too many. Its bytes are then in `scratch`.
    fn index(&mut self, definition: SeenDefinition<'_>) -> Option<usize> {
        self.scratch.clear();
        definition.put(&mut self.scratch);
        if let Some(index) = self.by_bytes.get(&self.scratch) {
            return Some(*index);
        }
        let index = self.definitions.len();
        if index >= DEFINITIONS_MAX {
            return None;
        }
        self.by_bytes.insert(self.scratch.clone(), index);
        self.definitions.push(Stats {
            hash: definition.shown(),
            bytes: self.scratch.clone(),
            ..Stats::default()
        });
        Some(index)
    }
}

fn spread(days: BTreeMap<u64, u64>) -> Vec<Day> {
    let days = days.into_iter().map(|(day, hosts)| {
        let begin = Timestamp(day.saturating_mul(DAY)).to_string();
        let day = begin.split('T').next().unwrap_or_default().to_owned();
        Day { day, hosts }
    });
    days.collect()
}
