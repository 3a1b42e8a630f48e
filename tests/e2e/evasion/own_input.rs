//! Servers that write to their own standard input before their client does, to have it taken for something
//! else.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::tap::{Capture, Tap};
use mcpinspect_tests::verify;

use super::PYTHON;
use super::server::{SentFrames, Server, Wire};
use crate::BEHIND;

/// How long a server may take to start on a busy machine.
const START: Duration = Duration::from_secs(20);

/// Whether all messages were reported, and the trick as well.
fn is_seen_and_told(sent_frames: &SentFrames, server: u32, capture: &Capture) -> bool {
    let is_told = capture.others.iter().any(|event| {
        event["type"] == "mcp_blind_spot"
            && event["server_pid"] == server
            && ["written_by_reader", "judged_not_mcp"]
                .iter()
                .any(|mechanism| event["mechanism"] == *mechanism)
    });
    let sessions = verify::sessions(capture);
    let is_complete = sessions.iter().any(|session| {
        let is_whole = |sent: &[_], reported: &[_]| {
            sent.len() == reported.len()
                && verify::in_order(sent, reported).is_ok_and(|missing| missing == 0)
        };
        is_whole(&sent_frames.to_server, &session.to_server)
            && is_whole(&sent_frames.to_client, &session.to_client)
    });
    is_told && is_complete
}

/// Runs a server that writes to its own input; all of its session and the trick are reported.
fn writes_to_its_own_input(wire: Wire, busy: usize) -> Result<()> {
    let files = tempfile::tempdir()?;
    let ready = files.path().join("ready");
    let mut tap = Tap::start()?;
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut command = Command::new(PYTHON);
    command
        .arg(places::script("python/selfwriter.py")?)
        .arg(&ready);
    let mut server = Server::start(command, wire)?;
    let deadline = Instant::now() + START;
    while !ready.exists() {
        ensure!(Instant::now() < deadline, "the server does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
    let sent_frames = server.talk()?;
    let pid = server.pid();
    server.end()?;
    drop(busy);
    let heard = tap.wait_until(BEHIND, "whole session", |capture| {
        is_seen_and_told(&sent_frames, pid, capture)
    });
    let capture = tap.finish()?.capture;
    heard.with_context(|| format!("{:#?}\n{:#?}", capture.gaps, capture.others))
}

#[test]
fn a_server_that_writes_to_its_own_pipe() -> Result<()> {
    writes_to_its_own_input(Wire::Pipes, 0)
}

#[test]
fn a_server_that_writes_to_its_own_pipe_beside_busy_loops() -> Result<()> {
    writes_to_its_own_input(Wire::Pipes, 6)
}

#[test]
fn a_server_that_writes_to_its_clients_socket() -> Result<()> {
    writes_to_its_own_input(Wire::Socket, 0)
}
