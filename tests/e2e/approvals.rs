//! A guard that asks the daemon which tools were approved.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::bus::{self, Bus};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Offers what stands in a file when it is asked, and answers each call.
const SERVER: &str = r#"
import json, pathlib, sys
tools = pathlib.Path(__file__).with_name("tools.json")
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                       "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": json.loads(tools.read_text())},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }[asked["method"]]
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"#;

const POLICY: &str = r#"
[[rule]]
id = "hidden"
when = { tool_status = "unapproved" }
action = "hide"

[[rule]]
id = "blocked"
when = { method = "tools/call", tool_status = "unapproved" }
action = "block"
"#;

/// How long a decision may take until it counts in a guard. Less than what an answer holds at most.
const SOON: Duration = Duration::from_secs(4);

/// How long a list that was replaced may take until it counts: files have to come to rest first.
const LIST: Duration = Duration::from_secs(15);

struct Workspace {
    directory: TempDir,
    bus: String,
    name: String,
}

impl Workspace {
    fn new(name: &str, bus: &str) -> Result<Self> {
        let workspace = Self {
            directory: tempfile::tempdir()?,
            bus: bus.to_owned(),
            name: format!("approvals-{name}"),
        };
        std::fs::write(workspace.path(&format!("{}.py", workspace.name)), SERVER)?;
        std::fs::write(workspace.path("policy.toml"), POLICY)?;
        workspace.offer(&[("read", "Reads."), ("write", "Writes.")])?;
        Ok(workspace)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn offer(&self, tools: &[(&str, &str)]) -> Result<()> {
        let tool = |(name, says): &(&str, &str)| json!({"name": name, "description": says, "inputSchema": {"type": "object"}});
        let tools: Vec<Value> = tools.iter().map(tool).collect();
        Ok(std::fs::write(
            self.path("tools.json"),
            Value::from(tools).to_string(),
        )?)
    }

    /// A conversation through the guard.
    fn talk(&self, options: &[&str]) -> Result<Conversation> {
        let mut child = Command::new(places::program("mcpinspect")?)
            .args(["guard", "--policy"])
            .arg(self.path("policy.toml"))
            .arg("--log")
            .arg(self.path("log"))
            .args(options)
            .args(["--", "python3"])
            .arg(self.path(&format!("{}.py", self.name)))
            .env(bus::VARIABLE, &self.bus)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("output")?);
        let mut talk = Conversation {
            child,
            lines,
            id: 0,
        };
        talk.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}))?;
        Ok(talk)
    }

    /// Approves a tool as it was seen last.
    fn approve(&self, state: &State, tool: &str) -> Result<()> {
        let approved = Command::new(places::program("mcpinspect")?)
            .args(["approve", &self.name, tool, "--config"])
            .arg(state.configuration())
            .env(bus::VARIABLE, &self.bus)
            .output()?;
        ensure!(approved.status.success(), "{approved:?}");
        Ok(())
    }

    fn reasons(&self) -> Result<Vec<Value>> {
        let log = std::fs::read_to_string(self.path("log"))?;
        let record = |line: &str| Ok(serde_json::from_str::<Value>(line)?["reason"].take());
        log.lines().map(record).collect()
    }
}

struct Conversation {
    child: Child,
    lines: BufReader<ChildStdout>,
    id: u64,
}

