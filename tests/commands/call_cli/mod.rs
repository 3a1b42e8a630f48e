//! `mcpinspect call`, as a script or an agent uses it: against real servers of the Python SDK in both eras and
//! on each transport, and against small servers that misbehave in one way each.

mod failures;
mod hearing;
mod http;
mod scripts;
mod sdk;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::built;
use crate::support::folder::Folder;

/// A folder with the little server.
struct Workspace {
    folder: Folder,
}

impl Workspace {
    fn new() -> Self {
        Self {
            folder: Folder::with_server(include_str!("little.py")),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        self.folder.write(name, text)
    }

    /// The command of the server that behaves like this.
    fn server(&self, how: &str) -> Vec<String> {
        self.folder.server(how)
    }

    /// Asks the server that behaves like this.
    fn call(&self, how: &str, arguments: &[&str]) -> Output {
        call(arguments, &self.server(how))
    }

    /// The envelope of a call.
    fn envelope(&self, how: &str, arguments: &[&str]) -> Value {
        envelope(&self.call(how, &[arguments, &["--structured"]].concat()))
    }
}

/// Runs `mcpinspect call`.
fn mcpinspect(arguments: &[&str]) -> Command {
    let mut command = Command::new(built("mcpinspect"));
    command.arg("call").args(arguments).stdin(Stdio::null());
    command
}

fn call(arguments: &[&str], server: &[String]) -> Output {
    let mut command = mcpinspect(arguments);
    command.arg("--").args(server).output().unwrap()
}

/// The JSON that it printed.
fn envelope(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn lists_have_all_their_pages() {
    let workspace = Workspace::new();
    let output = workspace.call("legacy", &["tools/list"]);
    let listed = envelope(&output);
    assert_eq!(listed["tools"].as_array().unwrap().len(), 4);
    assert!(listed.get("nextCursor").is_none());
    let output = workspace.call("legacy", &["tools/list", "--params", r#"{"cursor": "2"}"#]);
    assert_eq!(envelope(&output)["tools"].as_array().unwrap().len(), 2);
}

#[test]
fn a_request_is_repeated_and_timed() {
    let workspace = Workspace::new();
    let repeated = [
        "tools/call",
        "--tool",
        "show",
        "--arg",
        "a=1",
        "--repeat",
        "50",
        "--concurrency",
        "8",
    ];
    let response = workspace.envelope("legacy", &repeated);
    let result = &response["result"];
    assert_eq!(
        (&result["answers"], &result["failures"]),
        (&json!(50), &json!(0)),
        "{response}"
    );
    let [min, p50, max] =
        ["min", "p50", "max"].map(|name| result["latencyMs"][name].as_f64().unwrap());
    assert!(0.0 < min && min <= p50 && p50 <= max, "{result}");
    let table = workspace.call("legacy", &repeated);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.starts_with("50 answers, 0 failures, "), "{table}");
    assert_eq!(table.lines().count(), 7);
    let response = workspace.envelope("legacy", &["x/y", "--repeat", "3"]);
    assert_eq!(
        (
            &response["result"]["failures"],
            &response["error"]["category"]
        ),
        (&json!(3), &json!("protocol"))
    );
}

#[test]
fn a_server_is_started_by_its_name_in_a_configuration() {
    let workspace = Workspace::new();
    let [program, script, how] = workspace.server("legacy").try_into().unwrap();
    let servers = json!({"mcpServers": {"little": {"command": program, "args": [script, how], "env": {"CALLED": "${CALLER}"}}}});
    workspace.write(".mcp.json", &servers.to_string());
    let ask = |name: &str| {
        Command::new(built("mcpinspect"))
            .args(["call", "tools/call", name, "--tool", "show", "--arg", "a=1"])
            .current_dir(workspace.path("."))
            .env("HOME", "/nonexistent")
            .env("CALLER", "by name")
            .output()
            .unwrap()
    };
    let output = ask("little");
    assert_eq!(
        envelope(&output)["structuredContent"]["env"],
        "by name",
        "{output:?}"
    );
    assert_eq!(ask("claude-code:little").status.code(), Some(0));
    let output = ask("unknown");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("no client configuration has a server `unknown`")
    );
}
