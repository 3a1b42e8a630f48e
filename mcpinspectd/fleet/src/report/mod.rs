//! The report: what runs where, which hosts differ, what is new, who decided what, alerts, and hosts
//! that are silent or whose record has holes.
//!
//! It is a function of [rows](super::row::Row) in order, and hands each part to the output as it reaches
//! it. So it has no limits of its own, and rows that another engine computed lead to
//! the same report. Lists of hosts are cut if requested; the numbers beside them are exact.

mod build;
mod names;
mod tool;

use std::collections::BTreeMap;
use std::io;

use mcpinspect_core::model::{Severity, Timestamp};
use serde::Serialize;

pub use build::{RowSource, Settings, report};

use super::value::Losses;

/// A host's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It ships its journal, and nothing says that the daemon does not run.
    Watched,
    /// It ships its journal, but the daemon has never run there.
    Unwatched,
    /// It ships its journal, but the daemon was stopped.
    Stopped,
    /// It ships its journal, but the daemon failed.
    Failed,
    /// Nothing has come from it for too long.
    Silent,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// Its name; with the start of its machine id if several have that name.
    pub host: String,
    /// systemd's id of the machine.
    pub machine_id: String,
    /// Its state.
    pub state: State,
    /// Its oldest entry.
    pub first_entry: Timestamp,
    /// Its newest entry.
    pub last_entry: Timestamp,
    /// The daemon's newest event.
    pub last_event: Option<Timestamp>,
    /// Servers seen there.
    pub servers: u64,
    /// Alerts there, by severity.
    pub alerts: BTreeMap<Severity, u64>,
    /// How many of them there were per day, from the first to the last.
    pub alerts_per_day: u64,
    /// Gaps in its record.
    pub lost: Losses,
    /// Entries that claim to be the daemon's but were not written by root.
    pub forged: u64,
}

impl HostReport {
    /// Whether it needs attention: it is not watched, or has lost data, or someone forges entries.
    pub fn wants_a_look(&self) -> bool {
        self.state != State::Watched || !self.lost.is_nothing() || self.forged > 0
    }

    /// What is missing from its record, or should not be there, in words; `None` if nothing.
    pub fn losses(&self) -> Option<String> {
        let lost = self.lost;
        let parts: Vec<String> = [
            (lost.bytes, "bytes on the wire"),
            (lost.blind_spots, "blind spots"),
            (lost.events, "events"),
            (lost.by_journald, "times by journald"),
            (self.forged, "forged entries"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// A definition of a tool, and who sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its hash; `null` if the tool is no longer offered.
    pub hash: Option<String>,
    /// How many hosts saw it last.
    pub host_count: u64,
    /// Those hosts.
    pub hosts: Vec<String>,
    /// When the first of them saw it.
    pub since: Timestamp,
    /// On which host it was seen first.
    pub first_host: String,
    /// Whether it is new in the fleet.
    pub is_new: bool,
    /// Whether it was approved on any host.
    pub approved: bool,
    /// On how many of the hosts that see it it is approved.
    pub approved_count: u64,
    /// Hosts that see it but have not approved it.
    pub not_approved: Vec<String>,
    /// How it describes the tool.
    pub description: Option<String>,
    /// In which fields it differs from others, as hosts reported that saw it change.
    pub changes: Vec<Change>,
    /// How many hosts saw it for the first time, day by day.
    pub spread: Vec<Day>,
}

impl Definition {
    /// Whether most hosts that see it approved it, but some did not.
    pub fn is_not_approved_by_some(&self) -> bool {
        self.approved_count < self.host_count && self.approved_count * 2 > self.host_count
    }
}

/// A change to a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The hash of the previous definition.
    pub previous_hash: Option<String>,
    /// The fields that differ.
    pub fields: String,
}

/// A day in the spread of a definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Day {
    /// Which, in UTC.
    pub day: String,
    /// Hosts.
    pub hosts: u64,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolReport {
    /// Its name.
    pub tool: String,
    /// Whether all hosts that have it see the same.
    pub agreed: bool,
    /// What is seen, most hosts first.
    pub definitions: Vec<Definition>,
    /// Hosts whose definitions are not distinguished: there are more than anyone could read.
    pub not_told_apart: u64,
}

/// A version of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// As stated by the server.
    pub version: String,
    /// On how many hosts it was seen.
    pub host_count: u64,
    /// Those hosts.
    pub hosts: Vec<String>,
    /// When it was last seen.
    pub last_seen: Timestamp,
}

/// A server of one name. Its tools follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// Its name.
    pub server: String,
    /// On how many hosts it was seen.
    pub host_count: u64,
    /// Those hosts.
    pub hosts: Vec<String>,
    /// Different ways in which it is launched. If more than one, the hosts may not mean the same server.
    pub fingerprints: Vec<String>,
    /// Its versions.
    pub versions: Vec<Version>,
    /// When it was first seen anywhere.
    pub first_seen: Timestamp,
    /// On which host that was.
    pub first_host: String,
    /// Whether it is new in the fleet.
    pub is_new: bool,
    /// When it was last seen anywhere.
    pub last_seen: Timestamp,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionReport {
    /// When.
    pub time: Timestamp,
    /// Where.
    pub host: String,
    /// By a `person`, or by the `policy` of that host's configuration.
    pub by: Option<String>,
    /// By which user of that host.
    pub uid: Option<u64>,
    /// What: `approve`, `reject`, `pin`, `unpin` or `forget`.
    pub decision: String,
    /// About which server.
    pub server: String,
    /// About which tool, or which other item in parentheses.
    pub item: String,
    /// About which definition.
    pub hash: Option<String>,
    /// Why, in that person's words.
    pub reason: Option<String>,
}

/// Alerts of one kind on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlertReport {
    /// When the last of them was.
    pub time: Timestamp,
    /// When the first of them was.
    pub first: Timestamp,
    /// How many there were.
    pub count: u64,
    /// How many there were per day, from the first to the last.
    pub per_day: u64,
    /// Where.
    pub host: String,
    /// What.
    #[serde(flatten)]
    pub what: Alert,
}

