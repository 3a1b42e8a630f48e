//! `mcpinspect call` on the official server that has everything: each method, and what it answers.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use serde_json::Value;

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

fn call(options: &str) -> Result<(Option<i32>, Value)> {
    let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let output = Command::new(places::program("mcpinspect")?)
        .args(["call", "--structured"])
        .args(options.split(' '))
        .args(["--", "node"])
        .arg(places::node_directory()?.join(package))
        .stdin(Stdio::null())
        .output()?;
    let told = serde_json::from_slice(&output.stdout).with_context(|| format!("{output:?}"))?;
    Ok((output.status.code(), told))
}

#[test]
fn the_everything_server_is_asked_everything() -> Result<()> {
    for (options, place, expected) in METHODS {
        let (status, told) = call(options)?;
        ensure!(
            status == Some(0) && told["success"] == true,
            "{options}: {told}"
        );
        let found = told["result"].pointer(place).unwrap_or(&Value::Null);
        ensure!(
            place.is_empty() && found.is_object() || *found == expected,
            "{options}: {told}"
        );
    }
    Ok(())
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
        let (status, told) = call(options)?;
        ensure!(status == Some(code), "{options}: {told}");
        ensure!(told["error"]["category"] == category, "{options}: {told}");
    }
    Ok(())
}

#[test]
fn the_everything_server_asks_back() -> Result<()> {
    let (_, told) = call("tools/call --tool trigger-sampling-request --arg prompt=hi")?;
    let asked = told["serverRequests"].as_array().context("no requests")?;
    let mut methods = asked.iter().map(|request| &request["method"]);
    ensure!(
        methods.any(|method| method == "sampling/createMessage"),
        "{told}"
    );
    Ok(())
}
