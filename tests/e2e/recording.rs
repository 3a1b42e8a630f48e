//! Messages are recorded, found and shown, by the programs as they are installed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, Truth, oddpeers};
use serde_json::Value;

use crate::SESSION;

/// A key that has to stay off the disk.
const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ456789";

/// `mcpinspect`, with this daemon's configuration.
pub fn mcpinspect(state: &State, arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(places::program("mcpinspect")?)
        .args(arguments)
        .arg("--config")
        .arg(state.configuration())
        .stdin(Stdio::null())
        .output()?)
}

/// The rows that a command prints.
pub fn rows(state: &State, arguments: &[&str]) -> Result<Vec<Value>> {
    let output = mcpinspect(state, &[arguments, &["--json"]].concat())?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(error.is_empty(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout)?
        .lines()
        .map(|line| serde_json::from_str(line).context("a row"))
        .collect()
}

/// The Python SDK's client, which calls tools of a server.
pub fn client(files: &Path, calls: &str, server: &[&OsStr]) -> Result<Command> {
    let script = files.join("calls");
    std::fs::write(&script, calls)?;
    let preload = places::script("node/wirelog.cjs")?;
    let mut command = Command::new(places::python()?);
    command
        .arg(places::script("python/client.py")?)
        .arg(script)
        .args(server)
        .env("NODE_OPTIONS", format!("--require {}", preload.display()));
    Ok(command)
}

/// A session of it.
pub fn session(files: &Path, calls: &str, server: &[&OsStr]) -> Result<Truth> {
    Talk::start(client(files, calls, server)?)?.finish(SESSION)
}

/// The program of server-everything, the reference of the protocol's features.
pub fn everything_program() -> Result<PathBuf> {
    let server = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    Ok(places::node_directory()?.join(server))
}

/// What is called there.
fn calls() -> String {
    format!(
        r#"[["echo", {{"message": "Grüße vom Nordkap, {SECRET}"}}], ["get-sum", {{"a": 2, "b": 40}}]]"#
    )
}

/// A session with it.
fn everything(files: &Path) -> Result<Truth> {
    let server = everything_program()?;
    session(files, &calls(), &["node".as_ref(), server.as_os_str()])
}

/// A server whose tool fails.
fn failing(files: &Path) -> Result<Truth> {
    let calls = r#"[["get_current_time", {"timezone": "Mars"}]]"#;
    let (python, serve) = (places::python()?, places::script("python/serve.py")?);
    let server = [
        python.as_os_str(),
        serve.as_os_str(),
        "mcp_server_time".as_ref(),
        "--local-timezone".as_ref(),
        "UTC".as_ref(),
    ];
    session(files, calls, &server)
}

#[test]
fn a_session_of_a_real_server_is_recorded_and_found() -> Result<()> {
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let files = tempfile::tempdir()?;
    let truth = everything(files.path())?;
    failing(files.path())?;
    daemon.event("for the last session's end", |event| {
        event["type"] == "mcp_session_ended" && event["server_id"] != "everything"
    })?;
    // Messages are committed within a moment, while the daemon runs.
    std::thread::sleep(Duration::from_millis(600));

    let sessions = rows(&state, &["sessions", "--server", "everything"])?;
    ensure!(sessions.len() == 1, "{sessions:#?}");
    let id = sessions[0]["session_id"].as_str().context("an id")?;
    ensure!(sessions[0]["in_flight"] == 0, "{sessions:#?}");

    let shown = rows(&state, &["show", id])?;
    let messages: Vec<_> = shown
        .iter()
        .filter(|row| row["kind"] != Value::Null && row["sequence"] != Value::Null)
        .collect();
    let message_count = truth.to_server.len() + truth.to_client.len();
    ensure!(
        messages.len() == message_count,
        "{} of {message_count} messages",
        messages.len()
    );
    // Each request has its answer, and each answer its request.
    for message in &messages {
        if message["kind"] == "response" {
            ensure!(message["correlation"] == "answer", "{message:#?}");
            ensure!(
                message["latency_ns"]
                    .as_u64()
                    .is_some_and(|nanos| nanos > 0),
                "{message:#?}"
            );
        }
    }

    let found = rows(&state, &["search", "NORDKAP", "grüße", "--tool", "echo"])?;
    ensure!(found.len() == 2, "{found:#?}");
    let text = serde_json::to_string(&found)?;
    ensure!(
        !text.contains(SECRET) && text.contains("«redacted:"),
        "{text}"
    );
    ensure!(rows(&state, &["search", &SECRET[4..]])?.is_empty());
    let errors = rows(&state, &["search", "--error", "--since", "1h"])?;
    ensure!(
        errors.iter().any(|row| row["tool"] == "get_current_time"),
        "{errors:#?}"
    );

    let statistics = rows(&state, &["stats", "everything"])?;
    let sum = statistics
        .iter()
        .find(|row| row["tool"] == "get-sum")
        .context("get-sum")?;
    ensure!(
        sum["requests"] == 1 && sum["p99_ns"].as_u64() > Some(0),
        "{sum:#?}"
    );

    for arguments in [
        &["sessions"][..],
        &["show", id],
        &["search", "nordkap"],
        &["stats"],
    ] {
        let output = mcpinspect(&state, arguments)?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        ensure!(!output.stdout.is_empty());
    }
    as_a_tape(&state, id, message_count, files.path())?;
    daemon.stop()?;
    off_the_disk(state.registry().parent().context("a folder")?)
}

/// The same session as a tape: exported, described, examined, imported elsewhere, made anonymous.
fn as_a_tape(state: &State, id: &str, message_count: usize, files: &Path) -> Result<()> {
    let path = |name: &str| files.join(name).to_string_lossy().into_owned();
    let (tape, public, other) = (path("t.jsonl.zst"), path("public.jsonl"), path("other.db"));
    let exported = mcpinspect(state, &["tape", "export", id, "-o", &tape])?;
    ensure!(exported.status.success(), "{exported:?}");

    let program = places::program("mcpinspect")?;
    let run = |arguments: &[&str]| -> Result<String> {
        let output = Command::new(&program).args(arguments).output()?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let header: Value = serde_json::from_str(&run(&["tape", "info", "--json", &tape])?)?;
    ensure!(header["totals"]["messages"] == message_count, "{header:#?}");
    ensure!(header["server_id"] == "everything", "{header:#?}");
    ensure!(
        header["totals"]["methods"]["tools/call"] == 2,
        "{header:#?}"
    );

    let played = Command::new(places::daemon()?)
        .args(["run", "--from-tape", &tape])
        .output()?;
    ensure!(played.status.success(), "{played:?}");
    let events = String::from_utf8(played.stdout)?;
    let tools = events.lines().filter(|line| line.contains("mcp_tool_seen"));
    ensure!(tools.count() > 5, "{events}");
    ensure!(
        events
            .lines()
            .last()
            .is_some_and(|line| line.contains("mcp_session_ended"))
    );

    run(&["tape", "import", &tape, "--store", &other])?;
    let sessions = run(&["sessions", "--json", "--store", &other])?;
    let session: Value = serde_json::from_str(&sessions)?;
    ensure!(
        session["session_id"] == id && session["messages"] == message_count,
        "{session:#?}"
    );
    let again = Command::new(&program)
        .args(["tape", "import", &tape, "--store", &other])
        .output()?;
    ensure!(!again.status.success(), "a session was imported twice");
    ensure!(
        run(&["search", "nordkap", "--json", "--store", &other])?
            .lines()
            .count()
            == 2
    );

    replayed(&tape)?;
    served(&tape, files)?;
    run(&["tape", "anonymise", &tape, "-o", &public])?;
    let text = std::fs::read_to_string(&public)?;
    ensure!(
        !text.contains("Nordkap") && text.contains("get-sum"),
        "{text}"
    );
    run(&["tape", "info", &public])?;
    Ok(())
}

/// A fresh server answers as the one on the tape did, and a server of something else does not.
fn replayed(tape: &str) -> Result<()> {
    let replay = |server: &[&OsStr]| -> Result<(Option<i32>, Value)> {
        let output = Command::new(places::program("mcpinspect")?)
            .args(["replay", tape, "--json", "--to", "--"])
            .args(server)
            .output()?;
        let report = serde_json::from_slice(&output.stdout);
        let report = report.with_context(|| format!("{output:?}"))?;
        Ok((output.status.code(), report))
    };
    let everything = everything_program()?;
    let (code, report) = replay(&["node".as_ref(), everything.as_os_str()])?;
    ensure!(code == Some(0) && report["same"] == true, "{report:#}");
    ensure!(report["compared"] == report["requests"], "{report:#}");
    let (python, serve) = (places::python()?, places::script("python/serve.py")?);
    let other = [
        python.as_os_str(),
        serve.as_os_str(),
        "mcp_server_time".as_ref(),
    ];
    let (code, report) = replay(&other)?;
    ensure!(code == Some(1), "{report:#}");
    let differences = report["differences"].as_array().context("differences")?;
    ensure!(
        differences.iter().any(|one| one["kind"] == "missing"
            && one["path"] == "tools/list.result.tools[name=get-sum]"),
        "{report:#}"
    );
    Ok(())
}

/// The tape satisfies the client that made it, in the place of its server.
fn served(tape: &str, files: &Path) -> Result<()> {
    let (program, report) = (places::program("mcpinspect")?, files.join("served.json"));
    let server = [
        program.as_os_str(),
        "replay".as_ref(),
        tape.as_ref(),
        "--as-server".as_ref(),
        "--report".as_ref(),
        report.as_os_str(),
    ];
    let truth = session(files, &calls(), &server)?;
    ensure!(
        truth.to_client.len() >= 5,
        "{} answers",
        truth.to_client.len()
    );
    let report: Value = serde_json::from_slice(&std::fs::read(report)?)?;
    ensure!(report["complete"] == true, "{report:#}");
    Ok(())
}

/// No file of the daemon's has the secret.
fn off_the_disk(folder: &Path) -> Result<()> {
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let bytes = std::fs::read(&path)?;
        let found = bytes
            .windows(SECRET.len())
            .any(|bytes| bytes == SECRET.as_bytes());
        ensure!(!found, "{} has the secret", path.display());
    }
    Ok(())
}

#[test]
fn a_daemon_that_is_killed_keeps_what_was_said_before() -> Result<()> {
    let state = State::new()?;
    let mut before = 0;
    for _ in 0..3 {
        let daemon = Daemon::start(&state)?;
        Talk::start(oddpeers(&[], "handshake; list; call 300; list", &[])?)?.finish(SESSION)?;
        std::thread::sleep(Duration::from_millis(800));
        // Not asked to end: its guard kills it.
        drop(daemon);
        let sessions = rows(&state, &["sessions"])?;
        ensure!(sessions.len() > before, "{sessions:#?}");
        before = sessions.len();
        ensure!(sessions[0]["messages"].as_u64() >= Some(6), "{sessions:#?}");
    }
    Ok(())
}
