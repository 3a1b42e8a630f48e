//! From rows to the parts of the report.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use mcpinspect_core::model::{Severity, Timestamp};

use super::super::entry::{Machine, Sign};
use super::super::row::{Decision, Finding, Row};
use super::super::table::RowCursor;
use super::super::value::{Host, SightingRange, Value};
use super::names::Names;
use super::tool::ToolBuilder;
use super::{
    Alert, AlertReport, DecisionReport, FindingReport, HostReport, LeftOut, Output, ServerReport,
    State, Summary, Version,
};

/// Most findings of all hosts, and most secrets, to list.
const FINDINGS_MAX: usize = 1_000;
/// Most fingerprints and versions of a server to list.
const WAYS_MAX: usize = 1_000;
/// A day, in nanoseconds.
const DAY: u64 = 86_400_000_000_000;

/// Where rows come from.
pub trait RowSource {
    /// The next row.
    ///
    /// # Errors
    /// There are more, and they cannot be read.
    fn next(&mut self) -> io::Result<Option<Row<'_>>>;
}

impl RowSource for RowCursor<'_> {
    fn next(&mut self) -> io::Result<Option<Row<'_>>> {
        if !self.advance()? {
            return Ok(None);
        }
        let row = Value::read(self.value()).and_then(|value| Row::read(self.key(), value));
        row.map(Some).ok_or_else(|| {
            let message = "a row of the collection is damaged";
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    }
}

/// The settings of a report.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The present; `None` means the newest entry.
    pub now: Option<Timestamp>,
    /// A host whose last entry is older is silent, in nanoseconds.
    pub patience: u64,
    /// What was first seen within this time is new, in nanoseconds.
    pub new_within: u64,
    /// The most hosts in one list.
    pub list_max: usize,
}

/// Reports on the rows that `open` opens, twice: the names of all hosts are needed first.
///
/// # Errors
/// The rows cannot be read, or the report cannot be shown.
pub fn report<S: RowSource>(
    mut open: impl FnMut() -> io::Result<S>,
    settings: &Settings,
    out: &mut impl Output,
) -> io::Result<Summary> {
    let mut names = Names::default();
    let (mut oldest, mut newest) = (Timestamp(u64::MAX), Timestamp(0));
    let mut rows = open()?;
    while let Some(row) = rows.next()? {
        match row {
            Row::Host(machine, host) => {
                names.add(machine, &host.name);
                oldest = oldest.min(host.first_entry);
                newest = newest.max(host.last_entry);
            }
            Row::Unreadable(_) | Row::HostServer(..) | Row::HostAlerts(..) => {}
            _ => break,
        }
    }
    names.finish();
    // A host whose clock is ahead makes no other silent.
    let now = settings.now.unwrap_or(newest.min(Timestamp::now()));
    let mut builder = Builder {
        names: &names,
        settings,
        now,
        new: Timestamp(now.0.saturating_sub(settings.new_within)),
        out,
        summary: Summary {
            oldest: oldest.min(newest),
            ..Summary::default()
        },
        host: None,
        alerts: None,
        server: None,
        finding: None,
        frequent: BTreeSet::new(),
        secrets: BTreeSet::new(),
    };
    let mut rows = open()?;
    while let Some(row) = rows.next()? {
        builder.row(row)?;
    }
    builder.finish()
}

struct Builder<'a, O> {
    names: &'a Names,
    settings: &'a Settings,
    now: Timestamp,
    new: Timestamp,
    out: &'a mut O,
    summary: Summary,
    host: Option<HostReport>,
    /// When the first and the last alert on it was.
    alerts: Option<SightingRange>,
    server: Option<ServerBuilder>,
    finding: Option<FindingReport>,
    frequent: BTreeSet<Ranked>,
    secrets: BTreeSet<Ranked>,
}

/// A finding by its severity, then by its frequency.
type Ranked = (Severity, u64, u64, Alert, Timestamp, Timestamp);

struct ServerBuilder {
    name: String,
    sighting: Option<SightingRange>,
    first: Option<(Timestamp, Machine)>,
    host_count: u64,
    hosts: Vec<Machine>,
    fingerprints: Vec<String>,
    versions: Vec<(Version, Vec<Machine>)>,
    /// Whether its head was reported.
    is_open: bool,
    is_approved: bool,
    tool: Option<ToolBuilder>,
}

