//! A recorded session against other versions of its server: the report names what broke.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use serde_json::{Value, json};

use crate::recording::{mcpinspect, rows, session};

/// A version of the server for files; the second is from January 2025.
fn filesystem(package: &str) -> Result<PathBuf> {
    let program = format!("node_modules/{package}/dist/index.js");
    Ok(places::node_directory()?.join(program))
}

fn replay(tape: &Path, package: &str, root: &Path) -> Result<(Option<i32>, Value)> {
    let output = Command::new(places::program("mcpinspect")?)
        .arg("replay")
        .arg(tape)
        .args(["--json", "--to", "--", "node"])
        .arg(filesystem(package)?)
        .arg(root)
        .stdin(Stdio::null())
        .output()?;
    let report = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), report))
}

#[test]
fn an_older_version_of_a_server_shows_what_broke() -> Result<()> {
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let files = tempfile::tempdir()?;
    let root = files.path().join("root");
    std::fs::create_dir(&root)?;
    std::fs::write(root.join("plan.txt"), "north")?;
    let calls = json!([
        ["read_text_file", {"path": root.join("plan.txt")}],
        ["list_directory", {"path": root}],
    ]);
    let new = filesystem("@modelcontextprotocol/server-filesystem")?;
    let server = ["node".as_ref(), new.as_os_str(), root.as_os_str()];
    session(files.path(), &calls.to_string(), &server)?;
    daemon.event("for the session's end", |event| {
        event["type"] == "mcp_session_ended"
    })?;
    // Messages are committed within a moment, while the daemon runs.
    std::thread::sleep(Duration::from_millis(600));
    let sessions = rows(&state, &["sessions", "--server", "filesystem"])?;
    let id = sessions[0]["session_id"].as_str().context("an id")?;
    let tape = files.path().join("tape.jsonl");
    let exported = mcpinspect(
        &state,
        &["tape", "export", id, "-o", &tape.to_string_lossy()],
    )?;
    ensure!(exported.status.success(), "{exported:?}");
    daemon.stop()?;

    let (code, report) = replay(&tape, "@modelcontextprotocol/server-filesystem", &root)?;
    ensure!(code == Some(0) && report["same"] == true, "{report:#}");
    let (code, report) = replay(&tape, "server-filesystem-2025", &root)?;
    ensure!(code == Some(1), "{report:#}");
    let differences = report["differences"].as_array().context("differences")?;
    let has = |kind: &str, path: &str| {
        differences
            .iter()
            .any(|one| one["kind"] == kind && one["path"] == path)
    };
    ensure!(
        has("outcome", "tools/call[name=read_text_file]")
            && has("missing", "tools/list.result.tools[name=read_text_file]"),
        "{report:#}"
    );
    // What did not break is not named: both list the folder.
    ensure!(
        !has("outcome", "tools/call[name=list_directory]"),
        "{report:#}"
    );
    Ok(())
}
