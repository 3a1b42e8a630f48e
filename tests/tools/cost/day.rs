//! Whether the daemon's memory grows with time: days of ordinary traffic, replayed in minutes. It keeps
//! the latest events and pages of its registry, so the first day fills what is bounded; a leak would
//! show in those that follow.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::talk::oddpeers;
use mcpinspect_tests::tap::memory;

use super::stats::{grouped, head, row};

/// Hours of a day.
const DAY: usize = 24;
/// What an agent's user does in an hour: sessions that come and go, calls in each, and programs in
/// pipelines that are nobody's servers. Sessions are short, but not so short that a daemon under this
/// load finds their servers gone when it asks who they are: each of those would be another server.
const SESSIONS: usize = 20;
const AT_ONCE: usize = 4;
const PLAN: &str = "handshake; list; calls 60 2000; sleep 100; list; ask; calls 5 20000";
const PIPELINES: usize = 100;
/// How long the daemon may take to tidy up after its start, and after an hour.
const REST: Duration = Duration::from_secs(16);

/// Measures, and prints the table.
pub fn measure(days: usize) -> Result<()> {
    let all = days * DAY;
    let state = State::new()?.with_tls()?;
    let daemon = Daemon::start(&state)?;
    std::thread::sleep(REST);
    let mut memories = vec![(0, memory(daemon.pid())?.0)];
    for hour in 0..all {
        for _ in 0..SESSIONS / AT_ONCE {
            let sessions = (0..AT_ONCE)
                .map(|_| start(oddpeers(&[], PLAN, &[])?))
                .collect::<Result<Vec<_>>>()?;
            sessions.into_iter().try_for_each(ends)?;
        }
        for _ in 0..PIPELINES {
            let mut pipeline = Command::new("sh");
            pipeline.args(["-c", "echo one two three | tr a-z A-Z | wc -c"]);
            ends(start(pipeline)?)?;
        }
        let hours = hour + 1;
        if hours == 1 || hours % (DAY / 2) == 0 {
            std::thread::sleep(REST);
            memories.push((hours, memory(daemon.pid())?.0));
        }
    }
    let events = state.events()?;
    let ended = |event: &&serde_json::Value| event["type"] == "mcp_session_ended";
    let sessions = events.iter().filter(ended).count();
    ensure!(
        sessions == all * SESSIONS,
        "{sessions} sessions were seen to their end"
    );
    daemon.stop()?;
    let megabytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    println!(
        "{days} days with {} sessions and {} other programs, replayed\n",
        grouped(sessions as f64),
        grouped((all * PIPELINES * 3) as f64)
    );
    head(&["resident memory", "figure"]);
    for (hours, bytes) in &memories {
        row(&[format!("after {hours} h"), megabytes(*bytes)]);
    }
    let after = |wanted: usize| memories.iter().find(|(hours, _)| *hours == wanted);
    for (from, to) in [(1, DAY), (DAY, 2 * DAY), (2 * DAY, 3 * DAY)] {
        if let (Some((_, before)), Some((_, now))) = (after(from), after(to)) {
            let growth = (*now as f64 / *before as f64 - 1.0) * 100.0;
            row(&[
                format!("growth from {from} h to {to} h"),
                format!("{growth:.1} %"),
            ]);
        }
    }
    println!();
    Ok(())
}

fn start(mut command: Command) -> Result<Child> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
    quiet
        .stderr(Stdio::null())
        .spawn()
        .context("a program of the day")
}

fn ends(mut child: Child) -> Result<()> {
    let status = child.wait()?;
    ensure!(status.success(), "a program of the day ended with {status}");
    Ok(())
}