impl<O: Output> Builder<'_, O> {
    fn row(&mut self, row: Row<'_>) -> io::Result<()> {
        match row {
            Row::Unreadable(count) => self.summary.left_out.unreadable = count,
            Row::Host(machine, host) => {
                self.end_host()?;
                self.host = Some(self.host_report(machine, &host));
            }
            Row::HostServer(..) => {
                if let Some(host) = &mut self.host {
                    host.servers += 1;
                }
            }
            Row::HostAlerts(machine, severity, sighting) => {
                *self.summary.alert_counts.entry(severity).or_default() += sighting.count;
                // A host that only others mention has no entry of its own.
                let id = machine.to_string();
                if let Some(host) = self.host.as_mut().filter(|host| host.machine_id == id) {
                    host.alerts.insert(severity, sighting.count);
                    self.alerts
                        .get_or_insert(SightingRange {
                            count: 0,
                            ..sighting
                        })
                        .merge(sighting);
                }
            }
            Row::Server(name, machine, sighting) => {
                let list_max = self.settings.list_max;
                self.at_server(name)?.seen(machine, sighting, list_max);
            }
            Row::Fingerprint(name, fingerprint, _, _) => {
                let known = &mut self.at_server(name)?.fingerprints;
                if known.last().is_none_or(|last| last != fingerprint) && known.len() < WAYS_MAX {
                    known.push(fingerprint.to_owned());
                }
            }
            Row::Version(name, version, machine, sighting) => {
                let list_max = self.settings.list_max;
                let known = &mut self.at_server(name)?.versions;
                let has_room = known.len() < WAYS_MAX;
                match known.last_mut() {
                    Some((last, hosts)) if last.version == version => {
                        last.host_count += 1;
                        last.last_seen = last.last_seen.max(sighting.last);
                        if hosts.len() < list_max {
                            hosts.push(machine);
                        }
                    }
                    _ if !has_room => {}
                    _ => {
                        let version = Version {
                            version: version.to_owned(),
                            host_count: 1,
                            hosts: Vec::new(),
                            last_seen: sighting.last,
                        };
                        let hosts = [machine].into_iter().take(list_max);
                        known.push((version, hosts.collect()));
                    }
                }
            }
            Row::Description(server, tool, definition, text) => {
                self.at_tool(server, tool)?.description(definition, text);
            }
            Row::Change(server, tool, definition, previous, text) => {
                let tool = self.at_tool(server, tool)?;
                tool.change(definition, previous, text);
            }
            Row::Tool(server, tool, machine, definition, sighting) => {
                let tool = self.at_tool(server, tool)?;
                tool.sighting(machine, definition, sighting);
            }
            Row::LastDecision(server, tool, machine, definition, decided) => {
                let tool = self.at_tool(server, tool)?;
                tool.decided(machine, definition, &decided);
            }
            Row::Decision(decision) => {
                self.end_host()?;
                self.end_server()?;
                let decision = self.decision_report(&decision);
                self.out.decision(decision)?;
            }
            Row::Finding(finding, machine, sighting) => {
                self.end_host()?;
                self.end_server()?;
                self.finding(&finding, machine, sighting)?;
            }
            Row::Event(..) => {}
        }
        Ok(())
    }

    fn host_report(&mut self, machine: Machine, host: &Host) -> HostReport {
        self.summary.left_out.forged += host.forged;
        let state = state(host, self.now, self.settings.patience);
        *self.summary.states.entry(state).or_default() += 1;
        HostReport {
            host: self.names.name(machine),
            machine_id: machine.to_string(),
            state,
            first_entry: host.first_entry,
            last_entry: host.last_entry,
            last_event: host.last_event,
            servers: 0,
            alerts: BTreeMap::new(),
            alerts_per_day: 0,
            lost: host.lost,
            forged: host.forged,
        }
    }

    fn end_host(&mut self) -> io::Result<()> {
        let alerts = self.alerts.take();
        let Some(mut host) = self.host.take() else {
            return Ok(());
        };
        host.alerts_per_day = alerts.map_or(0, per_day);
        self.summary.wants_a_look |= host.wants_a_look();
        self.out.host(host)
    }

    fn at_server(&mut self, name: &str) -> io::Result<&mut ServerBuilder> {
        if self
            .server
            .as_ref()
            .is_some_and(|server| server.name != name)
        {
            self.end_server()?;
        }
        self.end_host()?;
        Ok(self
            .server
            .get_or_insert_with(|| ServerBuilder::new(name.to_owned())))
    }

    fn at_tool(&mut self, server: &str, name: &str) -> io::Result<&mut ToolBuilder> {
        let server = self.at_server(server)?;
        if server.tool.as_ref().is_some_and(|tool| tool.name() != name) {
            self.end_tool()?;
        }
        self.open_server()?;
        let list_max = self.settings.list_max;
        let tool = self.server.as_mut().map(|server| &mut server.tool);
        let tool = tool.ok_or_else(|| io::Error::other("a tool has no server"))?;
        Ok(tool.get_or_insert_with(|| ToolBuilder::new(name, list_max)))
    }

    /// Reports the head of a server, unless it was never seen and only decided on.
    fn open_server(&mut self) -> io::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let Some(sighting) = server.sighting.filter(|_| !server.is_open) else {
            return Ok(());
        };
        server.is_open = true;
        let (first_seen, first) = server.first.unwrap_or_default();
        let versions = std::mem::take(&mut server.versions).into_iter();
        let versions = versions.map(|(version, hosts)| Version {
            hosts: self.names.names(&hosts),
            ..version
        });
        let report = ServerReport {
            server: server.name.clone(),
            host_count: server.host_count,
            hosts: self.names.names(&server.hosts),
            fingerprints: std::mem::take(&mut server.fingerprints),
            versions: versions.collect(),
            first_seen,
            first_host: self.names.name(first),
            is_new: first_seen >= self.new,
            last_seen: sighting.last,
        };
        self.out.server(report)
    }

    fn end_tool(&mut self) -> io::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let Some(tool) = server.tool.take() else {
            return Ok(());
        };
        server.is_approved |= tool.is_approved();
        let is_open = server.is_open;
        if let Some(tool) = tool.finish(self.names, self.new).filter(|_| is_open) {
            self.summary.differences += u64::from(!tool.agreed);
            self.out.tool(tool)?;
        }
        Ok(())
    }

    fn end_server(&mut self) -> io::Result<()> {
        self.open_server()?;
        self.end_tool()?;
        if let Some(server) = self.server.take()
            && server.is_open
        {
            self.out.server_end(server.is_approved)?;
        }
        Ok(())
    }

    fn decision_report(&self, decision: &Decision<'_>) -> DecisionReport {
        DecisionReport {
            time: decision.time,
            host: self.names.name(decision.machine),
            by: decision.by.map(str::to_owned),
            uid: decision.uid,
            decision: decision.decision.to_owned(),
            server: decision.server.to_owned(),
            item: decision.item.to_owned(),
            hash: decision.definition.shown(),
            reason: decision.reason.map(str::to_owned),
        }
    }

    fn finding(
        &mut self,
        finding: &Finding<'_>,
        machine: Machine,
        sighting: SightingRange,
    ) -> io::Result<()> {
        let what = Alert {
            severity: finding.severity,
            event: finding.event.to_owned(),
            server: finding.server.to_owned(),
            tool: finding.tool.map(str::to_owned),
            category: finding.category.map(str::to_owned),
            pattern: finding.pattern.map(str::to_owned),
        };
        match &mut self.finding {
            Some(same) if same.what == what => {
                same.count = same.count.saturating_add(sighting.count);
                same.host_count += 1;
                same.first = same.first.min(sighting.first);
                same.last = same.last.max(sighting.last);
            }
            _ => {
                self.end_finding();
                self.finding = Some(FindingReport {
                    count: sighting.count,
                    host_count: 1,
                    per_day: 0,
                    first: sighting.first,
                    last: sighting.last,
                    what: what.clone(),
                });
            }
        }
        self.out.alert(AlertReport {
            time: sighting.last,
            first: sighting.first,
            count: sighting.count,
            per_day: per_day(sighting),
            host: self.names.name(machine),
            what,
        })
    }

    fn end_finding(&mut self) {
        let Some(finding) = self.finding.take() else {
            return;
        };
        let ranked = (
            finding.what.severity,
            finding.count,
            finding.host_count,
            finding.what,
            finding.first,
            finding.last,
        );
        if ranked.3.is_secret() {
            keep(&mut self.secrets, ranked.clone());
        }
        keep(&mut self.frequent, ranked);
    }

    fn finish(mut self) -> io::Result<Summary> {
        self.end_host()?;
        self.end_server()?;
        self.end_finding();
        let mut summary = self.summary;
        summary.findings = listed(self.frequent);
        summary.secrets = listed(self.secrets);
        let counts = &summary.alert_counts;
        let is_high = counts.keys().any(|severity| *severity >= Severity::High);
        let LeftOut { forged, .. } = summary.left_out;
        summary.wants_a_look |= is_high || summary.differences > 0 || forged > 0;
        Ok(summary)
    }
}

