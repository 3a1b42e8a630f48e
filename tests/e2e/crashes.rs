//! What a killed daemon leaves on the disk: every pin, every approval, and all messages but those of
//! its last second.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use mcpinspect_tests::bus::{self, Bus};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient};
use serde_json::{Value, json};

use crate::{BEHIND, SESSION};

/// Kills in an ordinary run. `KILLS` in the environment asks for another number.
const KILLS: usize = 8;

/// Clients at work at any time.
const CLIENTS: usize = 3;

/// What may be lost: what went by within this time before the kill.
const LOSS: Duration = Duration::from_secs(1);

/// A server whose only tool is another one in each session, so that each session leaves a pin and a
/// message of its own.
struct Server<'a> {
    directory: &'a Path,
    name: String,
}

impl<'a> Server<'a> {
    fn new(directory: &'a Path, name: String) -> Result<Self> {
        std::fs::copy(places::program("oddpeer")?, directory.join(&name))?;
        Ok(Self { directory, name })
    }

    fn tool(&self, session: usize) -> String {
        format!("{}-tool-{session}.", self.name)
    }

    /// One session.
    fn talk(&self, session: usize) -> Result<()> {
        let tools: PathBuf = self.directory.join(format!("{}-{session}.json", self.name));
        let tool = json!({
            "name": self.tool(session),
            "description": "Counts.",
            "inputSchema": {"type": "object"},
        });
        std::fs::write(&tools, json!([tool]).to_string())?;
        let program = self.directory.join(&self.name);
        let server = [
            program.as_os_str(),
            "server".as_ref(),
            "--tools".as_ref(),
            tools.as_os_str(),
        ];
        let plan = "handshake; list; call 300; call 2000";
        Talk::start(oddclient(&[], plan, &server)?)?.end(SESSION)
    }
}

/// Numbers that are hard to guess, for moments that no test chose.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(SystemTime::now()) % below
}

/// Runs sessions until it is asked to stop. Returns those that ended, with the time of their end.
fn load(
    server: &Server<'_>,
    next: &AtomicUsize,
    stop: &AtomicBool,
) -> Result<Vec<(usize, Instant)>> {
    let mut ended = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let session = next.fetch_add(1, Ordering::Relaxed);
        server.talk(session)?;
        ended.push((session, Instant::now()));
    }
    Ok(ended)
}

