//! Values for tests: two users, four servers, and names that must not reach a terminal.

use mcpinspect_bus::rows::SessionRow;
use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_engine::history::{CallStatistics, RecordedMessage, RecordedSession};
use serde_json::json;

use super::model::{Daemon, Finding, State, TopSnapshot, WatchedServer};
use super::update::{Input, update};
use crate::daemon::Server;

/// The time of all readings: 2026-11-23 12:30:00.
pub const NOW: Timestamp = Timestamp(1_795_437_000_000_000_000);

/// What a server could call itself.
pub const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;gone\u{7}\u{202e}evil\u{200b}\u{9b}1m\n文件";

const SECOND: u64 = 1_000_000_000;

fn ago(seconds: u64) -> Timestamp {
    Timestamp(NOW.0 - seconds * SECOND)
}

/// A message; its number in the store equals that in the session.
pub fn message(session: &str, sequence: u64, kind: &str, time: Timestamp) -> RecordedMessage {
    serde_json::from_value(json!({
        "number": sequence, "session_id": session, "server_id": "everything", "sequence": sequence,
        "is_member": false, "time": time.exact(), "direction": "client_to_server", "kind": kind,
        "is_error": false, "gap_before": false, "bytes": 120, "is_masked": false,
    }))
    .unwrap()
}

/// A call of the tool `echo`.
pub fn request(session: &str, sequence: u64, id: &str, time: Timestamp) -> RecordedMessage {
    RecordedMessage {
        method: Some("tools/call".to_owned()),
        tool: Some("echo".to_owned()),
        id: Some(id.to_owned()),
        ..message(session, sequence, "request", time)
    }
}

/// Its answer.
pub fn answer(
    session: &str,
    sequence: u64,
    answers: u64,
    id: &str,
    nanos: u64,
    time: Timestamp,
) -> RecordedMessage {
    RecordedMessage {
        direction: "server_to_client".to_owned(),
        kind: "response".to_owned(),
        answers: Some(answers),
        correlation: Some("answer".to_owned()),
        latency_ns: Some(nanos),
        ..request(session, sequence, id, time)
    }
}

/// A finding about `everything`.
pub fn finding(event_id: &str) -> Finding {
    Finding {
        event_id: event_id.to_owned(),
        time: ago(90).to_string(),
        severity: Severity::High,
        server_key: ("everything".to_owned(), Some(1000)),
        title: "Credential access in tool \"read\" of everything".to_owned(),
    }
}

fn watched(name: &str, uid: u32, sessions: u32, state: &str) -> WatchedServer {
    WatchedServer {
        row: Server {
            server_id: name.to_owned(),
            fingerprint: "ab12".to_owned(),
            sessions,
            tools: 3,
            uid: Some(uid),
            last_seen: ago(3).to_string(),
            monitored: state != "paused",
            frozen: state == "frozen",
        },
        user: if uid == 1000 { "alice" } else { "bob" }.to_owned(),
    }
}

fn open_session(id: &str, server: &str, uid: u32) -> SessionRow {
    SessionRow {
        session_id: id.to_owned(),
        server_id: server.to_owned(),
        started: ago(600).to_string(),
        protocol_version: Some("2025-11-25".to_owned()),
        server_pid: Some(460),
        server_exe: Some("/usr/bin/node".to_owned()),
        server_uid: Some(uid),
        server_unit: None,
        client_pid: Some(374),
        client_exe: Some("/usr/bin/python3".to_owned()),
    }
}

fn daemon() -> Daemon {
    Daemon {
        version: "0.1.0".to_owned(),
        state: "watching".to_owned(),
        bytes_written: 90_000,
        bytes_captured: 90_000,
        bytes_lost: 0,
        servers: vec![
            watched("everything", 1000, 1, "running"),
            watched("git", 1000, 1, "frozen"),
            watched("everything", 1001, 1, "paused"),
            watched("time", 1001, 0, "idle"),
        ],
        sessions: vec![
            open_session("s1", "everything", 1000),
            open_session("s2", "git", 1000),
            open_session("s3", "everything", 1001),
        ],
    }
}

