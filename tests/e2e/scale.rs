//! Many servers at once.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::talk::{Talk, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::threads;
use mcpinspect_tests::verify::{self, Pids};

use crate::{SESSION, verdict};

fn at_once(count: usize, plan: &str, transports: &[&str]) -> Result<u64> {
    let files = tempfile::tempdir()?;
    let go = files.path().join("go");
    let mut tap = Tap::start()?;
    let mut talks = Vec::new();
    for n in 0..count {
        let transport = transports[n % transports.len()];
        let plan = format!("wait {}; {plan}", go.display());
        let command = oddpeers(&["--transport", transport], &plan, &[])?;
        talks.push(Talk::start(command)?);
    }
    std::fs::write(&go, "")?;
    let mut truths = Vec::new();
    for (n, talk) in talks.into_iter().enumerate() {
        let truth = talk
            .finish(SESSION)
            .with_context(|| format!("session {n}"))?;
        truths.push(truth);
    }
    // The daemon must catch up while it runs, not only once it is told to stop.
    let frames: usize = truths
        .iter()
        .map(|t| t.to_server.len() + t.to_client.len())
        .sum();
    tap.wait_until(
        Duration::from_secs(60),
        "message of each session",
        |capture| capture.messages.len() + capture.gaps.len() >= frames,
    )?;
    let finished = tap.finish()?;
    verdict(
        count,
        truths.iter().enumerate().filter_map(|(n, truth)| {
            let error = verify::exact(truth, &finished.capture, Pids::Always).err()?;
            Some(format!("session {n}: {error:#}"))
        }),
    )?;
    Ok(finished.peak_memory)
}

/// Nothing but the processes tells these sessions apart: same bytes, same ids, same time.
#[test]
fn ten_servers_with_the_same_bytes() -> Result<()> {
    let plan = "handshake; list; calls 50 300; call 70000; flight 10";
    at_once(10, plan, &["pipe", "socketpairs"])?;
    Ok(())
}

#[test]
fn a_hundred_servers_at_once() -> Result<()> {
    let plan = "handshake; list; calls 20 300; flight 100; ask";
    let peak = at_once(100, plan, &["pipe", "socketpairs", "socketpair"])?;
    // The goal is 64 MiB for an optimised daemon; a debug build may take somewhat more.
    ensure!(peak < 128 << 20, "the daemon grew to {} MiB", peak >> 20);
    Ok(())
}

/// As root, also where limits may not be raised: the peers above fill the ring as fast as they can.
#[test]
fn the_thread_that_drains_the_ring_has_priority() -> Result<()> {
    let tap = Tap::start()?;
    let mut stats = String::new();
    for task in std::fs::read_dir(format!("/proc/{}/task", tap.pid()))? {
        stats += &std::fs::read_to_string(task?.path().join("stat"))?;
    }
    let threads = threads::priorities(&stats)?;
    let of = |name: &str| threads.iter().find(|thread| thread.0 == name);
    ensure!(
        of("drain").is_some_and(|drain| drain.1 == -15),
        "{threads:?}"
    );
    ensure!(
        of("mcpinspectd").is_some_and(|main| main.1 <= -10),
        "{threads:?}"
    );
    tap.finish()?;
    Ok(())
}
