//! `mcpinspect call` on the official server that has everything: each method, and what it answers, on each
//! transport that it has.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::listening::Listening;
use mcpinspect_tests::places;
use serde_json::Value;

use crate::http::Server;

/// A method with its options, and a place in the result that says it was understood.
const METHODS: [(&str, &str, &str); 11] = [
    ("discover", "/serverInfo/name", "mcp-servers/everything"),
    ("ping", "", ""),
    ("tools/list", "/tools/0/name", "echo"),
    (
        "tools/call --tool get-sum --arg a=2 --arg b=40",
        "/content/0/text",
        "The sum of 2 and 40 is 42.",
    ),
    ("resources/list", "/resources/0/mimeType", "text/markdown"),
    (
        "resources/read --uri demo://resource/dynamic/text/1",
        "/contents/0/uri",
        "demo://resource/dynamic/text/1",
    ),
    (
        "resources/templates/list",
        "/resourceTemplates/0/mimeType",
        "text/plain",
    ),
    ("prompts/list", "/prompts/0/name", "simple-prompt"),
    (
        "prompts/get --prompt args-prompt --arg city=Paris",
        "/messages/0/content/text",
        "What's weather in Paris?",
    ),
    (
        "completion/complete --prompt completable-prompt --arg department=E",
        "/completion/values/0",
        "Engineering",
    ),
    ("logging/setLevel --level debug", "", ""),
];

fn everything() -> Result<PathBuf> {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    Ok(places::node_directory()?.join(package))
}

fn call(options: &str) -> Result<(Option<i32>, Value)> {
    response(
        Command::new(places::program("mcpinspect")?)
            .args(["call", "--structured"])
            .args(options.split(' '))
            .args(["--", "node"])
            .arg(everything()?),
    )
}

fn response(command: &mut Command) -> Result<(Option<i32>, Value)> {
    let output = command.stdin(Stdio::null()).output()?;
    let response = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), response))
}

/// The server at a URL of this machine.
struct Running {
    _server: Server,
    url: String,
}

impl Running {
    fn start(transport: &str, path: &str) -> Result<Self> {
        let everything = everything()?;
        let server = Server::start(|port| {
            let mut command = Command::new("node");
            command.arg(everything).arg(transport);
            command.env("PORT", port.to_string());
            Ok(command)
        })
        .context(transport.to_owned())?;
        let url = server.url(path);
        Ok(Self {
            _server: server,
            url,
        })
    }

    fn call(&self, options: &str) -> Result<(Option<i32>, Value)> {
        call_at(&self.url, options)
    }
}

fn call_at(url: &str, options: &str) -> Result<(Option<i32>, Value)> {
    response(
        Command::new(places::program("mcpinspect")?)
            .args(["call", "--structured", "--url", url])
            .args(options.split(' ')),
    )
}

/// Holds the answers to each method to what is known of them.
fn each_method(ask: impl Fn(&str) -> Result<(Option<i32>, Value)>) -> Result<()> {
    for (options, pointer, expected) in METHODS {
        let (status, response) = ask(options)?;
        ensure!(
            status == Some(0) && response["success"] == true,
            "{options}: {response}"
        );
        let found = response["result"].pointer(pointer).unwrap_or(&Value::Null);
        ensure!(
            pointer.is_empty() && found.is_object() || *found == expected,
            "{options}: {response}"
        );
    }
    Ok(())
}

#[test]
fn the_everything_server_is_asked_everything() -> Result<()> {
    each_method(call)
}

#[test]
fn the_everything_server_is_asked_everything_over_http() -> Result<()> {
    for (transport, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let running = Running::start(transport, path)?;
        each_method(|options| running.call(options)).context(transport)?;
        for (options, category, code) in [
            ("tools/call --tool get-sum --arg a=2", "validation", 1),
            ("x/y", "protocol", 1),
            ("ping --era modern", "protocol", 1),
        ] {
            let (status, response) = running.call(options)?;
            ensure!(status == Some(code), "{transport} {options}: {response}");
            let found = &response["error"]["category"];
            ensure!(found == category, "{transport} {options}: {response}");
        }
        let (_, response) =
            running.call("tools/call --tool trigger-sampling-request --arg prompt=hi")?;
        ensure!(asked_for_a_sample(&response)?, "{transport}: {response}");
        // It tells something each five seconds.
        let (_, response) =
            running.call("tools/call --tool toggle-simulated-logging --watch 7s")?;
        let logs = response["logs"].as_array().map_or(0, Vec::len);
        ensure!(
            logs > 0 && response["success"] == true,
            "{transport}: {response}"
        );
    }
    Ok(())
}

