//! `mcpinspect scan -- COMMAND` on servers that people use: all of their tools are listed and looked
//! at, and none raises an alert.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::places;
use serde_json::Value;

fn package(name: &str) -> Result<OsString> {
    let path = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    Ok(places::node_directory()?.join(path).into())
}

fn scan(command: &[OsString], format: &str) -> Result<Vec<u8>> {
    let output = Command::new(places::program("mcpinspect")?)
        .args(["scan", "--fail-on", "alert", "--format", format, "--"])
        .args(command)
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {errors}");
    Ok(output.stdout)
}

#[test]
fn real_servers_are_scanned() -> Result<()> {
    let python = places::python()?;
    let servers: [(Vec<OsString>, usize); 4] = [
        (vec!["node".into(), package("server-everything")?], 5),
        (
            vec!["node".into(), package("server-filesystem")?, "/tmp".into()],
            5,
        ),
        (vec!["node".into(), package("server-memory")?], 5),
        (
            vec![python.into(), "-m".into(), "mcp_server_time".into()],
            2,
        ),
    ];
    for (command, least) in servers {
        let jsonl = scan(&command, "jsonl")?;
        let outcomes: Vec<Value> = String::from_utf8(jsonl)?
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let tools = outcomes
            .iter()
            .filter(|outcome| outcome["tool_name"].is_string())
            .count();
        ensure!(tools >= least, "{command:?} has {tools} tools");
        let sarif: Value = serde_json::from_slice(&scan(&command, "sarif")?)?;
        ensure!(sarif["version"] == "2.1.0" && sarif["runs"][0]["results"].is_array());
        let human = String::from_utf8(scan(&command, "human")?)?;
        let summary = human.lines().last().context("no summary")?;
        ensure!(summary.contains(" scanned: 0 block, 0 alert,"), "{human}");
    }
    Ok(())
}
