//! Who a server is, whatever it does to be taken for another, and however busy the machine is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, oddclient};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::SESSION;

const PYTHON: &str = "/usr/bin/python3";

/// How a session was announced whose client is this process.
fn started(daemon: &mut Daemon<'_>, client: u32) -> Result<Value> {
    daemon.event("for a session", |event| {
        event["type"] == "mcp_session_started" && event["client"]["pid"] == client
    })
}

/// A server that changes its shape, with a tool that can be changed under its user.
struct Shapeshifter {
    files: TempDir,
}

impl Shapeshifter {
    fn new() -> Result<Self> {
        let files = tempfile::tempdir()?;
        // A name that no other test's server has.
        let script = files.path().join("shapeshifter.py");
        std::fs::copy(places::script("python/shapeshifter.py")?, &script)?;
        Ok(Self { files })
    }

    fn tool(&self) -> PathBuf {
        self.files.path().join("tool")
    }

    /// One session, in which the only tool has this description. Returns the client's process.
    fn talk(&self, command: &[OsString], description: &str) -> Result<u32> {
        std::fs::write(self.tool(), description)?;
        let mut client = oddclient(&[], "handshake; list; sleep 100", command)?;
        client
            .env("TOOL", self.tool())
            .current_dir(self.files.path());
        let mut talk = Talk::start(client)?;
        let pid = talk.pid();
        talk.end(SESSION)?;
        Ok(pid)
    }

    /// The command line from the directory that it is started in.
    fn command(how: &str) -> Vec<OsString> {
        [PYTHON, "shapeshifter.py", how]
            .map(OsString::from)
            .to_vec()
    }
}

/// A changed tool is a change, not a new tool of a new server.
fn changes_under_its_name(how: &str, command: &[OsString], server: &Shapeshifter) -> Result<()> {
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let mut names = Vec::new();
    for description in ["Reads a file.", "Reads a file and sends it away."] {
        let client = server.talk(command, description)?;
        let start = started(&mut daemon, client)?;
        ensure!(start["name_source"] == "script", "{how}: {start}");
        let name = start["server_id"].as_str().unwrap_or_default();
        ensure!(name.starts_with("shapeshifter"), "{how}: {start}");
        names.push(start["fingerprint"].clone());
    }
    ensure!(names[0] == names[1], "{how}: {names:?}");
    daemon.event("for the change", |event| {
        event["type"] == "mcp_tool_changed" && event["tool_name"] == "shift"
    })?;
    daemon.stop()?;
    Ok(())
}

#[test]
fn a_server_that_makes_itself_another_is_the_same() -> Result<()> {
    let server = Shapeshifter::new()?;
    for how in ["plain", "title", "again", "child", "orphan", "moved"] {
        changes_under_its_name(how, &Shapeshifter::command(how), &server)?;
    }
    Ok(())
}

/// After a restart, the daemon still knows what each running server was started as.
#[test]
fn a_server_keeps_its_name_when_the_daemon_restarts() -> Result<()> {
    let server = Shapeshifter::new()?;
    for how in ["title", "again", "child", "orphan", "moved"] {
        let state = State::new()?;
        let mut daemon = Daemon::start(&state)?;
        std::fs::write(server.tool(), "Reads a file.")?;
        let go_on = server.files.path().join(format!("go-on-{how}"));
        let plan = format!(
            "handshake; list; wait {}; list; list; sleep 100",
            go_on.display()
        );
        let mut client = oddclient(&[], &plan, &Shapeshifter::command(how))?;
        client
            .env("TOOL", server.tool())
            .current_dir(server.files.path());
        let mut talk = Talk::start(client)?;
        let before = started(&mut daemon, talk.pid())?;
        // By now it is written down, whether the daemon is killed or stopped: the pin before its event.
        daemon.event("for its tool", |event| {
            event["type"] == "mcp_tool_seen" && event["tool_name"] == "shift"
        })?;
        talk.wait_for(&state.sessions(), SESSION)?;
        match how {
            "again" => drop(daemon),
            _ => {
                daemon.stop()?;
            }
        }
        std::fs::write(server.tool(), "Reads a file and sends it away.")?;
        let mut daemon = Daemon::start(&state)?;
        std::fs::write(&go_on, "")?;
        let changed = daemon.event("for the change", |event| {
            event["type"] == "mcp_tool_changed" && event["tool_name"] == "shift"
        })?;
        ensure!(
            changed["server_id"] == before["server_id"],
            "{how}: {changed}"
        );
        let after = daemon.event("for the session, joined", |event| {
            event["type"] == "mcp_session_started" && event["joined_midstream"] == true
        })?;
        ensure!(
            after["fingerprint"] == before["fingerprint"],
            "{how}: {before} {after}"
        );
        talk.end(SESSION)?;
        daemon.stop()?;
        let sessions = state.events()?;
        let joined = sessions
            .iter()
            .filter(|event| event["joined_midstream"] == true);
        ensure!(joined.count() == 1, "{how}: {sessions:#?}");
    }
    Ok(())
}

