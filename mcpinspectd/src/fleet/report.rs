//! The report: what runs where, which hosts differ, who decided what, alerts, and silent hosts.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::entry::Sign;
use super::{Fleet, Host, HostId, LeftOut, Lost};
use crate::model::{Severity, Timestamp};

/// A host's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It ships its journal, and nothing says that the daemon does not run.
    Watched,
    /// It ships its journal, and the daemon has never run there.
    Unwatched,
    /// It ships its journal, and the daemon was stopped.
    Stopped,
    /// It ships its journal, and the daemon failed.
    Failed,
    /// Nothing has come from it for too long.
    Silent,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// Its name; with the beginning of its machine id where several have that name.
    pub host: String,
    /// What systemd calls the machine.
    pub machine_id: String,
    /// Its state.
    pub state: State,
    /// Its newest entry.
    pub last_entry: Timestamp,
    /// The daemon's newest event.
    pub last_event: Option<Timestamp>,
    /// Servers seen there.
    pub servers: usize,
    /// Gaps in its record.
    pub lost: Lost,
}

/// A definition of a tool, and who sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Definition {
    /// Its hash; `null` where the tool is no longer offered.
    pub hash: Option<String>,
    /// The hosts that saw it last.
    pub hosts: Vec<String>,
    /// When the first of them saw it.
    pub since: Timestamp,
    /// Whether it was approved on any host.
    pub approved: bool,
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolReport {
    /// Its name.
    pub tool: String,
    /// Whether all hosts that have it see the same.
    pub agreed: bool,
    /// What is seen, by the most hosts first.
    pub definitions: Vec<Definition>,
}

/// A server of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServerReport {
    /// Its name.
    pub server: String,
    /// The hosts that it was seen on.
    pub hosts: Vec<String>,
    /// Different ways in which it is launched. More than one: the hosts may not mean the same server.
    pub fingerprints: Vec<String>,
    /// When it was last seen anywhere.
    pub last_seen: Timestamp,
    /// Its tools.
    pub tools: Vec<ToolReport>,
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

/// An alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlertReport {
    /// When.
    pub time: Timestamp,
    /// Where.
    pub host: String,
    /// Its severity.
    pub severity: Severity,
    /// Which event.
    pub event: &'static str,
    /// About which server.
    pub server: String,
    /// About which tool.
    pub tool: Option<String>,
    /// Which kind of attack.
    pub category: Option<String>,
    /// Found by which rule.
    pub pattern: Option<String>,
}

/// The whole report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The hosts.
    pub hosts: Vec<HostReport>,
    /// The servers, with their tools.
    pub servers: Vec<ServerReport>,
    /// Who decided what, the newest first.
    pub decisions: Vec<DecisionReport>,
    /// Alerts, the worst first.
    pub alerts: Vec<AlertReport>,
    /// How many alerts there were of each severity, listed or not.
    pub alert_counts: BTreeMap<Severity, u64>,
    /// Entries that were read but are not part of the report.
    pub left_out: LeftOut,
}

impl Report {
    /// Tools that not all hosts see alike, with their servers.
    pub fn differences(&self) -> impl Iterator<Item = (&ServerReport, &ToolReport)> {
        self.servers.iter().flat_map(|server| {
            let differ = server.tools.iter().filter(|tool| !tool.agreed);
            differ.map(move |tool| (server, tool))
        })
    }

    /// Whether the fleet needs attention: hosts differ, or a host is unwatched or has lost data.
    pub fn wants_a_look(&self) -> bool {
        self.differences().next().is_some()
            || self
                .hosts
                .iter()
                .any(|host| host.state != State::Watched || !host.lost.is_nothing())
            || self
                .alert_counts
                .keys()
                .any(|&severity| severity >= Severity::High)
    }
}

impl Fleet {
    /// When the newest entry was written.
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// The answers, as of `now`; a host whose last entry is older than `patience` (nanoseconds) is
    /// silent.
    pub fn report(&self, now: Timestamp, patience: u64) -> Report {
        let names = self.names();
        let name = |id: &HostId| names.get(id).cloned().unwrap_or_default();
        let hosts = self.hosts.iter().map(|(id, host)| HostReport {
            host: name(id),
            machine_id: id.0.clone(),
            state: state(host, now, patience),
            last_entry: host.last_entry,
            last_event: host.last_event,
            servers: host.servers.len(),
            lost: host.lost,
        });
        let decisions = self.decisions.iter().rev().map(|decision| DecisionReport {
            time: decision.time,
            host: name(&decision.host),
            by: decision.by.clone(),
            uid: decision.uid,
            decision: decision.decision.clone(),
            server: decision.server.clone(),
            item: decision.item.clone(),
            hash: decision.hash.clone(),
            reason: decision.reason.clone(),
        });
        let alerts = self.alerts.iter().rev().map(|alert| AlertReport {
            time: alert.time,
            host: name(&alert.host),
            severity: alert.severity,
            event: alert.event,
            server: alert.server.clone(),
            tool: alert.tool.clone(),
            category: alert.category.clone(),
            pattern: alert.pattern.clone(),
        });
        Report {
            hosts: hosts.collect(),
            servers: self.servers(&names),
            decisions: decisions.collect(),
            alerts: alerts.collect(),
            alert_counts: self.counts.clone(),
            left_out: self.left_out,
        }
    }

