//! The answers, from the entries that this program's own sink writes.

mod collecting;
mod equality;
mod model;

use std::io;
use std::path::Path;

use mcpinspect_core::model::{DefinitionHash, ItemKind, Severity, Timestamp, ToolStatus};
use mcpinspect_engine::event::Event;
use mcpinspect_engine::event::body::{
    CaptureGap, Detected, Policy, PolicyDecision, PolicyItem, ToolChanged, ToolSeen,
};
use mcpinspect_engine::event::envelope::{Envelope, EventId};
use mcpinspect_engine::event::testing::{TIME, detection, subject};
use mcpinspect_judge::registry::DecisionKind;
use mcpinspectd::sink::journal;
use serde_json::{Map, Value, json};

use super::collect::{self, CollectError, Collected, Input, Options, Progress};
use super::report::{
    self, AlertReport, DecisionReport, HostReport, Output, ServerReport, Settings, State, Summary,
    ToolReport,
};
use super::state::StateDirectory;

const START: u64 = 1_760_000_000_000_000;
const HOUR: u64 = 3_600_000_000_000;

/// A line as `journalctl -o json` shows an entry of our sink.
fn line(host: u8, second: u64, event: &Event) -> String {
    let record = Envelope::new(event, EventId::new(Timestamp(0), second), None, 48 << 10).unwrap();
    let mut entry: Map<String, Value> = journal::fields(&record)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect();
    trusted(&mut entry, host, second);
    entry.insert("_UID".to_owned(), json!("0"));
    format!("{}\n", Value::Object(entry))
}

fn trusted(entry: &mut Map<String, Value>, host: u8, second: u64) {
    entry.insert("_HOSTNAME".to_owned(), json!(format!("host{host}")));
    entry.insert(
        "_MACHINE_ID".to_owned(),
        json!(format!("{host:02x}{}", "0".repeat(30))),
    );
    let time = START + second * 1_000_000;
    entry.insert("__REALTIME_TIMESTAMP".to_owned(), json!(time.to_string()));
}

/// The hash that begins with these two digits, over and over.
fn full(digits: &str) -> DefinitionHash {
    digits.repeat(32).parse().unwrap()
}

fn seen(server: &str, tool: &str, hash: &str) -> Event {
    Event::new(
        TIME,
        subject(server),
        ToolSeen {
            pinned: None,
            tool_name: tool.to_owned(),
            tool_hash: full(hash),
            description: "does things".to_owned(),
            status: ToolStatus::New,
            detections: Vec::new(),
            max_severity: None,
        },
    )
}

fn changed(server: &str, tool: &str, hash: Option<&str>) -> Event {
    Event::new(
        TIME,
        subject(server),
        ToolChanged {
            tool_name: tool.to_owned(),
            status: if hash.is_some() {
                ToolStatus::Changed
            } else {
                ToolStatus::Removed
            },
            previous_hash: full("aa"),
            new_hash: hash.map(full),
            changes: Vec::new(),
            detections: Vec::new(),
            max_severity: None,
        },
    )
}

fn approve(server: &str, tool: &str, hash: &str) -> Event {
    Event::new(
        TIME,
        subject(server),
        Policy {
            item: PolicyItem::Definition(ItemKind::Tool),
            tool_name: Some(tool.to_owned()),
            hash: Some(full(hash)),
            decision: PolicyDecision::Pin(DecisionKind::Approve),
            by: "person",
            uid: Some(1000),
            server_uid: None,
            reason: "reviewed".to_owned(),
        },
    )
}

/// A report in one piece.
#[derive(Clone, Debug, Default, PartialEq)]
struct FullReport {
    hosts: Vec<HostReport>,
    servers: Vec<(ServerReport, Vec<ToolReport>, bool)>,
    decisions: Vec<DecisionReport>,
    alerts: Vec<AlertReport>,
    summary: Summary,
}

impl Output for FullReport {
    fn host(&mut self, host: HostReport) -> io::Result<()> {
        self.hosts.push(host);
        Ok(())
    }

    fn server(&mut self, server: ServerReport) -> io::Result<()> {
        self.servers.push((server, Vec::new(), false));
        Ok(())
    }

    fn tool(&mut self, tool: ToolReport) -> io::Result<()> {
        self.servers.last_mut().unwrap().1.push(tool);
        Ok(())
    }

    fn server_end(&mut self, is_approved: bool) -> io::Result<()> {
        self.servers.last_mut().unwrap().2 = is_approved;
        Ok(())
    }

    fn decision(&mut self, decision: DecisionReport) -> io::Result<()> {
        self.decisions.push(decision);
        Ok(())
    }

    fn alert(&mut self, alert: AlertReport) -> io::Result<()> {
        self.alerts.push(alert);
        Ok(())
    }
}

impl FullReport {
    fn of(collected: &Collected) -> Self {
        let settings = Settings {
            now: None,
            patience: HOUR,
            new_within: HOUR,
            list_max: 100,
        };
        let mut full_report = Self::default();
        let open = || Ok(collected.rows.rows());
        full_report.summary = report::report(open, &settings, &mut full_report).unwrap();
        full_report
    }

