//! What the daemon itself takes: time until it watches, memory with many servers.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use mcpinspect_tests::talk::oddpeers;
use mcpinspect_tests::tap::memory;

use super::Watching;
use super::stats::{Samples, grouped, head, row};

const SERVERS: usize = 100;
const IN_FLIGHT: usize = 100;

/// Measures, and prints the table.
pub fn measure(rounds: usize) -> Result<()> {
    let mut ready = Samples::default();
    for _ in 0..rounds {
        let begun = Instant::now();
        let daemon = Watching::start()?;
        ready.push(begun.elapsed().as_secs_f64() * 1000.0);
        drop(daemon);
    }
    let daemon = Watching::start()?;
    let (idle, _) = memory(daemon.pid())?;
    let files = tempfile::tempdir()?;
    let go = files.path().join("go");
    let mut sessions = Sessions(Vec::new());
    for n in 0..SERVERS {
        let mark = files.path().join(n.to_string());
        let plan = format!(
            "handshake; list; calls 20 300; unanswered {IN_FLIGHT}; mark {}; wait {}",
            mark.display(),
            go.display()
        );
        let mut command: Command = oddpeers(&[], &plan, &[])?;
        sessions
            .0
            .push(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while (0..SERVERS).any(|n| !files.path().join(n.to_string()).exists()) {
        ensure!(Instant::now() < deadline, "the servers do not get on");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Time for the daemon to work off what the start left in its queues.
    std::thread::sleep(Duration::from_secs(2));
    let (busy, peak) = memory(daemon.pid())?;
    std::fs::write(&go, "")?;
    for session in &mut sessions.0 {
        session.wait()?;
    }
    println!("The daemon itself\n");
    head(&["", "figure"]);
    let megabytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    row(&[
        "start to watching, minimum / median".to_owned(),
        format!(
            "{} / {} ms",
            grouped(ready.minimum()),
            grouped(ready.median())
        ),
    ]);
    row(&["resident memory, idle".to_owned(), megabytes(idle)]);
    row(&[
        format!(
            "resident memory, {SERVERS} servers, {} requests in flight",
            grouped((SERVERS * IN_FLIGHT) as f64)
        ),
        megabytes(busy),
    ]);
    row(&["resident memory, highest".to_owned(), megabytes(peak)]);
    println!();
    Ok(())
}

/// Ends the sessions however the measurement ends.
struct Sessions(Vec<Child>);

impl Drop for Sessions {
    fn drop(&mut self) {
        for session in &mut self.0 {
            // Those that are through already are only waited for.
            let _ = session.kill();
            let _ = session.wait();
        }
    }
}
