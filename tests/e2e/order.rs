//! Clients that write piece by piece while their servers start.
//!
//! Nothing is as hard to follow as the first bytes: some are in the pipe before it is known, some are
//! being written at that very moment, and the answer comes microseconds later. `ORDER_SESSIONS` sets
//! how many sessions each test holds.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use serde_json::Value;

/// Sessions of one daemon: each server has a name of its own, and the daemon's rates are for fewer than
/// a thousand servers at a time.
const ROUND: u64 = 500;
/// Sessions at a time.
const AT_ONCE: u64 = 50;
/// How long the daemon may take to tell of the last session.
const PATIENCE: Duration = Duration::from_secs(60);

fn sessions(usual: u64) -> Result<u64> {
    match std::env::var("ORDER_SESSIONS") {
        Ok(number) => number.parse().context("ORDER_SESSIONS"),
        Err(_) => Ok(usual),
    }
}

/// Holds `count` sessions under one daemon. Returns what is wrong with how they were told.
fn round(count: u64, seed: u64) -> Result<Vec<String>> {
    let state = State::new()?;
    let daemon = Daemon::start(&state)?;
    // On the same file system as the program: the servers are links to it.
    let folder = tempfile::tempdir_in(places::programs()?)?;
    let program = places::program("swarm")?;
    for number in 0..count {
        std::fs::hard_link(&program, folder.path().join(format!("tiny-{number}")))?;
    }
    let status = Command::new(&program)
        .arg(folder.path())
        .args([count, AT_ONCE, seed].map(|number| number.to_string()))
        .status()?;
    ensure!(status.success(), "the peers ended with {status}");
    let deadline = Instant::now() + PATIENCE;
    let count = usize::try_from(count)?;
    while state.mentions("\"mcp_session_ended\"")? < count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(100));
    }
    daemon.stop()?;
    Ok(judge(&state.events()?, count))
}

/// Says which sessions are not as they were. A server introduces itself by its program's name; what
/// the daemon calls it is not judged here.
fn judge(events: &[Value], count: usize) -> Vec<String> {
    let mut sessions: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events {
        if let Some(session) = event["session_id"].as_str().filter(|id| !id.is_empty()) {
            sessions.entry(session).or_default().push(event);
        }
    }
    let (mut names, mut wrong) = (BTreeSet::new(), Vec::new());
    for (session, events) in sessions {
        let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
        let introduction = of("mcp_session_identified").next();
        let name = introduction.and_then(|event| event["server_info"]["name"].as_str());
        if name.is_some_and(|name| !name.starts_with("tiny-")) {
            // Another session is under way on this machine.
            continue;
        }
        let is_whole = of("mcp_session_ended").any(|ended| {
            ended["unanswered"] == 0 && ended["bytes_lost"] == 0 && ended["messages"] == 5
        });
        let is_plain = events.iter().all(|event| event["detection"].is_null());
        let once = [
            "mcp_session_started",
            "mcp_session_identified",
            "mcp_tool_seen",
            "mcp_session_ended",
        ];
        if is_whole && is_plain && once.iter().all(|kind| of(kind).count() == 1) {
            names.extend(name);
        } else {
            let texts: Vec<String> = events.iter().map(ToString::to_string).collect();
            wrong.push(format!("{session}: {}", texts.join("\n  ")));
        }
    }
    let missing = (0..count).filter(|number| !names.contains(format!("tiny-{number}").as_str()));
    wrong.extend(missing.map(|number| format!("tiny-{number} is not there whole")));
    wrong
}

fn hold(count: u64, busy: usize) -> Result<()> {
    let _busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let seed = std::time::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let (mut held, mut wrong) = (0, Vec::new());
    while held < count {
        let now = ROUND.min(count - held);
        let seed = u64::from(seed) + held;
        wrong.extend(round(now, seed).with_context(|| format!("round of {now}, seed {seed}"))?);
        held += now;
    }
    ensure!(
        wrong.is_empty(),
        "{} of {count} sessions, seed {seed}:\n{}",
        wrong.len(),
        wrong.iter().take(5).cloned().collect::<Vec<_>>().join("\n")
    );
    Ok(())
}

#[test]
fn sessions_that_begin_before_their_servers() -> Result<()> {
    hold(sessions(400)?, 0)
}

#[test]
fn sessions_that_begin_before_their_servers_beside_busy_loops() -> Result<()> {
    hold(sessions(200)?, 6)
}