const POLICY: &str = r#"
[[rule]]
id = "no-environment"
when = { method = "tools/call", tool = "get-env" }
action = "block"
answer = "result"
message = "The environment is private."

[[rule]]
id = "environment-hidden"
when = { tool = "get-env" }
action = "hide"

[[rule]]
id = "no-samples"
when = { method = "sampling/createMessage" }
action = "block"
"#;

#[test]
fn the_everything_server_is_asked_everything_through_a_guard() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.toml");
    for (transport, endpoint) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let server = Running::start(transport, endpoint)?;
        for policy in ["", POLICY] {
            std::fs::write(&path, policy)?;
            let decisions = folder.path().join("decisions");
            let guard = Listening::guard(&server.url, &path, decisions)?;
            let call = |options: &str| call_at(&guard.url, options);
            each_method(call).context(transport)?;
            let (_, response) = call("tools/list")?;
            let is_hidden = !response.to_string().contains("get-env");
            ensure!(is_hidden == (policy == POLICY), "{transport}: {response}");
            let sample = "tools/call --tool trigger-sampling-request --arg prompt=hi";
            let (_, response) = call(sample)?;
            ensure!(
                asked_for_a_sample(&response)? != is_hidden,
                "{transport}: {response}"
            );
            let (_, response) = call("tools/call --tool get-env --unchecked")?;
            let is_blocked = response.to_string().contains("The environment is private.");
            ensure!(is_blocked == is_hidden, "{transport}: {response}");
            let (_, response) = call("tools/call --tool toggle-simulated-logging --watch 7s")?;
            let logs = response["logs"].as_array().map_or(0, Vec::len);
            ensure!(
                logs > 0 && response["success"] == true,
                "{transport}: {response}"
            );
        }
    }
    Ok(())
}

/// What the kernel saw is what this side said and heard, and nothing is missing.
#[test]
fn the_wire_is_what_the_kernel_saw() -> Result<()> {
    let (status, response) = call("tools/call --wire --tool echo --arg message=hi")?;
    ensure!(status == Some(0), "{response}");
    let wire = &response["wire"];
    let messages = wire["messages"].as_array().context("no messages")?;
    let methods: Vec<&str> = messages
        .iter()
        .filter_map(|message| message["method"].as_str())
        .collect();
    for method in [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ] {
        ensure!(methods.contains(&method), "no {method}: {methods:?}");
    }
    let answer = messages.iter().rfind(|message| {
        message["kind"] == "response" && message["direction"] == "server_to_client"
    });
    let raw = answer.and_then(|answer| answer["raw"].as_str());
    let raw: Value = serde_json::from_str(raw.context("no answer")?)?;
    ensure!(raw["result"] == response["result"], "{response}");
    let calls = wire["calls"].as_array().context("no calls")?;
    let call = calls.iter().find(|call| call["method"] == "tools/call");
    let time = call.and_then(|call| call["durationMs"].as_f64());
    let whole = response["durationMs"].as_f64().unwrap_or_default();
    ensure!(
        time.is_some_and(|time| 0.0 < time && time <= whole),
        "{response}"
    );
    let streams = wire["streams"].as_array().context("no ledger")?;
    ensure!(streams.len() == 2, "{wire}");
    ensure!(
        streams.iter().all(|stream| stream["bytes_lost"] == 0),
        "{wire}"
    );
    Ok(())
}

fn asked_for_a_sample(response: &Value) -> Result<bool> {
    let asked = response["serverRequests"]
        .as_array()
        .context("no requests")?;
    let mut methods = asked.iter().map(|request| &request["method"]);
    Ok(methods.any(|method| method == "sampling/createMessage"))
}

#[test]
fn the_everything_server_fails_in_each_way() -> Result<()> {
    for (options, category, code) in [
        ("tools/call --tool get-sum --arg a=2", "validation", 1),
        (
            "tools/call --tool get-sum --arg a=2 --unchecked",
            "application",
            0,
        ),
        ("x/y", "protocol", 1),
        ("ping --era modern", "protocol", 1),
        (
            "tools/call --tool trigger-long-running-operation --arg duration=9 --timeout 1",
            "transport",
            1,
        ),
    ] {
        let (status, response) = call(options)?;
        ensure!(status == Some(code), "{options}: {response}");
        ensure!(
            response["error"]["category"] == category,
            "{options}: {response}"
        );
    }
    Ok(())
}

#[test]
fn the_everything_server_asks_back() -> Result<()> {
    let (_, response) = call("tools/call --tool trigger-sampling-request --arg prompt=hi")?;
    ensure!(asked_for_a_sample(&response)?, "{response}");
    Ok(())
}
