//! Many machines: what a collection of their journals says about the MCP servers on them.
//!
//! Every daemon writes to its own machine's journal, and administrators ship journals already, with
//! systemd's own tools. So a fleet needs no server of its own: this module reads the collected journals and
//! answers what no single machine can know, above all *which hosts see a different definition of the
//! same tool of the same server*. A server that shows a poisoned definition to one host in fifty
//! looks unchanged on each of them.
//!
//! - [`entry`]: one journal entry, in which only the fields that journald itself adds can be trusted;
//! - [`source`]: entries from `journalctl` or from exported files, bounded in time and size;
//! - [`report`]: the answers.
//!
//! A collection cannot check what a machine's root writes into its journal or how the machine names
//! itself. Entries by other users of a machine are left out.

pub mod entry;
pub mod report;
pub mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Severity, Timestamp};

use entry::{Entry, Kind, Sign};

/// Hosts that are followed; entries of others are counted only.
const HOSTS_MAX: usize = 10_000;
/// Servers and tools of all hosts together.
const ITEMS_MAX: usize = 200_000;
/// Fingerprints of one server on one host.
const FINGERPRINTS_MAX: usize = 8;
/// Maximum number of decisions and alerts to list: the newest decisions and the worst alerts.
const LISTED_MAX: usize = 1_000;

/// A machine, by the id that systemd gave it at its installation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(String);

/// What is known of a host.
#[derive(Clone, Debug, Default)]
struct Host {
    /// The name that it had last.
    name: String,
    /// Its newest entry, of any program.
    last_entry: Timestamp,
    /// The daemon's newest event there.
    last_event: Option<Timestamp>,
    /// How the daemon's service was last, and since when.
    service: Option<(Timestamp, Sign)>,
    servers: BTreeMap<String, Server>,
    lost: Lost,
}

/// A server on one host.
#[derive(Clone, Debug, Default)]
struct Server {
    last_seen: Timestamp,
    fingerprints: BTreeSet<String>,
    tools: BTreeMap<String, Tool>,
}

/// A tool on one host, as it was last.
#[derive(Clone, Debug)]
struct Tool {
    /// `None` where it is no longer offered.
    hash: Option<String>,
    since: Timestamp,
    last_seen: Timestamp,
}

/// What is missing from a host's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Lost {
    /// Bytes on the wire that were not captured.
    pub bytes: u64,
    /// Places where that happened.
    pub gaps: u64,
    /// Bytes moved in ways that cannot be seen, as occasions.
    pub blind_spots: u64,
    /// Events that the daemon left out.
    pub events: u64,
    /// Occasions on which journald left entries of the service out.
    pub by_journald: u64,
}

impl Lost {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// Something that a person decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Decision {
    time: Timestamp,
    host: HostId,
    server: String,
    item: String,
    hash: Option<String>,
    decision: String,
    by: Option<String>,
    uid: Option<u64>,
    reason: Option<String>,
}

/// Something to look into, ordered by severity, then by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alert {
    severity: Severity,
    time: Timestamp,
    host: HostId,
    event: &'static str,
    server: String,
    tool: Option<String>,
    category: Option<String>,
    pattern: Option<String>,
}

/// What has been read so far. Entries may come in any order.
#[derive(Debug, Default)]
pub struct Fleet {
    hosts: BTreeMap<HostId, Host>,
    decisions: BTreeSet<Decision>,
    alerts: BTreeSet<Alert>,
    counts: BTreeMap<Severity, u64>,
    items: usize,
    newest: Timestamp,
    left_out: LeftOut,
}

/// What was read and is not in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Unreadable entries: not JSON, without a time, or too long.
    pub unreadable: u64,
    /// Entries that claim to be the daemon's but were not written by root.
    pub forged: u64,
    /// Entries of hosts, and servers and tools, above what is held in memory.
    pub too_many: u64,
    /// Decisions and alerts that are counted and not listed.
    pub unlisted: u64,
}

impl Fleet {
    /// Takes one entry in.
    pub fn add(&mut self, entry: &Entry) {
        self.newest = self.newest.max(entry.time);
        let id = HostId(entry.machine.clone());
        if !self.hosts.contains_key(&id) && self.hosts.len() >= HOSTS_MAX {
            self.left_out.too_many += 1;
            return;
        }
        let host = self.hosts.entry(id.clone()).or_default();
        if entry.time >= host.last_entry {
            host.last_entry = entry.time;
            host.name.clone_from(&entry.host);
        }
        match &entry.kind {
            Kind::Other => {}
            Kind::Forged => self.left_out.forged += 1,
            Kind::Dropped => host.lost.by_journald += 1,
            Kind::Service(sign) => {
                if host.service.is_none_or(|(since, _)| since <= entry.time) {
                    host.service = Some((entry.time, *sign));
                }
            }
            Kind::Event(event) => {
                let last = host.last_event.get_or_insert(entry.time);
                *last = entry.time.max(*last);
                self.event(&id, entry.time, event);
            }
        }
    }