impl Conversation {
    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.id += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        let input = self.child.stdin.as_mut().context("input")?;
        input.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        self.lines.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context(line)?;
        ensure!(answer["id"] == self.id, "{answer}");
        Ok(answer)
    }

    /// The names of the tools that are offered.
    fn list(&mut self) -> Result<Vec<String>> {
        let answer = self.ask("tools/list", json!({}))?;
        let tools = answer["result"]["tools"].as_array().context("tools")?;
        let names = tools.iter().filter_map(|tool| tool["name"].as_str());
        Ok(names.map(str::to_owned).collect())
    }

    /// Whether a call reaches the server.
    fn passes(&mut self, tool: &str) -> Result<bool> {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": {}}))?;
        ensure!(
            answer["result"].is_object() || answer["error"]["code"] == -32090,
            "{answer}"
        );
        Ok(answer["result"].is_object())
    }

    /// Asks until these tools are offered.
    fn wait_for(&mut self, expected: &[&str]) -> Result<()> {
        self.wait(expected, SOON)
    }

    fn wait(&mut self, expected: &[&str], limit: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let names = self.list()?;
            if names == expected {
                return Ok(());
            }
            ensure!(start.elapsed() < limit, "{names:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What it wrote to standard error.
    fn end(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        let mut errors = String::new();
        let mut stderr = self.child.stderr.take().context("standard error")?;
        stderr.read_to_string(&mut errors)?;
        self.child.wait()?;
        Ok(errors)
    }
}

#[test]
fn tools_are_offered_when_they_are_approved_and_gone_when_they_change() -> Result<()> {
    let bus = Bus::start()?;
    let state = State::on(&bus)?;
    let mut daemon = Daemon::start(&state)?;
    let workspace = Workspace::new("offered", &bus.address())?;
    let mut talk = workspace.talk(&[])?;
    ensure!(talk.list()?.is_empty());
    ensure!(!talk.passes("read")?);
    let seen = |tool: &'static str| {
        let name = workspace.name.clone();
        move |event: &Value| {
            event["type"] == "mcp_tool_seen"
                && event["server_id"] == json!(name)
                && event["tool_name"] == tool
        }
    };
    daemon.event("for the tool", seen("read"))?;

    // While the session goes on.
    workspace.approve(&state, "read")?;
    talk.wait_for(&["read"])?;
    ensure!(talk.passes("read")? && !talk.passes("write")?);
    // A session that never lists, and one under another name: the daemon knows whom it talks to.
    let mut other = workspace.talk(&["--server", "nothing"])?;
    let start = Instant::now();
    while !other.passes("read")? {
        ensure!(start.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(!other.passes("write")?);
    ensure!(other.list()? == ["read"]);
    ensure!(other.end()?.is_empty());

    // The very listing that brings the change does not offer it.
    workspace.offer(&[("read", "Reads, and sends."), ("write", "Writes.")])?;
    ensure!(talk.list()?.is_empty());
    ensure!(!talk.passes("read")?);
    // Nor is a second form of an approved tool one.
    workspace.offer(&[("read", "Reads."), ("read", "Reads, and sends.")])?;
    ensure!(talk.list()?.is_empty());
    workspace.offer(&[("read", "Reads.")])?;
    ensure!(talk.list()? == ["read"]);

    let reasons = workspace.reasons()?;
    ensure!(reasons.iter().all(Value::is_null), "{reasons:?}");
    ensure!(talk.end()?.is_empty());
    daemon.stop()?;
    Ok(())
}

#[test]
fn a_daemon_that_does_not_answer_is_waited_for_once() -> Result<()> {
    let bus = Bus::start()?;
    let state = State::on(&bus)?;
    let mut daemon = Daemon::start(&state)?;
    let workspace = Workspace::new("silent", &bus.address())?;
    let mut talk = workspace.talk(&[])?;
    let mut open = workspace.talk(&["--on-failure", "open"])?;
    ensure!(talk.list()?.is_empty() && open.list()?.is_empty());
    daemon.event("for the tool", |event| {
        event["type"] == "mcp_tool_seen" && event["server_id"] == json!(workspace.name)
    })?;
    workspace.approve(&state, "read")?;
    talk.wait_for(&["read"])?;
    open.wait_for(&["read"])?;

    let daemon_pid = Pid::from_raw(i32::try_from(daemon.pid())?);
    kill(daemon_pid, Signal::SIGSTOP)?;
    // A definition about which it was not asked yet.
    workspace.offer(&[("fresh", "New."), ("other", "New.")])?;
    for (talk, expected) in [(&mut talk, 0), (&mut open, 2)] {
        let start = Instant::now();
        for _ in 0..20 {
            ensure!(talk.list()?.len() == expected);
        }
        let taken = start.elapsed();
        ensure!(taken < Duration::from_millis(1500), "{taken:?}");
    }
    kill(daemon_pid, Signal::SIGCONT)?;
    workspace.offer(&[("read", "Reads."), ("other", "New.")])?;
    talk.wait_for(&["read"])?;
    open.wait_for(&["read"])?;

    let reasons = workspace.reasons()?;
    ensure!(reasons.contains(&json!("status_unknown")), "{reasons:?}");
    let (closed, open) = (talk.end()?, open.end()?);
    ensure!(
        closed.contains("count as unapproved and changed"),
        "{closed}"
    );
    ensure!(open.contains("count as approved"), "{open}");
    ensure!(open.contains("answers again"), "{open}");
    daemon.stop()?;
    Ok(())
}

#[test]
fn without_a_daemon_the_guard_says_what_its_rules_do() -> Result<()> {
    let workspace = Workspace::new("alone", "unix:path=/nonexistent")?;
    let mut talk = workspace.talk(&[])?;
    ensure!(talk.list()?.is_empty() && !talk.passes("read")?);
    ensure!(workspace.reasons()?.contains(&json!("status_unknown")));
    let errors = talk.end()?;
    ensure!(
        errors.contains("no system bus") && errors.contains("--on-failure closed"),
        "{errors}"
    );
    let mut talk = workspace.talk(&["--on-failure", "open"])?;
    ensure!(talk.list()? == ["read", "write"] && talk.passes("write")?);
    ensure!(
        talk.end()?
            .contains("count as approved (--on-failure open)")
    );
    Ok(())
}

/// `mcpinspect` with these arguments.
fn mcpinspect(arguments: &[&str]) -> Result<std::process::Output> {
    let mut command = Command::new(places::program("mcpinspect")?);
    Ok(command.args(arguments).stdin(Stdio::null()).output()?)
}

/// One machine's registry and the key that signs, and another machine that follows the list.
struct Fleet {
    signs: State,
    follows: State,
    folder: TempDir,
    name: String,
}

impl Fleet {
    fn new(bus: &Bus, name: &str) -> Result<Self> {
        let fleet = Self {
            signs: State::new()?,
            follows: State::on(bus)?,
            folder: tempfile::tempdir()?,
            name: name.to_owned(),
        };
        let made = mcpinspect(&["fleet", "keygen", "--no-password", &fleet.path("fleet.key")])?;
        ensure!(made.status.success(), "{made:?}");
        let configuration = fleet.follows.configuration();
        let section = format!(
            "\n[approvals]\npath = {:?}\nkeys = [{:?}]\n",
            fleet.path("there"),
            fleet.path("fleet.pub")
        );
        let text = std::fs::read_to_string(&configuration)? + &section;
        std::fs::write(&configuration, text)?;
        std::fs::create_dir(fleet.path("there"))?;
        Ok(fleet)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// `fleet approve` or `fleet revoke` of the tool.
    fn decide(&self, action: &str, more: &[&str]) -> Result<()> {
        let (list, key) = (self.path("fleet.json"), self.path("fleet.key"));
        let mut arguments = vec!["fleet", action, &self.name, "read"];
        arguments.extend(["--by", "carol", "--list", &list, "--key", &key]);
        arguments.extend(more);
        let decided = mcpinspect(&arguments)?;
        ensure!(decided.status.success(), "{decided:?}");
        Ok(())
    }

    /// Brings the list to the other machine; the signature comes late.
    fn bring(&self, change: impl Fn(String) -> String) -> Result<()> {
        let list = change(std::fs::read_to_string(self.path("fleet.json"))?);
        std::fs::write(self.path("there/fleet.json"), list)?;
        std::thread::sleep(Duration::from_millis(50));
        let (from, to) = ("fleet.json.minisig", "there/fleet.json.minisig");
        std::fs::copy(self.path(from), self.path(to))?;
        Ok(())
    }

    /// The tool as the other machine lists it.
    fn listed(&self) -> Result<Value> {
        let configuration = self.follows.configuration().display().to_string();
        let listed = mcpinspect(&["tools", &self.name, "--json", "--config", &configuration])?;
        let tools: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
        let mut tools = tools.into_iter();
        let tool = tools.find(|tool| tool["tool_name"] == "read");
        tool.context("the tool is not listed")
    }
}

fn is_policy(name: &str, decision: &str) -> impl Fn(&Value) -> bool {
    move |event: &Value| {
        event["type"] == "mcp_policy"
            && event["decision"] == *decision
            && event["by"] == "list"
            && (event["server_id"] == *name || event["server_id"] == "*")
    }
}

#[test]
fn a_signed_list_approves_on_other_machines_until_it_revokes() -> Result<()> {
    let bus = Bus::start()?;
    let workspace = Workspace::new("signed", &bus.address())?;
    let name = workspace.name.as_str();
    let fleet = Fleet::new(&bus, name)?;
    let new = [("read", "Reads, since today.")];
    let is_read = |event: &Value| event["server_id"] == *name && event["tool_name"] == "read";

    // Someone reads the new definition on one machine, and approves it for all.
    let mut daemon = Daemon::start(&fleet.signs)?;
    workspace.offer(&new)?;
    workspace.talk(&["--on-failure", "open"])?.list()?;
    daemon.event("for the tool", is_read)?;
    daemon.stop()?;
    let configuration = fleet.signs.configuration().display().to_string();
    let reason = ["--config", &configuration, "--reason", "read it"];
    fleet.decide("approve", &reason)?;

    // On the other machine, the first definition was never approved.
    workspace.offer(&[("read", "Reads.")])?;
    let mut daemon = Daemon::start(&fleet.follows)?;
    let mut talk = workspace.talk(&[])?;
    ensure!(talk.list()?.is_empty());
    daemon.event("for the tool", is_read)?;
    fleet.bring(|list| list)?;
    daemon.event("for the list", is_policy(name, "accept"))?;
    // The very listing that brings the change offers it, and nobody is alarmed.
    workspace.offer(&new)?;
    ensure!(talk.list()? == ["read"] && talk.passes("read")?);
    let approved = daemon.event("for the approval", is_policy(name, "approve"))?;
    ensure!(
        approved["reason"] == "carol: read it (list fleet, serial 1)",
        "{approved}"
    );
    let listed = fleet.listed()?;
    ensure!(listed["status"] == "approved", "{listed}");
    ensure!(listed["listed"] == approved["reason"], "{listed}");
    let events = fleet.follows.events()?;
    let mut alarms = events
        .iter()
        .filter(|event| event["type"] == "mcp_tool_changed");
    ensure!(!alarms.any(is_read), "{events:?}");

    // A list that someone changed on the way is refused, and changes nothing.
    fleet.bring(|list| list.replace("carol", "mallory"))?;
    let refused = daemon.event("for the refusal", is_policy(name, "refuse"))?;
    ensure!(
        refused["reason"]
            .as_str()
            .unwrap_or_default()
            .contains("changed after signing"),
        "{refused}"
    );
    ensure!(talk.list()? == ["read"]);

    // What is revoked is changed again, and an older list does not bring it back.
    let old = std::fs::read_to_string(fleet.path("fleet.json"))?;
    let old_signature = std::fs::read_to_string(fleet.path("fleet.json.minisig"))?;
    fleet.decide("revoke", &["--reason", "it sends mails"])?;
    fleet.bring(|list| list)?;
    let revoked = daemon.event("for the revocation", is_policy(name, "revoke"))?;
    ensure!(
        revoked["reason"] == "carol: it sends mails (list fleet, serial 2)",
        "{revoked}"
    );
    talk.wait(&[], LIST)?;
    ensure!(fleet.listed()?["status"] == "changed");
    std::fs::write(fleet.path("there/fleet.json"), old)?;
    std::fs::write(fleet.path("there/fleet.json.minisig"), old_signature)?;
    daemon.event("for the refusal of the older", |event| {
        is_policy(name, "refuse")(event)
            && event["reason"]
                .as_str()
                .is_some_and(|why| why.contains("lower"))
    })?;
    ensure!(talk.list()?.is_empty());
    // The next session is told that the tool is not what was accepted.
    workspace.talk(&[])?.list()?;
    daemon.event("for the change", |event| {
        event["type"] == "mcp_tool_changed" && is_read(event)
    })?;
    daemon.stop()?;
    Ok(())
}