    /// What hosts are called: by their name where no other has it.
    fn names(&self) -> BTreeMap<HostId, String> {
        let mut bearers: BTreeMap<&str, usize> = BTreeMap::new();
        for host in self.hosts.values() {
            *bearers.entry(&host.name).or_default() += 1;
        }
        let named = self.hosts.iter().map(|(id, host)| {
            let name = match bearers.get(host.name.as_str()) {
                Some(1) if !host.name.is_empty() => host.name.clone(),
                _ => format!("{} ({})", host.name, id.0.get(..8).unwrap_or_default()),
            };
            (id.clone(), name)
        });
        named.collect()
    }

    fn servers(&self, names: &BTreeMap<HostId, String>) -> Vec<ServerReport> {
        let approved: BTreeSet<(&str, &str, &str)> = self
            .decisions
            .iter()
            .filter(|decision| decision.decision == "approve")
            .filter_map(|decision| {
                let hash = decision.hash.as_deref()?;
                Some((decision.server.as_str(), decision.item.as_str(), hash))
            })
            .collect();
        let mut gathered: BTreeMap<&str, Gathered<'_>> = BTreeMap::new();
        for (id, host) in &self.hosts {
            for (name, server) in &host.servers {
                let all = gathered.entry(name).or_default();
                all.hosts.push(id);
                all.fingerprints.extend(server.fingerprints.iter());
                all.last_seen = all.last_seen.max(server.last_seen);
                for (tool_name, tool) in &server.tools {
                    let tools = all.tools.entry(tool_name).or_default();
                    let (hosts, since) = tools
                        .entry(tool.hash.as_deref())
                        .or_insert_with(|| (Vec::new(), tool.since));
                    hosts.push(id);
                    *since = tool.since.min(*since);
                }
            }
        }
        let called = |ids: &[&HostId]| -> Vec<String> {
            let mut called: Vec<String> = ids
                .iter()
                .filter_map(|id| names.get(*id).cloned())
                .collect();
            called.sort();
            called
        };
        let reports = gathered.into_iter().map(|(server, all)| ServerReport {
            server: server.to_owned(),
            hosts: called(&all.hosts),
            fingerprints: all.fingerprints.into_iter().cloned().collect(),
            last_seen: all.last_seen,
            tools: all
                .tools
                .into_iter()
                .map(|(tool, seen)| {
                    let mut definitions: Vec<Definition> = seen
                        .into_iter()
                        .map(|(hash, (hosts, since))| Definition {
                            hash: hash.map(str::to_owned),
                            hosts: called(&hosts),
                            since,
                            approved: hash
                                .is_some_and(|hash| approved.contains(&(server, tool, hash))),
                        })
                        .collect();
                    definitions.sort_by_key(|definition| std::cmp::Reverse(definition.hosts.len()));
                    ToolReport {
                        tool: tool.to_owned(),
                        agreed: definitions.len() < 2,
                        definitions,
                    }
                })
                .collect(),
        });
        reports.collect()
    }
}

/// Who sees a definition, and since when.
type Seen<'a> = BTreeMap<Option<&'a str>, (Vec<&'a HostId>, Timestamp)>;

/// A server over all hosts.
#[derive(Default)]
struct Gathered<'a> {
    hosts: Vec<&'a HostId>,
    fingerprints: BTreeSet<&'a String>,
    last_seen: Timestamp,
    tools: BTreeMap<&'a str, Seen<'a>>,
}

fn state(host: &Host, now: Timestamp, patience: u64) -> State {
    if now.nanos_since(host.last_entry) > patience {
        return State::Silent;
    }
    match (host.service, host.last_event) {
        (Some((since, sign)), last) if last.is_none_or(|last| last <= since) => match sign {
            Sign::Started => State::Watched,
            Sign::Stopped => State::Stopped,
            Sign::Failed => State::Failed,
        },
        (_, Some(_)) => State::Watched,
        (_, None) => State::Unwatched,
    }
}
