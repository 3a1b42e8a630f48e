//! The public conformance suite of the protocol: `mcpinspect call` as a client, and a server with a guard in
//! front of it. The suite runs on Bun, because it needs a younger Node than some distributions have.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use mcpinspect_tests::listening::Listening;
use mcpinspect_tests::places;
use serde_json::Value;

/// What a client is asked to do, and how.
const CLIENT: [(&str, &str); 4] = [
    ("initialize", "ping"),
    (
        "tools_call",
        "tools/call --tool add_numbers --arg a=5 --arg b=3",
    ),
    (
        "elicitation-sep1034-client-defaults",
        "tools/call --tool test_client_elicitation_defaults --answer ANSWERS",
    ),
    ("sse-retry", "tools/call --tool test_reconnection"),
];

const ANSWERS: &str = r#"{"elicitation/create": {"action": "accept", "content":
    {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": true}}}"#;

/// Asks about every message, and concerns none.
const JUDGES: &str = "[[rule]]\nid = \"none\"\non = [\"request\", \"notification\", \"response\"]\nwhen = { tool = \"never\" }\naction = \"block\"\n";

/// Runs the suite. Gives how each of its checks ended, by scenario.
fn suite(arguments: &[&str]) -> Result<BTreeMap<String, Vec<(String, String)>>> {
    let results = tempfile::tempdir()?;
    let suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let output = Command::new(places::bun()?)
        .arg(places::node_directory()?.join(suite))
        .args(arguments)
        .arg("--output-dir")
        .arg(results.path())
        .stdin(Stdio::null())
        .output()?;
    let stdout = || String::from_utf8_lossy(&output.stdout).into_owned();
    let mut scenarios = BTreeMap::new();
    for entry in std::fs::read_dir(results.path())? {
        let folder = entry?.path();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // The name ends with the time: `-2026-11-25T08-35-01-809Z`.
        let name = name[..name.len().saturating_sub(25)].to_owned();
        scenarios.insert(name, checks(&folder.join("checks.json"))?);
    }
    ensure!(
        !scenarios.is_empty(),
        "{arguments:?} tested nothing: {}",
        stdout()
    );
    Ok(scenarios)
}

fn checks(file: &Path) -> Result<Vec<(String, String)>> {
    let checks: Vec<Value> = serde_json::from_slice(&std::fs::read(file)?)?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let checks = checks.iter();
    let checks = checks.map(|check| (word(&check["id"]), word(&check["status"])));
    Ok(checks.filter(|(_, status)| status != "INFO").collect())
}

#[test]
fn call_is_a_client_as_the_protocol_wants_it() -> Result<()> {
    let files = tempfile::tempdir()?;
    let answers = files.path().join("answers.json");
    std::fs::write(&answers, ANSWERS)?;
    for (scenario, options) in CLIENT {
        let options = options.replace("ANSWERS", &answers.to_string_lossy());
        let program = places::program("mcpinspect")?;
        let command = format!("{} call {options} --url", program.display());
        let results = suite(&["client", "--scenario", scenario, "--command", &command])?;
        let checks: Vec<_> = results.into_values().flatten().collect();
        let all_good = checks.iter().all(|(_, status)| status == "SUCCESS");
        ensure!(all_good && !checks.is_empty(), "{scenario}: {checks:?}");
    }
    Ok(())
}

#[test]
fn a_guarded_server_is_the_server_that_it_was() -> Result<()> {
    let files = tempfile::tempdir()?;
    let script = places::node_directory()?.join("everything-asked.mjs");
    let server = Listening::start(Command::new("node").arg(script))?;
    let alone = suite(&["server", "--suite", "all", "--url", &server.url])?;
    let good = alone.values().flatten();
    let good = good.filter(|(_, status)| status == "SUCCESS").count();
    ensure!(alone.len() >= 30 && good >= 40, "{alone:#?}");
    for (name, policy) in [("empty.toml", ""), ("judges.toml", JUDGES)] {
        let path = files.path().join(name);
        std::fs::write(&path, policy)?;
        let guard = Listening::guard(&server.url, &path, "/dev/null")?;
        let guarded = suite(&["server", "--suite", "all", "--url", &guard.url])?;
        ensure!(guarded == alone, "{name}: {guarded:#?}\nalone: {alone:#?}");
    }
    Ok(())
}
