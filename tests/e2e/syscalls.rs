//! Every system call that carries bytes, over every kind of stream, in every portion.

use std::process::Command;

use anyhow::{Result, ensure};
use mcpinspect_tests::peer::calls::{
    PIPE_READS, PIPE_WRITES, ReadCall, SOCKET_READS, SOCKET_WRITES, WriteCall,
};
use mcpinspect_tests::talk::{Talk, Truth, oddpeers};
use mcpinspect_tests::tap::{Capture, Tap};
use mcpinspect_tests::verify::{self, Pids, TO_CLIENT, TO_SERVER};

use crate::{SESSION, each_exact, exact, verdict};

/// Sizes around every buffer, page and record boundary that could matter.
const SIZES: &str = "1 127 128 129 255 256 257 2047 2048 2049 4095 4096 4097 16383 16384 16385 \
                     65535 65536 65537 131071 131072 131073 300000";

/// One session in which both sides use these calls.
fn session(
    transport: &str,
    read: ReadCall,
    write: WriteCall,
    pieces: usize,
    plan: &str,
) -> Result<(String, Command)> {
    let pieces = pieces.to_string();
    let (read, write) = (read.name(), write.name());
    let io = ["--read", &read, "--write", &write, "--pieces", &pieces];
    let client = [&["--transport", transport][..], &io].concat();
    let name = format!("{transport}, {read}, {write}, {pieces} vectors");
    Ok((name, oddpeers(&client, plan, &io)?))
}

fn matrix(
    transport: &str,
    reads: &[ReadCall],
    writes: &[WriteCall],
    plan: &str,
) -> Result<Vec<(String, Command)>> {
    let mut sessions = Vec::new();
    for &read in reads {
        for &write in writes {
            sessions.push(session(transport, read, write, 3, plan)?);
        }
    }
    Ok(sessions)
}

fn plan() -> String {
    format!("handshake; list; call {SIZES}; notify 5 200; burst 5 200")
}

#[test]
fn every_pair_of_calls_on_pipes() -> Result<()> {
    let sessions = matrix("pipe", &PIPE_READS, &PIPE_WRITES, &plan())?;
    each_exact(sessions, Pids::Always)
}

#[test]
fn every_pair_of_calls_on_socket_pairs() -> Result<()> {
    let sessions = matrix("socketpairs", &SOCKET_READS, &SOCKET_WRITES, &plan())?;
    each_exact(sessions, Pids::Always)
}