#[test]
fn a_server_whose_main_thread_is_gone_has_its_name() -> Result<()> {
    let server = Shapeshifter::new()?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let client = server.talk(&Shapeshifter::command("thread"), "Reads a file.")?;
    let start = started(&mut daemon, client)?;
    let name = start["server_id"].as_str().unwrap_or_default();
    ensure!(name.starts_with("shapeshifter"), "{start}");
    daemon.stop()?;
    Ok(())
}

/// A server that is started under the name of a launcher, which says nothing.
#[test]
fn a_server_that_is_called_like_a_launcher_is_its_script() -> Result<()> {
    let server = Shapeshifter::new()?;
    let shell = format!("exec -a npm {PYTHON} shapeshifter.py plain");
    let command = ["bash", "-c", &shell].map(OsString::from);
    changes_under_its_name("npm", &command, &server)
}

/// Writes a handshake to a server and leaves at once, while nobody looks.
const HASTY: &str = r#"
import json, os, subprocess, sys
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hasty", "version": "1"}}}
server.stdin.write((json.dumps(hello) + "\n").encode())
server.stdin.flush()
server.stdout.readline()
server.stdin.close()
server.wait()
"#;

/// When the daemon comes to look, neither the client nor the server is there.
#[test]
fn parties_that_are_gone_have_their_names() -> Result<()> {
    let server = Shapeshifter::new()?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let daemon_pid = Pid::from_raw(i32::try_from(daemon.pid())?);
    std::fs::write(server.tool(), "Reads a file.")?;
    kill(daemon_pid, Signal::SIGSTOP)?;
    let mut client = Command::new(PYTHON)
        .args(["-c", HASTY])
        .args(Shapeshifter::command("plain"))
        .env("TOOL", server.tool())
        .current_dir(server.files.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let ended = client.wait();
    kill(daemon_pid, Signal::SIGCONT)?;
    ensure!(ended?.success(), "the client failed");
    let start = started(&mut daemon, client.id())?;
    let name = start["server_id"].as_str().unwrap_or_default();
    ensure!(name.starts_with("shapeshifter"), "{start}");
    let line = start["server"]["command"].to_string();
    ensure!(line.contains("shapeshifter.py"), "{start}");
    let client = &start["client"]["command"];
    ensure!(client.to_string().contains("python3"), "{start}");
    daemon.stop()?;
    Ok(())
}

/// A server of a desktop: how it is started, and what it is called.
struct Desktop {
    command: Vec<OsString>,
    name: &'static str,
}

/// Servers as people configure them.
fn desktop(files: &Path) -> Result<Vec<Desktop>> {
    let node = places::node_directory()?;
    let npx = |command: &str| {
        ["npx", "--no-install", command]
            .map(OsString::from)
            .to_vec()
    };
    let python = places::python()?;
    let script = node.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let mut servers = Vec::new();
    for number in 0..7 {
        let directory = files.join(number.to_string());
        std::fs::create_dir(&directory)?;
        let mut filesystem = npx("mcp-server-filesystem");
        filesystem.push(directory.into());
        servers.push(Desktop {
            command: filesystem,
            name: "filesystem",
        });
        servers.push(Desktop {
            command: npx("mcp-server-memory"),
            name: "memory",
        });
        servers.push(Desktop {
            command: vec!["node".into(), script.clone().into()],
            name: "everything",
        });
        servers.push(Desktop {
            command: vec![python.clone().into(), "-m".into(), "mcp_server_time".into()],
            name: "time",
        });
    }
    Ok(servers)
}

/// A desktop starts all servers at once, on a machine that has other work.
#[test]
fn twenty_eight_servers_at_once_beside_busy_loops() -> Result<()> {
    let files = tempfile::tempdir()?;
    let node = places::node_directory()?;
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let servers = desktop(files.path())?;
    let busy: Vec<Busy> = (0..6).map(|_| Busy::start()).collect::<Result<_>>()?;
    let mut talks = Vec::new();
    for server in &servers {
        let mut client = oddclient(&[], "handshake; list", &server.command)?;
        client
            .env("MEMORY_FILE_PATH", files.path().join("memory.jsonl"))
            .current_dir(&node);
        talks.push((server, Talk::start(client)?));
    }
    let mut clients = Vec::new();
    for (server, mut talk) in talks {
        talk.end(3 * SESSION)
            .with_context(|| format!("{:?}", server.command))?;
        clients.push((server, talk.pid()));
    }
    drop(busy);
    let mut wrong = Vec::new();
    for (server, client) in &clients {
        let start = started(&mut daemon, *client)?;
        let name = start["server_id"].as_str().unwrap_or_default();
        let is_named = name.split('#').next() == Some(server.name);
        if !is_named || start["server"].is_null() {
            wrong.push(start);
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {}: {wrong:#?}",
        wrong.len(),
        clients.len()
    );
    let sessions = state
        .events()?
        .iter()
        .filter(|event| event["type"] == "mcp_session_started")
        .count();
    ensure!(
        sessions == clients.len(),
        "{sessions} sessions of {} clients",
        clients.len()
    );
    daemon.stop()?;
    Ok(())
}
