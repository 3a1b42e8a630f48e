//! One user holds more streams than there is room for, and another user's servers are seen whole.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify::{self, Pids};

use crate::{SESSION, verdict};

/// A user that exists on every machine and runs nothing here: nobody.
const USER: u32 = 65_534;
/// Processes that hold sockets, and socket pairs of each.
const HOLDERS: usize = 3;
const PAIRS: usize = 4_500;

/// A process that holds sockets until it is dropped.
struct Holder(Child);

impl Holder {
    fn start(pairs: usize) -> Result<Self> {
        let child = Command::new("/usr/bin/python3")
            .arg(places::script("python/holder.py")?)
            .args([USER.to_string(), pairs.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    fn wait(&mut self) -> Result<()> {
        let output = self.0.stdout.take().context("its output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == "held", "it holds nothing: {line:?}");
        Ok(())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The streams of one user that this machine's daemon knows at a time; see the manual's page on limits.
fn streams_of_one_user() -> Result<usize> {
    let memory = std::fs::read_to_string("/proc/meminfo")?;
    let kib: usize = memory
        .split_whitespace()
        .nth(1)
        .context("the machine's memory")?
        .parse()?;
    let processes: usize = std::fs::read_to_string("/proc/sys/kernel/pid_max")?
        .trim()
        .parse()?;
    let endpoints = (kib / 128).min(4 * processes).clamp(16_384, 262_144);
    Ok(endpoints / 8 * 3 / 2)
}

/// Runs servers while `USER` holds the sockets of `HOLDERS`; all of their frames are reported.
fn servers_beside_holders(busy: usize) -> Result<()> {
    let mut tap = Tap::start()?;
    let mut holders = Vec::new();
    for _ in 0..HOLDERS {
        holders.push(Holder::start(PAIRS)?);
    }
    for holder in &mut holders {
        holder.wait()?;
    }
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut truths = Vec::new();
    for transport in ["pipe", "socketpairs", "socketpair"] {
        let plan = "handshake; list; calls 20 300; call 70000";
        let talk = Talk::start(oddpeers(&["--transport", transport], plan, &[])?)?;
        truths.push((transport, talk.finish(SESSION)?));
    }
    drop(busy);
    tap.wait_until(Duration::from_secs(30), "the last answer", |capture| {
        truths
            .iter()
            .all(|(_, truth)| verify::session_of(truth, capture).is_ok())
    })?;
    let finished = tap.finish()?;
    verdict(
        truths.len(),
        truths.iter().filter_map(|(transport, truth)| {
            let error = verify::exact(truth, &finished.capture, Pids::Always).err()?;
            Some(format!("{transport}: {error:#}"))
        }),
    )?;
    if HOLDERS * PAIRS * 2 <= streams_of_one_user()? {
        return Ok(());
    }
    let told = finished.capture.others.iter().any(|event| {
        event["type"] == "mcp_blind_spot"
            && event["mechanism"] == "endpoint_budget"
            && event["uid"] == USER
    });
    ensure!(told, "nobody said that user {USER} holds too much");
    Ok(())
}

#[test]
fn twenty_seven_thousand_sockets_of_another_user() -> Result<()> {
    servers_beside_holders(0)
}

#[test]
fn twenty_seven_thousand_sockets_of_another_user_beside_busy_loops() -> Result<()> {
    servers_beside_holders(6)
}
