//! Starts an MCP server, lists its tools, prompts and resources, and stops it.
//!
//! The server is untrusted: its requests are declined, and it is told that none would be answered.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use mcpinspect_core::text::escape::printable;
use serde_json::{Map, Value, json};

use crate::connection::{Connection, Patience, Settings, tree};
use crate::era::Offer;
use crate::failure::Failure;
use crate::replies::Replies;

use crate::server_process::{ServerProcess, Start};

/// A server's tools, prompts and resources.
pub struct Listing {
    /// Its name: the one it reports, or else the command's.
    pub server: String,
    /// Its responses to the handshake and to the list requests.
    pub messages: Vec<Value>,
}

/// Starts `command`, lists what it offers within `timeout`, and stops it.
pub fn list(command: &[String], timeout: Duration) -> anyhow::Result<Listing> {
    let program = command.first().context("no command given")?;
    let mut server = ServerProcess::start(&Start {
        command: command.to_vec(),
        ..Start::default()
    })?;
    let settings = Settings {
        patience: Patience::All(timeout),
        capabilities: json!({}),
        log_level: None,
        progress: false,
        replies: Replies::default(),
    };
    let listing = offered(&mut Connection::new(&mut server, settings), program);
    server.stop();
    listing.map_err(|failure| anyhow!("{}", printable(&failure.message, 500)))
}

fn offered(connection: &mut Connection<'_>, program: &str) -> Result<Listing, Failure> {
    let greeting = connection.greet(Offer::Either)?;
    let name = greeting.server_info().get("name").and_then(Value::as_str);
    let server = name.unwrap_or(program).to_owned();
    let response = |result: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    let mut messages = vec![response(greeting.result.clone())];
    for (capability, method) in [
        ("tools", "tools/list"),
        ("prompts", "prompts/list"),
        ("resources", "resources/list"),
        ("resources", "resources/templates/list"),
    ] {
        if greeting.capabilities().get(capability).is_none() {
            continue;
        }
        let mut pages = Vec::new();
        let listed = connection.pages(method, &Map::new(), &mut pages);
        messages.extend(pages.iter().map(|page| response(tree(page))));
        // What it does not know, it does not have.
        listed.or_else(|failure| match failure.is_refusal() {
            true => Ok(()),
            false => Err(failure),
        })?;
    }
    Ok(Listing { server, messages })
}
