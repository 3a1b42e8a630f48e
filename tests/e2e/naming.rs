//! What a real server is called that an npm project starts by one of its commands.

use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient};
use serde_json::Value;
use tempfile::TempDir;

use crate::SESSION;

/// An argument that the server ignores and that no other test's server has.
const MARK: &str = "--started-by-its-command";
const SCRIPT: &str = "../@modelcontextprotocol/server-memory/dist/index.js";

/// A project with the reference server for memory, whose command is called `mcp`.
struct Project(TempDir);

impl Project {
    fn new() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let modules = directory.path().join("node_modules");
        std::fs::create_dir_all(modules.join(".bin"))?;
        let scope = "node_modules/@modelcontextprotocol";
        symlink(
            places::node_directory()?.join(scope),
            directory.path().join(scope),
        )?;
        Ok(Self(directory))
    }

    fn command(&self) -> PathBuf {
        self.0.path().join("node_modules/.bin/mcp")
    }

    /// One session with the server that this command line starts in the project.
    fn talk(&self, server: &[OsString]) -> Result<()> {
        let mut command: Command = oddclient(&[], "handshake; list; sleep 100", server)?;
        command
            .env("MEMORY_FILE_PATH", self.0.path().join("memory.jsonl"))
            .current_dir(self.0.path());
        Talk::start(command)?.end(SESSION)
    }
}

/// The start of the session of this number that has the mark, once it has ended.
fn started(daemon: &mut Daemon<'_>, state: &State, number: usize) -> Result<Value> {
    let is_marked = |event: &Value| {
        event["type"] == "mcp_session_started" && event["server"].to_string().contains(MARK)
    };
    daemon.event("for a session", |_| {
        let events = state.events().unwrap_or_default();
        let marked = events.iter().filter(|event| is_marked(event)).nth(number);
        marked.is_some_and(|start| {
            let is_end = |event: &Value| {
                event["type"] == "mcp_session_ended" && event["session_id"] == start["session_id"]
            };
            events.iter().any(is_end)
        })
    })?;
    let events = state.events()?;
    let mut marked = events.into_iter().filter(is_marked);
    marked.nth(number).context("the session just found")
}

/// The tools that are reported as of this status in a session.
fn tools(state: &State, session: &Value, status: &str) -> Result<usize> {
    let is_one = |event: &&Value| {
        event["session_id"] == session["session_id"]
            && event["status"] == status
            && event["tool_name"].is_string()
    };
    Ok(state.events()?.iter().filter(is_one).count())
}

/// A command that is no link is its own name. As a link, it is its package, whichever way it is started,
/// and what was pinned before still holds.
#[test]
fn a_command_of_a_project_is_called_after_its_package() -> Result<()> {
    let project = Project::new()?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let by_command = [project.command().into_os_string(), MARK.into()];
    let wrapper = format!("#!/usr/bin/env node\nimport({SCRIPT:?});\n");
    std::fs::write(project.command(), wrapper)?;
    std::fs::set_permissions(project.command(), PermissionsExt::from_mode(0o755))?;
    project.talk(&by_command)?;
    let before = started(&mut daemon, &state, 0)?;
    ensure!(before["server_id"] == "mcp", "{before}");
    let known = tools(&state, &before, "new")?;
    ensure!(known > 0, "no tools in {before}");

    std::fs::remove_file(project.command())?;
    symlink(SCRIPT, project.command())?;
    let script = project.command().with_file_name(SCRIPT);
    let by_script = ["node".into(), script.into_os_string(), MARK.into()];
    let by_npx = ["npx", "--no-install", "mcp", MARK].map(OsString::from);
    let mut first: Option<Value> = None;
    let ways: [&[OsString]; 3] = [&by_command, &by_script, &by_npx];
    for (number, way) in ways.into_iter().enumerate() {
        project.talk(way)?;
        let start = started(&mut daemon, &state, number + 1)?;
        let name = start["server_id"].as_str().unwrap_or_default();
        ensure!(name.starts_with("memory"), "{start}");
        ensure!(start["name_source"] == "package:npm", "{start}");
        ensure!(start["fingerprint"] != before["fingerprint"], "{start}");
        for status in ["new", "changed", "removed"] {
            let count = tools(&state, &start, status)?;
            ensure!(count == 0, "{count} tools are {status} in {start}");
        }
        let first = first.get_or_insert_with(|| start.clone());
        for field in ["server_id", "fingerprint"] {
            ensure!(start[field] == first[field], "{start} and {first}");
        }
    }
    daemon.stop()?;
    Ok(())
}