#[test]
fn one_socket_pair_for_both_directions() -> Result<()> {
    let mut sessions = Vec::new();
    for (read, write) in [
        (ReadCall::Read, WriteCall::Write),
        (ReadCall::Recvfrom, WriteCall::Sendto),
        (ReadCall::Recvmsg, WriteCall::Sendmsg),
    ] {
        sessions.push(session("socketpair", read, write, 2, &plan())?);
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn named_pipes() -> Result<()> {
    let command = oddpeers(&["--transport", "fifo"], &plan(), &[])?;
    exact(command, Pids::Always)?;
    Ok(())
}

#[test]
fn up_to_the_most_vectors_that_a_call_takes() -> Result<()> {
    let plan = "handshake; call 1 300 1022 1023 1024 1025 65536 200000";
    let mut sessions = Vec::new();
    for pieces in [1, 2, 7, 8, 9, 1023, 1024] {
        let (read, write) = (ReadCall::Readv, WriteCall::Writev);
        sessions.push(session("pipe", read, write, pieces, plan)?);
        let (read, write) = (ReadCall::Recvmsg, WriteCall::Sendmsg);
        sessions.push(session("socketpairs", read, write, pieces, plan)?);
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn megabytes_in_one_message() -> Result<()> {
    let plan = "handshake; call 1048576 1 8388608 1";
    let mut sessions = Vec::new();
    for (transport, read, write) in [
        ("pipe", ReadCall::Read, WriteCall::Write),
        ("pipe", ReadCall::Readv, WriteCall::Writev),
        ("socketpairs", ReadCall::Recvfrom, WriteCall::Sendto),
        ("socketpairs", ReadCall::Recvmmsg, WriteCall::Sendmmsg),
    ] {
        sessions.push(session(transport, read, write, 5, plan)?);
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn one_byte_at_a_time() -> Result<()> {
    let plan = "handshake; list; call 1 300 3000";
    let mut sessions = Vec::new();
    for (name, client, server) in [
        ("writes", ["--fragment", "1"], ["--fragment", "1"]),
        ("reads", ["--buffer", "1"], ["--buffer", "1"]),
        (
            "writes to reads of seven",
            ["--fragment", "1"],
            ["--buffer", "7"],
        ),
        (
            "pieces of five to reads of three",
            ["--fragment", "5"],
            ["--buffer", "3"],
        ),
    ] {
        for transport in ["pipe", "socketpairs"] {
            let client = [&["--transport", transport][..], &client].concat();
            let command = oddpeers(&client, plan, &server)?;
            sessions.push((format!("{name}, {transport}"), command));
        }
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn non_blocking_ends_with_partial_writes() -> Result<()> {
    let plan = "handshake; call 100 70000 1000000 3000000 100; burst 3000 300; notify 3000 300";
    let mut sessions = Vec::new();
    for (transport, read, write) in [
        ("pipe", "read", "write"),
        ("pipe", "readv", "writev"),
        ("socketpairs", "recvfrom", "sendto"),
        ("socketpairs", "recvmsg", "sendmsg"),
        ("socketpairs", "recvmmsg", "sendmmsg"),
    ] {
        let io = [
            "--nonblocking",
            "--pieces",
            "4",
            "--read",
            read,
            "--write",
            write,
        ];
        let client = [&["--transport", transport][..], &io].concat();
        let command = oddpeers(&client, plan, &io)?;
        sessions.push((format!("{transport}, {read}, {write}"), command));
    }
    each_exact(sessions, Pids::Always)
}

#[test]
fn bytes_looked_at_first_count_once() -> Result<()> {
    let io = ["--peek", "--read", "recvfrom"];
    let client = [&["--transport", "socketpairs"][..], &io].concat();
    exact(oddpeers(&client, &plan(), &io)?, Pids::Always)?;
    Ok(())
}

/// Calls whose bytes the probes cannot copy: the other end has them, or both the blind spot and what
/// was lost in it are told. Nothing may be wrong, nothing may be missing in silence, and no claim of
/// completeness may be made where something is missing.
#[test]
fn calls_that_move_bytes_past_the_probes() -> Result<()> {
    let plan = "handshake; list; call 300 5000 60000; burst 20 200";
    let tap = Tap::start()?;
    let mut talks = Vec::new();
    for (what, server) in [
        ("splice", ["--read", "splice"]),
        ("tee", ["--read", "tee"]),
        ("io_uring", ["--read", "iouring"]),
        ("splice", ["--write", "splice"]),
        ("vmsplice", ["--write", "vmsplice"]),
        ("sendfile", ["--write", "sendfile"]),
        ("io_uring", ["--write", "iouring"]),
    ] {
        for transport in ["pipe", "socketpairs"] {
            // Only pipes can be teed and vmspliced.
            if transport == "socketpairs" && (what == "tee" || what == "vmsplice") {
                continue;
            }
            let command = oddpeers(&["--transport", transport], plan, &server)?;
            let name = format!("{transport}, {}", server.join(" "));
            let talk = Talk::start(command)?;
            talks.push((name, what, talk.finish(SESSION)?));
        }
    }
    let finished = tap.finish()?;
    let capture = &finished.capture;
    let count = talks.len();
    verdict(
        count,
        talks.iter().filter_map(|(name, what, truth)| {
            let error = complete_or_told(what, truth, capture).err()?;
            Some(format!("{name}: {error:#}"))
        }),
    )
}

fn complete_or_told(mechanism: &str, truth: &Truth, capture: &Capture) -> Result<()> {
    let session = verify::session_of(truth, capture)?;
    for (direction, sent, reported) in [
        (TO_SERVER, &truth.to_server, &session.to_server),
        (TO_CLIENT, &truth.to_client, &session.to_client),
    ] {
        let missing = verify::in_order(sent, reported)?;
        let gap = session.gaps.iter().any(|gap| gap.direction == direction);
        let blind_spot = capture.others.iter().any(|event| {
            event["type"] == "mcp_blind_spot"
                && event["session_id"] == session.id
                && event["mechanism"] == mechanism
                && event["covered_by_other_end"] == false
        });
        ensure!(
            missing == 0 || (gap && blind_spot),
            "{direction}: {missing} frames missing; gap told: {gap}, blind spot told: {blind_spot}"
        );
    }
    Ok(())
}
