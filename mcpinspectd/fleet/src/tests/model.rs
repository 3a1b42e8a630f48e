//! The same answers by the simplest means: everything in memory, and nothing is combined.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::FullReport;

type Times = (u64, u64);
/// On how many hosts a definition is seen, and approved.
type Definitions = BTreeMap<Option<String>, (u64, u64)>;

/// What a collection says, in a form that both implementations can be converted to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    unreadable: u64,
    forged: u64,
    /// By machine: name, first and last entry in microseconds, servers, forged entries, bytes lost.
    hosts: BTreeMap<String, (String, u64, u64, u64, u64, u64)>,
    /// By server and tool: each definition with its hosts and those that approved it.
    tools: BTreeMap<(String, String), Definitions>,
    /// Server by server, on how many hosts, and whether anything is approved.
    servers: BTreeMap<String, (u64, bool)>,
    decisions: u64,
    /// By severity, server and machine's name.
    alerts: BTreeMap<(String, String, String), u64>,
}

#[derive(Default)]
struct HostModel {
    name: (u64, String),
    first: Option<u64>,
    servers: BTreeSet<String>,
    forged: u64,
    lost: u64,
    sights: BTreeMap<(String, String), BTreeMap<Option<String>, Times>>,
    decided: BTreeMap<(String, String, Option<String>), (u64, String)>,
}

fn text(line: &Value, name: &str) -> Option<String> {
    line[name].as_str().map(str::to_owned)
}

/// Reads lines one by one.
pub fn answers(lines: &[String]) -> Answers {
    let mut answers = Answers::default();
    let mut hosts: BTreeMap<String, HostModel> = BTreeMap::new();
    let mut decisions = BTreeSet::new();
    let mut alerts: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for line in lines {
        let line: Option<Value> = serde_json::from_str(line).ok();
        let time = line
            .as_ref()
            .and_then(|line| text(line, "__REALTIME_TIMESTAMP"));
        let (Some(line), Some(time)) = (line, time) else {
            answers.unreadable += 1;
            continue;
        };
        let time: u64 = time.parse().unwrap();
        let machine = text(&line, "_MACHINE_ID").unwrap();
        let host = hosts.entry(machine.clone()).or_default();
        let name = text(&line, "_HOSTNAME").unwrap();
        host.name = host.name.clone().max((time, name));
        host.first = Some(host.first.unwrap_or(time).min(time));
        let Some(event) = text(&line, "MCPINSPECT_EVENT") else {
            continue;
        };
        if line["_UID"] != "0" {
            host.forged += 1;
            continue;
        }
        let server = text(&line, "MCPINSPECT_SERVER").unwrap_or_default();
        let tool = text(&line, "MCPINSPECT_TOOL");
        let hash = text(&line, "MCPINSPECT_HASH");
        match event.as_str() {
            "mcp_session_started" => {
                host.servers.insert(server.clone());
            }
            "mcp_tool_seen" | "mcp_tool_changed" => {
                host.servers.insert(server.clone());
                let tool = host
                    .sights
                    .entry((server.clone(), tool.unwrap()))
                    .or_default();
                let times = tool.entry(hash).or_insert((time, time));
                *times = (times.0.min(time), times.1.max(time));
            }
            "mcp_policy" => {
                let decision = text(&line, "MCPINSPECT_DECISION").unwrap();
                let item = tool.unwrap();
                decisions.insert((
                    time,
                    machine.clone(),
                    server.clone(),
                    item.clone(),
                    hash.clone(),
                    decision.clone(),
                ));
                let latest = host
                    .decided
                    .entry((server.clone(), item, hash))
                    .or_default();
                *latest = latest.clone().max((time, decision));
            }
            "mcp_capture_gap" => {
                host.lost += text(&line, "MCPINSPECT_BYTES_LOST")
                    .unwrap()
                    .parse::<u64>()
                    .unwrap();
            }
            _ => {}
        }
        if let Some(severity) = text(&line, "MCPINSPECT_SEVERITY")
            && event != "mcp_tool_seen"
        {
            *alerts.entry((severity, server, machine)).or_default() += 1;
        }
    }
    answers.decisions = decisions.len() as u64;
    for (machine, host) in &hosts {
        for server in &host.servers {
            answers.servers.entry(server.clone()).or_default().0 += 1;
        }
        for ((server, tool), sights) in &host.sights {
            let order = |hash: &Option<String>, times: &Times| (times.1, hash.clone());
            let current = sights.iter().max_by_key(|(hash, times)| order(hash, times));
            let hash = current.unwrap().0.clone();
            let decided = host
                .decided
                .get(&(server.clone(), tool.clone(), hash.clone()));
            let is_approved = decided.is_some_and(|(_, decision)| decision == "approve");
            let definition = answers
                .tools
                .entry((server.clone(), tool.clone()))
                .or_default();
            let counts = definition.entry(hash).or_default();
            counts.0 += 1;
            counts.1 += u64::from(is_approved);
        }
        let (last, name) = host.name.clone();
        answers.forged += host.forged;
        answers.hosts.insert(
            machine.clone(),
            (
                name,
                host.first.unwrap(),
                last,
                host.servers.len() as u64,
                host.forged,
                host.lost,
            ),
        );
    }
    for host in hosts.values() {
        for ((server, ..), (_, decision)) in &host.decided {
            if let Some(server) = answers.servers.get_mut(server)
                && decision == "approve"
            {
                server.1 = true;
            }
        }
    }
    answers.alerts = alerts;
    answers
}

impl From<&FullReport> for Answers {
    fn from(full_report: &FullReport) -> Self {
        let mut answers = Self {
            unreadable: full_report.summary.left_out.unreadable,
            forged: full_report.summary.left_out.forged,
            decisions: full_report.decisions.len() as u64,
            ..Self::default()
        };
        let mut machines = BTreeMap::new();
        for host in &full_report.hosts {
            let name = host.host.split(" (").next().unwrap().to_owned();
            machines.insert(host.host.clone(), host.machine_id.clone());
            answers.hosts.insert(
                host.machine_id.clone(),
                (
                    name,
                    host.first_entry.0 / 1_000,
                    host.last_entry.0 / 1_000,
                    host.servers,
                    host.forged,
                    host.lost.bytes,
                ),
            );
        }
        for (server, tools, approved) in &full_report.servers {
            assert_eq!(server.hosts.len() as u64, server.host_count);
            answers
                .servers
                .insert(server.server.clone(), (server.host_count, *approved));
            for tool in tools {
                let definitions = tool.definitions.iter().map(|seen| {
                    assert_eq!(seen.hosts.len() as u64, seen.host_count);
                    (seen.hash.clone(), (seen.host_count, seen.approved_count))
                });
                let key = (server.server.clone(), tool.tool.clone());
                answers.tools.insert(key, definitions.collect());
            }
        }
        for alert in &full_report.alerts {
            let severity = alert.what.severity.as_str().to_owned();
            let key = (
                severity,
                alert.what.server.clone(),
                machines[&alert.host].clone(),
            );
            *answers.alerts.entry(key).or_default() += alert.count;
        }
        answers
    }
}