/// What an alert is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Alert {
    /// Its severity.
    pub severity: Severity,
    /// Which event.
    pub event: String,
    /// About which server.
    pub server: String,
    /// About which tool.
    pub tool: Option<String>,
    /// Which kind of attack.
    pub category: Option<String>,
    /// Found by which rule.
    pub pattern: Option<String>,
}

impl Alert {
    /// Whether a secret was seen.
    pub fn is_secret(&self) -> bool {
        self.category.as_deref()
            == Some(mcpinspect_judge::detect::category::Category::SecretExposure.as_str())
    }
}

/// Alerts of one kind on all hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    /// How many there were.
    pub count: u64,
    /// On how many hosts.
    pub host_count: u64,
    /// How many there were per day, from the first to the last.
    pub per_day: u64,
    /// When the first of them was.
    pub first: Timestamp,
    /// When the last of them was.
    pub last: Timestamp,
    /// What.
    #[serde(flatten)]
    pub what: Alert,
}

/// What was read but is not in the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Unreadable entries: not JSON, without a time, or too long.
    pub unreadable: u64,
    /// Entries that claim to be the daemon's but were not written by root.
    pub forged: u64,
}

/// What is known at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Hosts by their states.
    pub states: BTreeMap<State, u64>,
    /// How many alerts there were of each severity.
    pub alert_counts: BTreeMap<Severity, u64>,
    /// Tools that some hosts see differently.
    pub differences: u64,
    /// The most frequent alerts on all hosts.
    pub findings: Vec<FindingReport>,
    /// Secrets that were seen.
    pub secrets: Vec<FindingReport>,
    /// Entries that were read but are not part of the report.
    pub left_out: LeftOut,
    /// When the collection begins.
    pub oldest: Timestamp,
    /// Whether the fleet needs attention: hosts differ, or a host is unwatched or has lost data.
    pub wants_a_look: bool,
}

/// Something that shows a report. Its parts come in this order.
pub trait Output {
    /// A host.
    fn host(&mut self, host: HostReport) -> io::Result<()>;
    /// A server.
    fn server(&mut self, server: ServerReport) -> io::Result<()>;
    /// A tool of that server.
    fn tool(&mut self, tool: ToolReport) -> io::Result<()>;
    /// The end of that server: whether any definition of it is approved on any host.
    fn server_end(&mut self, is_approved: bool) -> io::Result<()>;
    /// A decision; newest first.
    fn decision(&mut self, decision: DecisionReport) -> io::Result<()>;
    /// Alerts on a host; worst first.
    fn alert(&mut self, alert: AlertReport) -> io::Result<()>;
}