/// Whether `mcpinspect` succeeded, and what it said.
fn mcpinspect(bus: &Bus, arguments: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(places::program("mcpinspect")?)
        .args(arguments)
        .env(bus::VARIABLE, bus.address())
        .stdin(Stdio::null())
        .output()?;
    let text = if output.status.success() {
        output.stdout
    } else {
        output.stderr
    };
    Ok((
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

/// The same about the daemon's files.
fn about(bus: &Bus, state: &State, arguments: &[&str]) -> Result<(bool, String)> {
    let configuration = state.configuration().display().to_string();
    mcpinspect(bus, &[arguments, &["--config", &configuration]].concat())
}

/// One column of what a statement finds.
fn column(bus: &Bus, state: &State, statement: &str) -> Result<Vec<String>> {
    let (is_done, text) = about(bus, state, &["query", "--json", statement])?;
    ensure!(is_done, "{statement}: {text}");
    let answer: Value = serde_json::from_str(&text)?;
    ensure!(answer["truncated"] == false, "{statement}: more than fits");
    let rows = answer["rows"].as_array().context("rows")?;
    rows.iter()
        .map(|row| {
            let value = row.as_object().and_then(|row| row.values().next());
            Ok(value.and_then(Value::as_str).context("a text")?.to_owned())
        })
        .collect()
}

/// Kills the daemon at a random moment while clients talk and a user approves a tool,
/// and looks at what is on the disk. Returns how many sessions had to be there.
fn kill_once(bus: &Bus, state: &State, server: &Server<'_>) -> Result<usize> {
    let daemon = Daemon::start(state)?;
    server.talk(0)?;
    let first = server.tool(0);
    let deadline = Instant::now() + BEHIND;
    while state.mentions(&first)? == 0 {
        ensure!(Instant::now() < deadline, "{first} is not seen");
        std::thread::sleep(Duration::from_millis(20));
    }

    let (next, stop) = (AtomicUsize::new(1), AtomicBool::new(false));
    let (killed, ended) = std::thread::scope(|scope| -> Result<_> {
        let loads: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| load(server, &next, &stop)))
            .collect();
        std::thread::sleep(Duration::from_millis(1500 + random(2000)));
        let approved = about(bus, state, &["approve", &server.name, &first]);
        std::thread::sleep(Duration::from_millis(random(300)));
        let killed = Instant::now();
        // Dropping it sends SIGKILL.
        drop(daemon);
        stop.store(true, Ordering::Relaxed);
        let mut ended = vec![(0, killed - 2 * LOSS)];
        for load in loads {
            match load.join() {
                Ok(sessions) => ended.extend(sessions?),
                Err(_) => bail!("a client panicked"),
            }
        }
        let (is_approved, text) = approved?;
        ensure!(is_approved, "approving {first}: {text}");
        Ok((killed, ended))
    })?;

    let name = &server.name;
    let due: HashSet<String> = ended
        .iter()
        .filter(|(_, at)| *at + LOSS < killed)
        .map(|(session, _)| server.tool(*session))
        .collect();
    let demand = |what: &str, there: &[String]| -> Result<()> {
        let text = there.concat();
        let missing: Vec<_> = due.iter().filter(|tool| !text.contains(*tool)).collect();
        ensure!(
            missing.is_empty(),
            "{what}: {} of {} sessions that ended more than {LOSS:?} before the kill are missing: {missing:?}",
            missing.len(),
            due.len()
        );
        Ok(())
    };
    demand(
        "messages",
        &column(
            bus,
            state,
            &format!(
                "SELECT group_concat(text) FROM messages WHERE server = '{name}' AND method = 'tools/list' \
                 AND kind = 'response'"
            ),
        )?,
    )?;
    demand(
        "pins",
        &column(
            bus,
            state,
            &format!(
                "SELECT group_concat(tool) FROM tools WHERE server = '{name}' \
                 AND pinned_hash IS NOT NULL"
            ),
        )?,
    )?;
    let decided = column(
        bus,
        state,
        &format!("SELECT tool FROM decisions WHERE server = '{name}' AND decision = 'approve'"),
    )?;
    ensure!(decided == [first], "approved: {decided:?}");
    Ok(due.len())
}

/// The session that was cut, as a tape.
fn last_session_as_tape(bus: &Bus, state: &State, server: &Server<'_>) -> Result<()> {
    let sessions = column(
        bus,
        state,
        &format!(
            "SELECT session FROM sessions WHERE server = '{}' ORDER BY last DESC LIMIT 1",
            server.name
        ),
    )?;
    let tape = server.directory.join("last.jsonl").display().to_string();
    let [session] = &sessions[..] else {
        bail!("no session of {}", server.name);
    };
    let (is_done, text) = about(bus, state, &["tape", "export", session, "-o", &tape])?;
    ensure!(is_done, "exporting {session}: {text}");
    let (is_done, text) = mcpinspect(bus, &["tape", "info", &tape])?;
    ensure!(is_done, "reading {tape}: {text}");
    std::fs::remove_file(tape)?;
    Ok(())
}

#[test]
fn a_killed_daemon_loses_at_most_its_last_second() -> Result<()> {
    let kills = match std::env::var("KILLS") {
        Ok(kills) => kills.parse().context("KILLS")?,
        Err(_) => KILLS,
    };
    let bus = Bus::start()?;
    let state = State::on(&bus)?;
    let directory = tempfile::tempdir()?;
    let mut sessions = 0;
    for kill in 0..kills {
        let server = Server::new(directory.path(), format!("crash-{kill}"))?;
        sessions += kill_once(&bus, &state, &server).with_context(|| format!("kill {kill}"))?;
        last_session_as_tape(&bus, &state, &server).with_context(|| format!("kill {kill}"))?;
        // A user's pins have room for some thousands.
        let (is_done, text) = about(&bus, &state, &["forget", &server.name])?;
        ensure!(is_done, "forgetting {}: {text}", server.name);
        std::fs::remove_file(directory.path().join(&server.name))?;
    }
    // Fewer say that the clients did not get to talk.
    ensure!(
        sessions >= 3 * kills,
        "{sessions} sessions in {kills} kills"
    );
    println!("{kills} kills, {sessions} sessions that had to be there");
    Ok(())
}
