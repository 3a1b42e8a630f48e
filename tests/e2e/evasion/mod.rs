//! Servers that want to be taken for something else, or not to be seen at all.
//!
//! Each is held to the same bar: the client's account of its session is reported in full under the server's
//! right name, or an event says within a second what is not seen. Beside each of them, an honest session is
//! reported to the byte.
//!
//! A family of evasions is a Python program (`peers/python/evasion`) that knows several of them by name. Each
//! is started under a file name of its own, which is the name that the server must have.

mod buffers;
mod calls;
mod descriptors;
mod exclusion;
mod launches;
mod own_input;
mod server;
mod verdict;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddpeers};
use mcpinspect_tests::tap::Tap;
use mcpinspect_tests::verify::{self, Pids};
use tempfile::TempDir;

use self::server::{Server, Wire};
use self::verdict::{ExpectedSession, Outcome, outcome};
use crate::{BEHIND, SESSION};

const PYTHON: &str = "/usr/bin/python3";
/// How soon an event has to say what is not seen: within a second, and some more for a daemon that is not
/// optimised.
const SOON: Duration = Duration::from_secs(3);
/// What an honest session beside does.
const HONEST: &str = "handshake; list; calls 10 300; call 70000; calls 5 20";

/// What is promised of one evasion.
#[derive(Clone, Copy, Debug)]
enum Promise {
    /// The whole session is reported.
    FullyReported,
    /// What is missing is reported, by one of these mechanisms or reasons.
    LossReported(&'static [&'static str]),
}

/// One evasion on one kind of wire.
#[derive(Clone, Copy, Debug)]
struct Evasion {
    /// The name that its family knows it by.
    how: &'static str,
    wire: Wire,
    promise: Promise,
}

/// Evasions that are seen in full, each on pipes and on a socket pair.
fn on_both(all: &[&'static str]) -> Vec<Evasion> {
    let both =
        |how: &&'static str| [Wire::Pipes, Wire::Socket].map(|wire| fully_reported(how, wire));
    all.iter().flat_map(both).collect()
}

/// An evasion that is seen in full.
const fn fully_reported(how: &'static str, wire: Wire) -> Evasion {
    let promise = Promise::FullyReported;
    Evasion { how, wire, promise }
}

/// An evasion of which something is missing, and reported.
const fn loss_reported(how: &'static str, wire: Wire, by: &'static [&'static str]) -> Evasion {
    let promise = Promise::LossReported(by);
    Evasion { how, wire, promise }
}

/// A family's program, under any number of names.
struct Family {
    files: TempDir,
    script: PathBuf,
}

impl Family {
    fn new(script: &str) -> Result<Self> {
        let files = tempfile::tempdir()?;
        fs::copy(
            places::script("python/evasion/serving.py")?,
            files.path().join("serving.py"),
        )?;
        let script = places::script(&format!("python/evasion/{script}"))?;
        Ok(Self { files, script })
    }

    /// The program under a name.
    fn named(&self, name: &str) -> Result<PathBuf> {
        let path = self.files.path().join(name);
        fs::copy(&self.script, &path)?;
        Ok(path)
    }

    fn files(&self) -> &Path {
        self.files.path()
    }

    /// Starts one evasion as its users would, and says what it must be called.
    fn start(&self, evasion: &Evasion) -> Result<(Server, String)> {
        let name = format!("evader-{}", evasion.how);
        let mut command = Command::new(PYTHON);
        command
            .arg(self.named(&format!("{name}.py"))?)
            .arg(evasion.how)
            .current_dir(self.files());
        Ok((Server::start(command, evasion.wire)?, name))
    }
}

/// How an evader is started, and what it must be called.
type Start<'a> = &'a dyn Fn(&Evasion) -> Result<(Server, String)>;

/// Runs evasions one after another under one tap, each beside an honest session.
fn each_is_reported(evasions: &[Evasion], start: Start<'_>, busy: usize) -> Result<()> {
    let mut tap = Tap::start()?;
    let busy: Vec<Busy> = (0..busy).map(|_| Busy::start()).collect::<Result<_>>()?;
    let (mut accounts, mut honest) = (Vec::new(), Vec::new());
    let mut failures = Vec::new();
    for evasion in evasions {
        let what = format!("{} on {:?}", evasion.how, evasion.wire);
        let beside = Talk::start(oddpeers(&[], HONEST, &[])?)?;
        match converse(evasion, start, &mut tap) {
            Ok((expected, after)) => accounts.push((evasion, expected, after)),
            Err(error) => failures.push(format!("{what}: {error:#}")),
        }
        honest.push((what, beside.finish(SESSION)?));
    }
    drop(busy);
    let finished = tap.finish()?;
    for (evasion, expected, after) in &accounts {
        let judged = outcome(expected, &finished.capture)
            .and_then(|outcome| keeps(evasion.promise, &outcome, *after));
        if let Err(error) = judged {
            failures.push(format!("{} on {:?}: {error:#}", evasion.how, evasion.wire));
        }
    }
    for (beside, truth) in &honest {
        if let Err(error) = verify::exact(truth, &finished.capture, Pids::Always) {
            failures.push(format!("the honest session beside {beside}: {error:#}"));
        }
    }
    crate::verdict(2 * evasions.len(), failures.into_iter())
}

/// Runs one session. Returns its messages, and how soon everything unseen was reported.
fn converse(
    evasion: &Evasion,
    start: Start<'_>,
    tap: &mut Tap,
) -> Result<(ExpectedSession, Option<Duration>)> {
    let (mut server, name) = start(evasion)?;
    let sent_frames = server.talk()?;
    let expected = ExpectedSession { name, sent_frames };
    let ended = Instant::now();
    let heard = tap.wait_until(BEHIND, "word of it", |capture| {
        outcome(&expected, capture).is_ok()
    });
    // Without one, the verdict says what is wrong.
    let after = heard.ok().map(|()| ended.elapsed());
    server.end()?;
    Ok((expected, after))
}

/// Whether an outcome is what was promised; more than that will do.
fn keeps(promise: Promise, outcome: &Outcome, after: Option<Duration>) -> Result<()> {
    let Outcome::LossReported(words) = outcome else {
        return Ok(());
    };
    let Promise::LossReported(by) = promise else {
        anyhow::bail!("not seen in full, only told by {words:?}");
    };
    ensure!(
        by.iter().any(|by| words.iter().any(|word| word == by)),
        "told by {words:?} and not by {by:?}"
    );
    let after = after.context("told too late")?;
    ensure!(after <= SOON, "told after {after:?}");
    Ok(())
}
