//! `mcpinspect guard --listen` in front of servers on HTTP: real ones of the Python SDK, and small ones that do
//! one thing each, byte by byte.

mod crowd;
mod forward;
mod heads;
mod judged;
mod load;
mod real;
mod streams;
mod stub;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::built;
use crate::support::running::RunningServer;
use stub::{StubServer, ask};

const RULES: &str = r#"
[[rule]]
id = "no-writes"
when = { method = "tools/call", tool = "write" }
action = "block"
answer = "result"
message = "Read only."

[[rule]]
id = "fails"
when = { method = "tools/call", tool = "fails" }
action = "error"
code = -32050
message = "out of cheese"

[[rule]]
id = "masked"
on = ["response"]
when = { tool = "env" }
action = "modify"
redact = [{ path = "**", matches = "hunter2" }]

[[rule]]
id = "hidden"
when = { tool = "write" }
action = "hide"

[[rule]]
id = "no-sampling"
when = { method = "sampling/createMessage" }
action = "block"
"#;

/// A rule that matches nothing that these tests say, so that everything is judged.
const JUDGED: &str = "[[rule]]\nid = \"a\"\non = [\"request\", \"notification\", \"response\"]\nwhen = { tool = \"never\" }\naction = \"block\"\n";

/// A gateway that runs.
struct Gateway {
    folder: tempfile::TempDir,
    running: RunningServer,
}

impl Gateway {
    fn start(policy: &str, upstream: &str, options: &[&str]) -> Self {
        Self::start_with(policy, &[&["--upstream", upstream], options].concat(), None)
    }

    /// A forward proxy.
    fn forward(policy: &str, options: &[&str]) -> Self {
        Self::start_with(policy, &[&["--forward"], options].concat(), None)
    }

    /// One that trusts this authority.
    fn trusting(policy: &str, upstream: &str, authority: &Path) -> Self {
        Self::start_with(policy, &["--upstream", upstream], Some(authority))
    }

    fn start_with(policy: &str, options: &[&str], authority: Option<&Path>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, policy).unwrap();
        let mut command = Command::new(built("mcpinspect"));
        command
            .args(["guard", "--listen", "127.0.0.1:0"])
            .arg("--policy")
            .arg(path)
            .arg("--log")
            .arg(folder.path().join("log"))
            .args(options)
            .envs(authority.map(|path| ("SSL_CERT_FILE", path)));
        let running = RunningServer::start(&mut command);
        Self { folder, running }
    }

    /// In front of a stub.
    fn before(policy: &str, stub: &StubServer) -> Self {
        Self::start(policy, &stub.url("/mcp"), &[])
    }

    fn url(&self) -> &str {
        &self.running.first_line
    }

    /// Host and port.
    fn address(&self) -> &str {
        let rest = self.url().strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap()
    }

    fn ask(&self, method: &str, path: &str, fields: &str, body: &str) -> stub::Answer {
        ask(self.address(), method, path, fields, body)
    }

    fn post(&self, body: &str) -> stub::Answer {
        self.ask("POST", "/mcp", "content-type: application/json\r\n", body)
    }

    fn decisions(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
        let lines = log.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn call(id: u64, tool: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
    )
}

fn guard(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(built("mcpinspect"));
    command.arg("guard").args(arguments).output().unwrap()
}

fn policy(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("p.toml");
    std::fs::write(&path, JUDGED).unwrap();
    path
}

#[test]
fn other_machines_are_let_in_on_demand_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = policy(&folder).display().to_string();
    let start = ["--policy", &path, "--listen", "0.0.0.0:0", "--upstream"];
    let output = guard(&[&start[..], &["http://127.0.0.1:1/"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("--allow-remote"), "{said}");
    for wrong in [
        &["--listen", "127.0.0.1:0"][..],
        &["--upstream", "http://h/"],
        &[
            "--listen",
            "127.0.0.1:0",
            "--upstream",
            "http://h/",
            "--",
            "x",
        ],
        &["--listen", "127.0.0.1:0", "--upstream", "ftp://h/"],
        &[],
    ] {
        let output = guard(&[&["--policy", &path][..], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn it_ends_when_it_is_told_to() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let stub = StubServer::start(|_, out| {
            out.chunked("content-type: text/event-stream\r\n");
            out.chunk(b"data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n");
            out.wait();
        });
        let folder = tempfile::tempdir().unwrap();
        let mut child: Child = Command::new(built("mcpinspect"))
            .args(["guard", "--listen", "127.0.0.1:0", "--upstream"])
            .arg(stub.url("/mcp"))
            .arg("--policy")
            .arg(policy(&folder))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).unwrap();
        let address = said.trim().strip_prefix("http://").unwrap();
        let address = address.strip_suffix("/mcp").unwrap().to_owned();
        let mut stream = stub::OpenStream::get(&address, "/mcp", "");
        stream.until("\"a\"");
        kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
        // The stream ends as a stream does, not in the middle.
        assert!(stream.rest().ends_with("0\r\n\r\n"));
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
