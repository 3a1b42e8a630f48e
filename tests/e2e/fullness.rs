//! One user holds more streams than there is room for, and another user's servers are seen whole.

use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, Truth, oddclient, oddpeers};
use mcpinspect_tests::tap::{Capture, Tap};
use mcpinspect_tests::verify::{self, Pids};
use nix::sys::signal::Signal;

use crate::{SESSION, verdict};

/// A user that exists on every machine and runs nothing here: nobody.
const USER: u32 = 65_534;
/// Another one: daemon.
const OTHER_USER: u32 = 1;
/// Sockets and pipes that a user's processes hold together. `MCPINSPECT_HELD` sets another number.
const HELD: usize = 27_000;
/// Those of one process: limits on descriptors allow no more everywhere.
const HELD_BY_ONE: usize = 9_000;
/// Servers of another user.
const SERVERS: usize = 20;

/// A process that is killed when this is dropped.
struct Background(Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that holds pairs of sockets or pipes.
fn hold(pairs: usize) -> Result<Background> {
    let child = Command::new("/usr/bin/python3")
        .arg(places::script("python/holder.py")?)
        .args([USER.to_string(), pairs.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    Ok(Background(child))
}

/// Waits until it holds them.
fn wait_until_held(holder: &mut Background) -> Result<()> {
    let output = holder.0.stdout.take().context("its output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    ensure!(line.trim() == "held", "it holds nothing: {line:?}");
    Ok(())
}

/// The client's side of a session, run as user `uid`.
fn session_of(uid: u32, program: &Path, client: &[&str], plan: &str) -> Result<Command> {
    let server = [program.as_os_str(), "server".as_ref()];
    let mut command = Command::new("setpriv");
    command
        .args([&format!("--reuid={uid}"), "--clear-groups"])
        .arg(program)
        .args(oddclient(client, plan, &server)?.get_args())
        .current_dir("/");
    Ok(command)
}

/// A session of `USER` that writes more than the ring holds once `go` exists.
fn flood(program: &Path, ready: &Path, go: &Path) -> Result<Background> {
    let plan = format!(
        "handshake; list; mark {}; wait {}; burst 100000 1000; call 300; sleep 60000",
        ready.display(),
        go.display()
    );
    let mut session = session_of(USER, program, &[], &plan)?;
    // It is killed in the middle of a word.
    let flood = Background(session.stderr(Stdio::null()).spawn()?);
    wait_for(ready)?;
    Ok(flood)
}

/// Waits until `file` exists.
fn wait_for(file: &Path) -> Result<()> {
    let deadline = Instant::now() + SESSION;
    while !file.exists() {
        ensure!(Instant::now() < deadline, "{} did not come", file.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
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

/// Waits for the sessions over these transports, and demands that each was reported exactly.
fn all_exact(mut tap: Tap, truths: &[(&str, Truth)]) -> Result<Capture> {
    tap.wait_until(Duration::from_secs(60), "the last answer", |capture| {
        truths
            .iter()
            .all(|(_, truth)| verify::session_of(truth, capture).is_ok())
    })?;
    let capture = tap.finish()?.capture;
    verdict(
        truths.len(),
        truths.iter().filter_map(|(transport, truth)| {
            let error = verify::exact(truth, &capture, Pids::Always).err()?;
            Some(format!("{transport}: {error:#}"))
        }),
    )?;
    Ok(capture)
}

/// Runs servers while `USER` holds so many sockets and pipes; all of their frames are reported.
fn servers_beside_holders(busy: usize) -> Result<()> {
    let held = match std::env::var("MCPINSPECT_HELD") {
        Ok(number) => number.parse().context("MCPINSPECT_HELD")?,
        Err(_) => HELD,
    };
    let tap = Tap::start()?;
    let mut holders = Vec::new();
    for first in (0..held).step_by(HELD_BY_ONE) {
        holders.push(hold((held - first).min(HELD_BY_ONE) / 2)?);
    }
    for holder in &mut holders {
        wait_until_held(holder)?;
    }
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut truths = Vec::new();
    let transports = ["pipe", "socketpairs", "socketpair"];
    for transport in transports.into_iter().cycle().take(SERVERS) {
        let plan = "handshake; list; calls 20 300; call 70000";
        let talk = Talk::start(oddpeers(&["--transport", transport], plan, &[])?)?;
        truths.push((transport, talk.finish(SESSION)?));
    }
    drop(busy);
    let capture = all_exact(tap, &truths)?;
    if held <= streams_of_one_user()? {
        return Ok(());
    }
    let is_reported = capture.others.iter().any(|event| {
        event["type"] == "mcp_blind_spot"
            && event["mechanism"] == "endpoint_budget"
            && event["uid"] == USER
    });
    ensure!(is_reported, "nobody said that user {USER} holds too much");
    Ok(())
}

#[test]
fn streams_that_another_user_holds() -> Result<()> {
    servers_beside_holders(0)
}

#[test]
fn streams_that_another_user_holds_beside_busy_loops() -> Result<()> {
    servers_beside_holders(6)
}

/// While the daemon is stopped, one user's servers fill their share of the ring, and then other servers
/// speak: theirs is all there, and what is lost is the flood's.
fn a_flood_beside_servers(busy: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777))?;
    // Both users may run this copy.
    let program = folder.path().join("oddpeer");
    std::fs::copy(places::program("oddpeer")?, &program)?;
    let (now, go) = (folder.path().join("now"), folder.path().join("go"));
    let tap = Tap::start()?;
    let floods = (0..3)
        .map(|number| {
            flood(
                &program,
                &folder.path().join(format!("flood-{number}")),
                &now,
            )
        })
        .collect::<Result<Vec<_>>>()?;
    let mut talks = Vec::new();
    for transport in ["pipe", "socketpairs", "socketpair"] {
        let ready = folder.path().join(transport);
        let plan = format!(
            "handshake; list; mark {}; wait {}; calls 5 300; call 3000",
            ready.display(),
            go.display()
        );
        let client = ["--transport", transport];
        let mut talk = Talk::start(session_of(OTHER_USER, &program, &client, &plan)?)?;
        talk.wait_for(&ready, SESSION)?;
        talks.push((transport, talk));
    }
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    // The sessions so far are known and are not waited for any more.
    std::thread::sleep(Duration::from_secs(1));
    tap.signal(Signal::SIGSTOP)?;
    std::fs::write(&now, "")?;
    // Long enough to overflow any ring, also beside busy loops.
    std::thread::sleep(Duration::from_secs(4));
    std::fs::write(&go, "")?;
    let truths = talks
        .into_iter()
        .map(|(transport, talk)| Ok((transport, talk.finish(SESSION)?)))
        .collect::<Result<Vec<_>>>()?;
    tap.signal(Signal::SIGCONT)?;
    drop(busy);
    let capture = all_exact(tap, &truths)?;
    drop(floods);
    let lost: u64 = capture.gaps.iter().map(|gap| gap.bytes_lost).sum();
    ensure!(
        lost > 1 << 20,
        "the flood lost {lost} bytes, so this shows nothing"
    );
    Ok(())
}

#[test]
fn a_flood_of_another_user_costs_others_nothing() -> Result<()> {
    a_flood_beside_servers(0)
}

#[test]
fn a_flood_of_another_user_costs_others_nothing_beside_busy_loops() -> Result<()> {
    a_flood_beside_servers(6)
}