/// A reading of them.
pub fn snapshot() -> TopSnapshot {
    let mut messages = Vec::new();
    for call in 0..30 {
        let (sequence, id) = (2 * call + 1, call.to_string());
        let time = 59 - 2 * call;
        let nanos = 3_000_000 + call % 7 * 11_000_000;
        messages.push(request("s1", sequence, &id, ago(time)));
        messages.push(answer("s1", sequence + 1, sequence, &id, nanos, ago(time)));
    }
    messages[21].is_error = true;
    let waiting = RecordedMessage {
        server_id: "git".to_owned(),
        number: 1000,
        ..request("s2", 7, "\"a\"", ago(45))
    };
    messages.push(waiting);
    TopSnapshot {
        time: NOW,
        daemon: Ok(daemon()),
        findings: vec![
            finding("1-1"),
            Finding {
                severity: Severity::Medium,
                server_key: ("git".to_owned(), Some(1000)),
                title: "git leaves a call of tools/call unanswered".to_owned(),
                ..finding("1-2")
            },
        ],
        messages: Ok(messages),
        is_sampled: false,
    }
}

/// Names, texts and titles of a server that attacks the terminal.
pub fn hostile_reading() -> TopSnapshot {
    let mut snapshot = snapshot();
    let server_key = (HOSTILE.to_owned(), Some(1000));
    if let Ok(daemon) = &mut snapshot.daemon {
        daemon.version = HOSTILE.to_owned();
        daemon.state = HOSTILE.to_owned();
        HOSTILE.clone_into(&mut daemon.servers[0].row.server_id);
        HOSTILE.clone_into(&mut daemon.servers[0].user);
        HOSTILE.clone_into(&mut daemon.sessions[0].server_id);
    }
    for message in snapshot.messages.as_mut().unwrap() {
        HOSTILE.clone_into(&mut message.server_id);
        message.method = Some(HOSTILE.to_owned());
        message.tool = Some(HOSTILE.to_owned());
    }
    let waiting = request("s1", 91, HOSTILE, ago(8));
    snapshot.messages.as_mut().unwrap().push(waiting);
    snapshot.findings[0].title = HOSTILE.to_owned();
    snapshot.findings[0].server_key = server_key;
    snapshot
}

/// The state after a reading, in a terminal of 80 columns and 24 rows.
pub fn example() -> State {
    state_of(snapshot())
}

/// The state after this reading.
pub fn state_of(snapshot: TopSnapshot) -> State {
    let mut state = State::default();
    update(&mut state, Input::Size(80, 24));
    update(&mut state, Input::Snapshot(Box::new(snapshot)));
    state
}

/// Recorded sessions of `everything`.
pub fn sessions() -> Vec<RecordedSession> {
    let session = |id: &str, ended: Option<&str>, messages: u64| -> RecordedSession {
        serde_json::from_value(json!({
            "session_id": id, "server_id": "everything", "fingerprint": "ab12", "name_source": "package",
            "transport": "stdio", "uid": 1000, "server_pid": 460, "server_exe": "/usr/bin/node",
            "client_pid": 374, "client_exe": "/usr/bin/python3", "protocol_version": "2025-11-25",
            "joined_midstream": false, "imported": false, "started": ago(600).exact(),
            "ended": ended.map(|_| ago(30).exact()), "end_reason": ended, "last": ago(30).exact(),
            "messages": messages, "errors": 1, "in_flight": 1, "bytes": 20_480,
        }))
        .unwrap()
    };
    vec![
        session("s1", None, 60),
        session("s0", Some("client_closed"), 12),
    ]
}

/// Calls of `everything`.
pub fn calls() -> Vec<CallStatistics> {
    let calls = |method: &str, tool: &str, requests| CallStatistics {
        server_id: "everything".to_owned(),
        uid: Some(1000),
        method: method.to_owned(),
        tool: tool.to_owned(),
        requests,
        responses: requests,
        p50_ns: Some(3_000_000),
        p90_ns: Some(30_000_000),
        p99_ns: Some(69_000_000),
        ..CallStatistics::default()
    };
    vec![
        calls("initialize", "", 2),
        calls("tools/call", "echo", 34),
        calls("notifications/initialized", "", 0),
    ]
}