fn keep(best: &mut BTreeSet<Ranked>, one: Ranked) {
    best.insert(one);
    if best.len() > FINDINGS_MAX {
        best.pop_first();
    }
}

/// How many times per day something was seen, from the first to the last time.
fn per_day(sighting: SightingRange) -> u64 {
    sighting.count / (sighting.last.nanos_since(sighting.first) / DAY + 1)
}

fn listed(best: BTreeSet<Ranked>) -> Vec<FindingReport> {
    let best = best.into_iter().rev();
    best.map(|(_, count, host_count, what, first, last)| FindingReport {
        count,
        host_count,
        per_day: per_day(SightingRange { first, last, count }),
        first,
        last,
        what,
    })
    .collect()
}

impl ServerBuilder {
    fn new(name: String) -> Self {
        Self {
            name,
            sighting: None,
            first: None,
            host_count: 0,
            hosts: Vec::new(),
            fingerprints: Vec::new(),
            versions: Vec::new(),
            is_open: false,
            is_approved: false,
            tool: None,
        }
    }

    fn seen(&mut self, machine: Machine, sighting: SightingRange, list_max: usize) {
        let first = (sighting.first, machine);
        self.first = Some(self.first.map_or(first, |known| known.min(first)));
        self.sighting.get_or_insert(sighting).merge(sighting);
        self.host_count += 1;
        if self.hosts.len() < list_max {
            self.hosts.push(machine);
        }
    }
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
