//! The answers, from the entries that this program's own sink writes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::event::body::{
    CaptureGap, Detected, Policy, PolicyDecision, PolicyItem, ToolChanged, ToolSeen,
};
use serde_json::{Map, Value, json};

use super::report::{Report, State};
use super::{Fleet, LISTED_MAX, source};
use crate::event::Event;
use crate::event::envelope::{Envelope, EventId};
use crate::event::testing::{TIME, detection, subject};
use crate::model::{DefinitionHash, ItemKind, Severity, Timestamp, ToolStatus};
use crate::registry::DecisionKind;
use crate::sink::journal;

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

fn read(lines: &[String]) -> Fleet {
    let mut fleet = Fleet::default();
    source::exported(&mut fleet, lines.concat().as_bytes()).unwrap();
    fleet
}

fn report(lines: &[String]) -> Report {
    let fleet = read(lines);
    fleet.report(fleet.newest(), HOUR)
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
    let differences: Vec<_> = report.differences().collect();
    assert_eq!(differences.len(), 1);
    let (server, tool) = differences[0];
    assert_eq!((&*server.server, &*tool.tool), ("notes", "read"));
    assert_eq!(server.hosts, ["host1", "host2", "host3"]);
    let who: Vec<_> = tool.definitions.iter().map(|seen| &*seen.hosts).collect();
    assert_eq!(who, [&["host1", "host2"][..], &["host3"][..]]);
    assert!(report.wants_a_look());
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
        assert_eq!(report.differences().count(), 0, "{report:#?}");
        let definition = &report.servers[0].tools[0].definitions[0];
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
    let (_, tool) = report.differences().next().unwrap();
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
fn alerts_and_losses_are_told_and_bounded() {
    let mut lines: Vec<String> = (0..LISTED_MAX as u64 + 20)
        .map(|second| {
            let event = Event::new(
                TIME,
                subject("notes"),
                Detected {
                    tool_name: Some("read".to_owned()),
                    detection: detection(),
                    action: crate::model::Action::Alert,
                },
            );
            line(1, second, &event)
        })
        .collect();
    let gap = Event::new(
        TIME,
        subject("notes"),
        CaptureGap {
            direction: crate::model::Direction::ServerToClient,
            bytes_lost: 77,
            position: 0,
            reason: crate::model::GapReason::RingFull,
        },
    );
    lines.push(line(2, 1, &gap));
    lines.push(line(2, 2, &gap));
    let report = report(&lines);
    assert_eq!(report.alerts.len(), LISTED_MAX);
    let alert = &report.alerts[0];
    assert_eq!(alert.severity, Severity::High);
    assert_eq!((&*alert.host, &*alert.server), ("host1", "notes"));
    assert_eq!(alert.category.as_deref(), Some("credential_access"));
    assert_eq!(report.alert_counts[&Severity::High], LISTED_MAX as u64 + 20);
    let lost = report.hosts[1].lost;
    assert_eq!((lost.gaps, lost.bytes), (2, 154));
}

#[test]
fn what_users_write_is_left_out() {
    let forged =
        line(1, 0, &approve("notes", "read", "bb")).replace("\"_UID\":\"0\"", "\"_UID\":\"1000\"");
    let report = report(&[forged]);
    assert!(report.decisions.is_empty() && report.servers.is_empty());
    assert_eq!(report.left_out.forged, 1);
}

#[test]
fn two_machines_of_one_name_are_two() {
    let twin = line(2, 1, &seen("notes", "read", "bb")).replace("host2", "host1");
    let report = report(&[line(1, 0, &seen("notes", "read", "aa")), twin]);
    let (server, _) = report.differences().next().unwrap();
    assert_eq!(server.hosts, ["host1 (01000000)", "host1 (02000000)"]);
}