    /// Tools that some hosts see differently, with their servers.
    fn differences(&self) -> Vec<(&ServerReport, &ToolReport)> {
        let tools = self
            .servers
            .iter()
            .flat_map(|(server, tools, _)| tools.iter().map(move |tool| (server, tool)));
        tools.filter(|(_, tool)| !tool.agreed).collect()
    }
}

fn read_with(
    paths: &[&Path],
    state: Option<&Path>,
    options: &Options,
) -> Result<Collected, CollectError> {
    let inputs = paths.iter().map(|path| Input::File((*path).to_owned()));
    let state = state.map(|path| StateDirectory::open(path).unwrap());
    let progress = Progress::default();
    collect::collect(inputs.collect(), state.as_ref(), options, &progress)
}

fn report(lines: &[String]) -> FullReport {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.json");
    std::fs::write(&path, lines.concat()).unwrap();
    let options = Options {
        // What fits in memory does not need it.
        temporary: "/nonexistent".into(),
        ..Options::default()
    };
    FullReport::of(&read_with(&[&path], None, &options).unwrap())
}

#[test]
fn the_host_that_sees_something_else_is_named() {
    let lines = [
        line(1, 0, &seen("notes", "read", "aa")),
        line(2, 1, &seen("notes", "read", "aa")),
        line(3, 2, &seen("notes", "read", "bb")),
        line(1, 3, &seen("notes", "write", "cc")),
        line(3, 4, &seen("other", "read", "dd")),
    ];
    let report = report(&lines);
    let differences = report.differences();
    assert_eq!(differences.len(), 1);
    let (server, tool) = differences[0];
    assert_eq!((&*server.server, &*tool.tool), ("notes", "read"));
    assert_eq!(server.hosts, ["host1", "host2", "host3"]);
    let who: Vec<_> = tool.definitions.iter().map(|seen| &*seen.hosts).collect();
    assert_eq!(who, [&["host1", "host2"][..], &["host3"][..]]);
    assert!(report.summary.wants_a_look);
}

#[test]
fn the_last_word_of_a_host_counts_in_any_order() {
    let mut lines = [
        line(1, 0, &seen("notes", "read", "aa")),
        line(2, 0, &seen("notes", "read", "aa")),
        line(2, 5, &changed("notes", "read", Some("bb"))),
        line(1, 9, &changed("notes", "read", Some("bb"))),
        line(1, 10, &approve("notes", "read", "bb")),
    ];
    for _ in 0..2 {
        let report = report(&lines);
        assert_eq!(report.differences().len(), 0, "{report:#?}");
        let definition = &report.servers[0].1[0].definitions[0];
        assert_eq!(definition.hash.as_deref(), Some(&*"bb".repeat(32)));
        assert!(definition.approved);
        let decision = &report.decisions[0];
        assert_eq!((&*decision.host, decision.uid), ("host1", Some(1000)));
        assert_eq!((&*decision.decision, &*decision.item), ("approve", "read"));
        assert_eq!(decision.by.as_deref(), Some("person"));
        assert_eq!(decision.reason.as_deref(), Some("reviewed"));
        lines.reverse();
    }
}

#[test]
fn a_tool_that_is_gone_on_one_host_differs() {
    let report = report(&[
        line(1, 0, &seen("notes", "read", "aa")),
        line(2, 0, &seen("notes", "read", "aa")),
        line(2, 5, &changed("notes", "read", None)),
    ]);
    let (_, tool) = report.differences()[0];
    assert!(tool.definitions.iter().any(|seen| seen.hash.is_none()));
}

#[test]
fn silent_stopped_and_unwatched_hosts_show() {
    let systemd = |host, second, message: &str| {
        let mut entry = Map::new();
        trusted(&mut entry, host, second);
        for (name, value) in [
            ("_UID", "0"),
            ("_PID", "1"),
            ("UNIT", "mcpinspectd.service"),
            ("MESSAGE_ID", message),
        ] {
            entry.insert(name.to_owned(), json!(value));
        }
        format!("{}\n", Value::Object(entry))
    };
    let other = |host, second| {
        let mut entry = Map::new();
        trusted(&mut entry, host, second);
        entry.insert("_UID".to_owned(), json!("1000"));
        format!("{}\n", Value::Object(entry))
    };
    let started = "39f53479d3a045ac8e11786248231fbf";
    let stopped = "9d1aaa27d60140bd96365438aad20286";
    let report = report(&[
        line(1, 8_000, &seen("a", "t", "aa")),
        line(2, 7_000, &seen("a", "t", "aa")),
        systemd(2, 7_001, stopped),
        line(3, 1, &seen("a", "t", "aa")),
        other(4, 8_000),
        systemd(5, 7_000, stopped),
        systemd(5, 7_001, started),
    ]);
    let states: Vec<_> = report.hosts.iter().map(|host| host.state).collect();
    assert_eq!(
        states,
        [
            State::Watched,
            State::Stopped,
            State::Silent,
            State::Unwatched,
            State::Watched
        ]
    );
}

