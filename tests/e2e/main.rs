//! Real probes in the real kernel, real peers; see the library for how the truth is known.

mod approvals;
mod attaching;
mod calling;
mod conformance;
mod crashes;
mod errors;
mod evasion;
mod framing;
mod full_ring;
mod fullness;
mod guarded;
mod honesty;
mod http;
mod http_exact;
mod http_peers;
mod http_unix;
mod identity;
mod naming;
mod neighbours;
mod odd_receivers;
mod order;
mod policy;
mod processes;
mod recording;
mod replaying;
mod rugpull;
mod scale;
mod scanning;
mod sdks;
mod syscalls;
mod tampering;
mod tls;
mod tls_go;
mod tls_unseen;
mod top;

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use mcpinspect_tests::talk::{Talk, Truth};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify::{self, Pids};

/// Longest that one session may take.
const SESSION: Duration = Duration::from_secs(300);

/// Longest that the daemon is waited for after a session.
const BEHIND: Duration = Duration::from_secs(60);

/// Runs one session under a tap of its own and demands that it was reported exactly.
fn exact(command: Command, pids: Pids) -> Result<Truth> {
    let tap = Tap::start()?;
    let truth = Talk::start(command)?.finish(SESSION)?;
    let finished = tap.finish()?;
    verify::exact(&truth, &finished.capture, pids)?;
    Ok(truth)
}

/// Runs sessions one after another under one tap and demands that each was reported exactly. Each
/// is tried before the verdict, which names all that failed.
fn each_exact(sessions: Vec<(String, Command)>, pids: Pids) -> Result<()> {
    let count = sessions.len();
    let mut tap = Tap::start()?;
    let (mut truths, mut frames) = (Vec::new(), 0);
    for (name, command) in sessions {
        let truth = Talk::start(command)
            .and_then(|talk| talk.finish(SESSION))
            .with_context(|| name.clone())?;
        frames += truth.to_server.len() + truth.to_client.len();
        truths.push((name, truth));
        // These tests are about exactness, and an unoptimised daemon may be slower than the peers. Where
        // something is missing, the verdict says what.
        let _ = tap.wait_until(BEHIND, "whole session", |capture| {
            capture.messages.len() >= frames || !capture.gaps.is_empty()
        });
    }
    let finished = tap.finish()?;
    verdict(
        count,
        truths.iter().filter_map(|(name, truth)| {
            let error = verify::exact(truth, &finished.capture, pids).err()?;
            Some(format!("{name}: {error:#}"))
        }),
    )
}

fn verdict(count: usize, failures: impl Iterator<Item = String>) -> Result<()> {
    let failures: Vec<String> = failures.collect();
    anyhow::ensure!(
        failures.is_empty(),
        "{} of {count} sessions were not reported exactly:\n{}",
        failures.len(),
        failures.join("\n")
    );
    Ok(())
}