    /// Counts what could not be read.
    pub fn unreadable(&mut self) {
        self.left_out.unreadable += 1;
    }

    fn event(&mut self, id: &HostId, time: Timestamp, event: &entry::Event) {
        let server = event.server.clone().unwrap_or_default();
        match event.name {
            "mcp_session_started" => {
                if let Some(known) = self.server(id, &server, time)
                    && let Some(fingerprint) = &event.fingerprint
                    && known.fingerprints.len() < FINGERPRINTS_MAX
                {
                    known.fingerprints.insert(fingerprint.clone());
                }
            }
            "mcp_tool_seen" | "mcp_tool_changed" => self.tool(id, &server, time, event),
            "mcp_policy" => self.decision(id, &server, time, event),
            "mcp_capture_gap" | "mcp_blind_spot" | "mcp_events_dropped" => {
                if let Some(host) = self.hosts.get_mut(id) {
                    let lost = &mut host.lost;
                    match event.name {
                        "mcp_capture_gap" => {
                            lost.gaps += 1;
                            lost.bytes = lost.bytes.saturating_add(event.bytes_lost);
                        }
                        "mcp_blind_spot" => lost.blind_spots += 1,
                        _ => lost.events = lost.events.saturating_add(event.dropped),
                    }
                }
            }
            _ => {}
        }
        // Each finding in a listed tool is also an event of its own.
        if let Some(severity) = event.severity
            && event.name != "mcp_tool_seen"
        {
            *self.counts.entry(severity).or_default() += 1;
            self.alerts.insert(Alert {
                severity,
                time,
                host: id.clone(),
                event: event.name,
                server,
                tool: event.tool.clone(),
                category: event.category.clone(),
                pattern: event.pattern.clone(),
            });
            if self.alerts.len() > LISTED_MAX {
                self.alerts.pop_first();
                self.left_out.unlisted += 1;
            }
        }
    }

    /// A server on a host; `None` where it would be one too many.
    fn server(&mut self, id: &HostId, name: &str, time: Timestamp) -> Option<&mut Server> {
        let host = self.hosts.get_mut(id)?;
        if !host.servers.contains_key(name) {
            if self.items >= ITEMS_MAX {
                self.left_out.too_many += 1;
                return None;
            }
            self.items += 1;
        }
        let server = host.servers.entry(name.to_owned()).or_default();
        server.last_seen = server.last_seen.max(time);
        Some(server)
    }

    fn tool(&mut self, id: &HostId, server: &str, time: Timestamp, event: &entry::Event) {
        let Some(name) = &event.tool else { return };
        let room = self.items < ITEMS_MAX;
        let Some(server) = self.server(id, server, time) else {
            return;
        };
        let hash = event.hash.clone();
        match server.tools.get_mut(name) {
            Some(tool) if tool.last_seen > time => {}
            Some(tool) => {
                if tool.hash != hash {
                    tool.since = time;
                    tool.hash = hash;
                }
                tool.last_seen = time;
            }
            None if room => {
                let tool = Tool {
                    hash,
                    since: time,
                    last_seen: time,
                };
                server.tools.insert(name.clone(), tool);
                self.items += 1;
            }
            None => self.left_out.too_many += 1,
        }
    }

    fn decision(&mut self, id: &HostId, server: &str, time: Timestamp, event: &entry::Event) {
        let item = match (&event.tool, &event.item) {
            (Some(tool), _) => tool.clone(),
            (None, Some(item)) => format!("({item})"),
            (None, None) => String::new(),
        };
        self.decisions.insert(Decision {
            time,
            host: id.clone(),
            server: server.to_owned(),
            item,
            hash: event.hash.clone(),
            decision: event.decision.clone().unwrap_or_default(),
            by: event.decided_by.clone(),
            uid: event.uid,
            reason: event.reason.clone(),
        });
        if self.decisions.len() > LISTED_MAX {
            self.decisions.pop_first();
            self.left_out.unlisted += 1;
        }
    }
}