#[test]
fn alerts_and_losses_are_told_by_kind_and_host() {
    let mut lines: Vec<String> = (0..1_020)
        .map(|second| {
            let event = Event::new(
                TIME,
                subject("notes"),
                Detected {
                    tool_name: Some("read".to_owned()),
                    detection: detection(),
                    related: Vec::new(),
                    action: mcpinspect_core::model::Action::Alert,
                },
            );
            line(1, second, &event)
        })
        .collect();
    let gap = Event::new(
        TIME,
        subject("notes"),
        CaptureGap {
            direction: mcpinspect_core::model::Direction::ServerToClient,
            bytes_lost: 77,
            position: 0,
            reason: mcpinspect_core::model::GapReason::RingFull,
        },
    );
    lines.push(line(2, 1, &gap));
    lines.push(line(2, 2, &gap));
    let report = report(&lines);
    // The detections, and the gaps, which are an alert too.
    assert_eq!(report.alerts.len(), 2);
    let alert = &report.alerts[0];
    assert_eq!(alert.what.severity, Severity::High);
    assert_eq!((&*alert.host, &*alert.what.server), ("host1", "notes"));
    assert_eq!(alert.what.category.as_deref(), Some("credential_access"));
    assert_eq!(alert.count, 1_020);
    assert_eq!(report.summary.alert_counts[&Severity::High], 1_020);
    assert_eq!(report.hosts[0].alerts[&Severity::High], 1_020);
    let finding = &report.summary.findings[0];
    assert_eq!((finding.count, finding.host_count), (1_020, 1));
    let lost = report.hosts[1].lost;
    assert_eq!((lost.gaps, lost.bytes), (2, 154));
}

#[test]
fn what_users_write_is_left_out() {
    let forged =
        line(1, 0, &approve("notes", "read", "bb")).replace("\"_UID\":\"0\"", "\"_UID\":\"1000\"");
    let report = report(&[forged]);
    assert!(report.decisions.is_empty() && report.servers.is_empty());
    assert_eq!(report.summary.left_out.forged, 1);
}

#[test]
fn two_machines_of_one_name_are_two() {
    let twin = line(2, 1, &seen("notes", "read", "bb")).replace("host2", "host1");
    let report = report(&[line(1, 0, &seen("notes", "read", "aa")), twin]);
    let (server, _) = report.differences()[0];
    assert_eq!(server.hosts, ["host1 (01000000)", "host1 (02000000)"]);
}

#[test]
fn what_is_new_and_what_differs_is_told() {
    let day = 86_400;
    let mut lines = vec![
        line(1, 0, &seen("notes", "read", "aa")),
        line(2, day, &seen("notes", "read", "aa")),
        line(1, 3 * day, &seen("fresh", "t", "cc")),
    ];
    let change = changed("notes", "read", Some("bb"));
    lines.push(line(2, 3 * day, &change).replace(
        "\\\"changes\\\":[]",
        "\\\"changes\\\":[{\\\"field\\\":\\\"title\\\"}]",
    ));
    let report = report(&lines);
    let new: Vec<_> = report
        .servers
        .iter()
        .map(|(server, ..)| (&*server.server, server.is_new, &*server.first_host))
        .collect();
    assert_eq!(new, [("fresh", true, "host1"), ("notes", false, "host1")]);
    let (_, tool) = report.differences()[0];
    let [old, new] = &*tool.definitions else {
        panic!("{tool:#?}");
    };
    assert!(!old.is_new && new.is_new);
    assert_eq!((&*new.first_host, new.host_count), ("host2", 1));
    assert_eq!(new.changes[0].previous_hash, old.hash);
    assert_eq!(new.changes[0].fields, "title");
    assert_eq!(old.description.as_deref(), Some("does things"));
    let days: Vec<_> = old
        .spread
        .iter()
        .map(|day| (&*day.day, day.hosts))
        .collect();
    assert_eq!(days, [("2025-10-09", 1), ("2025-10-10", 1)]);
}

#[test]
fn an_approval_that_some_hosts_lack_is_told() {
    let mut lines: Vec<String> = (1..=5)
        .map(|host| line(host, 0, &seen("notes", "read", "aa")))
        .collect();
    lines.extend((1..=4).map(|host| line(host, 1, &approve("notes", "read", "aa"))));
    lines.push(line(5, 1, &seen("other", "t", "bb")));
    let report = report(&lines);
    let definition = &report.servers[0].1[0].definitions[0];
    assert_eq!((definition.approved_count, definition.host_count), (4, 5));
    assert_eq!(definition.not_approved, ["host5"]);
    assert!(definition.is_not_approved_by_some());
    let approved: Vec<_> = report
        .servers
        .iter()
        .map(|(server, _, approved)| (&*server.server, *approved))
        .collect();
    assert_eq!(approved, [("notes", true), ("other", false)]);
}
