//! A client on the Rust SDK: `rmcp_client CALLS SERVER ARGUMENT…`, where CALLS is a file with
//! `[[TOOL, ARGUMENTS], …]`. KEEP_OPEN_MS is how long it stays before it ends the session.

#[path = "shared/logged.rs"]
mod logged;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use logged::{Logged, open_log};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use serde_json::{Map, Value};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let calls = arguments.next().context("no calls given")?;
    let calls: Vec<(String, Map<String, Value>)> =
        serde_json::from_str(&std::fs::read_to_string(calls)?)?;
    let mut server = tokio::process::Command::new(arguments.next().context("no server given")?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let log = open_log("client")?;
    let input = server.stdout.take().context("the server's output")?;
    let output = server.stdin.take().context("the server's input")?;
    let wire = (Logged::new(input, &log), Logged::new(output, &log));
    let client = ().serve(wire).await?;
    client.list_all_tools().await?;
    for (name, parameters) in calls {
        let call = CallToolRequestParams::new(name).with_arguments(parameters);
        client.call_tool(call).await?;
    }
    client.list_all_tools().await?;
    if let Ok(milliseconds) = std::env::var("KEEP_OPEN_MS") {
        tokio::time::sleep(Duration::from_millis(milliseconds.parse()?)).await;
    }
    client.cancel().await?;
    server.wait().await?;
    Ok(())
}
