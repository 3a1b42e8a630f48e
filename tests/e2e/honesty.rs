//! When the daemon cannot keep up it says what it lost, and what it reports is still right.

use std::time::Duration;

use anyhow::{Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient, oddpeers};
use mcpinspect_tests::tap::{self, Tap};
use mcpinspect_tests::verify::{self, TO_CLIENT, TO_SERVER};
use nix::sys::signal::Signal;

use crate::SESSION;

/// The daemon is stopped for two seconds under a burst of 50,000 messages.
fn stopped_under_a_burst(transport: &str, size: usize) -> Result<()> {
    let files = tempfile::tempdir()?;
    let (ready, go) = (files.path().join("ready"), files.path().join("go"));
    let plan = format!(
        "handshake; list; call 300; mark {}; wait {}; burst 25000 {size}; notify 25000 {size}; call 301; sleep 2500; call 302 70000 303",
        ready.display(),
        go.display()
    );
    let tap = Tap::start()?;
    let mut talk = Talk::start(oddpeers(&["--transport", transport], &plan, &[])?)?;
    talk.wait_for(&ready, SESSION)?;
    tap.signal(Signal::SIGSTOP)?;
    std::fs::write(&go, "")?;
    // Long enough for the burst to fill the ring; a stopped daemon cannot report that it has.
    std::thread::sleep(Duration::from_secs(2));
    tap.signal(Signal::SIGCONT)?;
    let truth = talk.finish(SESSION)?;
    let finished = tap.finish()?;

    let session = verify::session_of(&truth, &finished.capture)?;
    for (direction, sent, reported) in [
        (TO_SERVER, &truth.to_server, &session.to_server),
        (TO_CLIENT, &truth.to_client, &session.to_client),
    ] {
        let missing = verify::in_order(sent, reported)?;
        let stream = session.stream(direction)?;
        let written: u64 = sent.iter().map(|frame| frame.bytes + 1).sum();
        ensure!(
            stream.bytes_written == written
                && stream.bytes_read == written
                && stream.bytes_captured + stream.bytes_lost == written,
            "{written} bytes were written: {stream:?}"
        );
        let lost_by_events: u64 = session
            .gaps
            .iter()
            .filter(|gap| gap.direction == direction)
            .map(|gap| gap.bytes_lost)
            .sum();
        ensure!(
            lost_by_events == stream.bytes_lost,
            "{direction}: events tell of {lost_by_events} lost bytes, the ledger of {}",
            stream.bytes_lost
        );
        ensure!(
            (missing == 0) == (stream.bytes_lost == 0),
            "{direction}: {missing} frames missing, {} bytes lost",
            stream.bytes_lost
        );
        ensure!(
            (missing == 0) || reported.iter().any(|message| message.gap_before),
            "{direction}: no message says that a gap precedes it"
        );
        // Once the daemon runs again, the stream is whole again.
        let tail = 3;
        let end = |n: usize| n.saturating_sub(tail);
        let recovered = sent[end(sent.len())..]
            .iter()
            .zip(&reported[end(reported.len())..])
            .all(|(frame, message)| frame.sha256 == message.sha256);
        ensure!(recovered, "{direction}: the last frames are missing");
    }
    let changed = |event: &serde_json::Value| event["type"] == "mcp_tool_changed";
    ensure!(
        !finished.capture.others.iter().any(changed),
        "a loss made a tool look changed"
    );
    Ok(())
}

#[test]
fn stopped_under_a_burst_on_pipes() -> Result<()> {
    stopped_under_a_burst("pipe", 300)
}

#[test]
fn stopped_under_a_burst_on_socket_pairs() -> Result<()> {
    stopped_under_a_burst("socketpairs", 300)
}

/// Enough bytes to overflow any ring for sure.
#[test]
fn stopped_under_a_flood() -> Result<()> {
    stopped_under_a_burst("pipe", 6_000)
}

/// A server that floods without end: memory stays bounded while it does.
#[test]
fn a_flood_costs_bounded_memory() -> Result<()> {
    let plan = "handshake; burst 100000 1000; call 300";
    let tap = Tap::start()?;
    let truth = Talk::start(oddpeers(&[], plan, &[])?)?.finish(SESSION)?;
    let finished = tap.finish()?;
    let session = verify::session_of(&truth, &finished.capture)?;
    verify::in_order(&truth.to_client, &session.to_client)?;
    let stream = session.stream(TO_CLIENT)?;
    ensure!(
        stream.bytes_written == stream.bytes_captured + stream.bytes_lost,
        "{stream:?}"
    );
    ensure!(
        finished.peak_memory < 128 << 20,
        "the daemon grew to {} MiB",
        finished.peak_memory >> 20
    );
    Ok(())
}

/// One message of 60 MB that is nothing but zeros: it costs its bytes, and little beside them. It comes no faster
/// than a busy machine can read it, since memory is measured here and not speed.
#[test]
fn a_large_message_of_tiny_values_costs_bounded_memory() -> Result<()> {
    let files = tempfile::tempdir()?;
    let (server, zeros) = (
        files.path().join("zeros-server"),
        files.path().join("zeros"),
    );
    std::fs::copy(places::program("oddpeer")?, &server)?;
    let mut message = br#"{"jsonrpc":"2.0","id":"none","result":{"content":["#.to_vec();
    message.extend(b"0,".repeat(30_000_000));
    message.extend_from_slice(b"0]}}\n");
    std::fs::write(&zeros, &message)?;

    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let (idle, _) = tap::memory(daemon.pid())?;
    let plan = format!("handshake; call 300; seep {}; call 300", zeros.display());
    Talk::start(oddclient(
        &[],
        &plan,
        &[server.as_os_str(), "server".as_ref()],
    )?)?
    .finish(SESSION)?;
    let ended = daemon.event("for the end of the session", |event| {
        let server = event["server_id"].as_str().unwrap_or_default();
        event["type"] == "mcp_session_ended" && server == "zeros"
    })?;
    let (_, peak) = tap::memory(daemon.pid())?;
    daemon.stop()?;
    println!("{} MiB idle, {} MiB at most", idle >> 20, peak >> 20);
    ensure!(ended["bytes_lost"] == 0, "nothing was measured: {ended}");
    ensure!(
        ended["bytes"].as_u64() > Some(message.len() as u64),
        "the message is missing: {ended}"
    );
    ensure!(peak < 128 << 20, "the daemon grew to {} MiB", peak >> 20);
    Ok(())
}
