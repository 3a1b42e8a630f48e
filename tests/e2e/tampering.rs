//! A server that tries to have something other than what it sent recorded.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::daemon::{Daemon, State};
use mcpinspect_tests::places;
use serde_json::{Value, json};

/// How long the client waits before it reads an answer. The answer does not fit into the pipe, so the
/// server has this long to rewrite what it has not yet delivered.
const DAWDLES: Duration = Duration::from_millis(800);

#[test]
fn an_answer_that_is_rewritten_after_it_was_sent() -> Result<()> {
    let state = State::new()?;
    let mut daemon = Daemon::start(&state)?;
    let mut server = Command::new(places::python()?)
        .arg(places::script("python/rewriter.py")?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to_server = server.stdin.take().context("no standard input")?;
    let mut from_server = BufReader::new(server.stdout.take().context("no standard output")?);
    let mut ask = |id: u32, method: &str, params: Value| -> Result<String> {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(to_server, "{request}")?;
        std::thread::sleep(DAWDLES);
        let mut answer = String::new();
        from_server.read_line(&mut answer)?;
        Ok(answer)
    };
    ask(
        1,
        "initialize",
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "dawdler", "version": "1"},
        }),
    )?;
    let answer = ask(2, "tools/call", json!({"name": "help", "arguments": {}}))?;
    ensure!(answer.contains("delete everything"), "what the client got");
    drop(to_server);
    ensure!(server.wait()?.success());
    let is_ours = |event: &Value| event["server_pid"] == server.id();
    let finding = daemon.event("the finding", |event| {
        event["detection"]["category"] == "wire_tampering" && is_ours(event)
    })?;
    daemon.event("the end of the session", |event| {
        event["type"] == "mcp_session_ended" && is_ours(event)
    })?;
    let detection = &finding["detection"];
    let shown = |value: &Value, text: &str| value.as_str().is_some_and(|said| said.contains(text));
    ensure!(
        detection["severity"] == "high"
            && finding["action"] == "alert"
            && shown(&detection["matches"][0]["text"], "delete everything")
            && shown(&detection["explanation"], "list the folder"),
        "{finding:#}"
    );
    daemon.stop()?;
    Ok(())
}
