//! Starts an MCP server, lists its tools, prompts and resources, and stops it.
//!
//! Speaks both eras of the protocol: `server/discover` first, then `initialize` on the same pipe if
//! the answer is an error or does not come. The server is untrusted: its requests are declined and the
//! number of pages is limited; see [`ServerProcess`] for the rest.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mcpinspectd::detect::json::Json;
use mcpinspectd::replay::peer::{Peer as _, Received, Sent};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::server_process::ServerProcess;

/// Maximum number of pages of one list.
const PAGES: usize = 200;
/// How long to wait for an answer to `server/discover` before trying the older handshake.
const DISCOVERY: Duration = Duration::from_secs(3);
/// How long to wait before a line is offered once more to a server that does not read.
const HELD_UP: Duration = Duration::from_millis(20);
/// The protocol revisions to offer, one for each era.
const STATELESS: &str = "2026-07-28";
const STATEFUL: &str = "2025-11-25";

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
    let mut conversation = Conversation {
        server: ServerProcess::start(command)?,
        deadline: Instant::now() + timeout,
        next_id: 1,
        stateless: false,
    };
    let listing = conversation.list(program);
    conversation.server.stop();
    listing
}

struct Conversation {
    server: ServerProcess,
    deadline: Instant,
    next_id: u64,
    stateless: bool,
}

impl Conversation {
    fn list(&mut self, program: &str) -> anyhow::Result<Listing> {
        let greeting = self.handshake()?;
        let result = greeting.get("result").unwrap_or(&Value::Null);
        let meta = result
            .get("_meta")
            .and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
        let info = result.get("serverInfo").or(meta);
        let server = info
            .and_then(|info| info.get("name"))
            .and_then(Value::as_str)
            .unwrap_or(program)
            .to_owned();
        let capabilities = result.get("capabilities").cloned().unwrap_or_default();
        let mut messages = vec![greeting];
        for (capability, method) in [
            ("tools", "tools/list"),
            ("prompts", "prompts/list"),
            ("resources", "resources/list"),
            ("resources", "resources/templates/list"),
        ] {
            if capabilities.get(capability).is_some() {
                self.pages(method, &mut messages)?;
            }
        }
        Ok(Listing { server, messages })
    }

    /// Performs the handshake of the era that the server supports.
    fn handshake(&mut self) -> anyhow::Result<Value> {
        self.stateless = true;
        let discovery = self.send("server/discover", json!({}))?;
        let patience = (Instant::now() + DISCOVERY).min(self.deadline);
        if let Some(answer) = self.answer(&[discovery], patience)?
            && answer.get("result").is_some()
        {
            return Ok(answer);
        }
        self.stateless = false;
        let client = json!({ "name": "mcpinspect", "version": env!("CARGO_PKG_VERSION") });
        let id = self.send(
            "initialize",
            json!({ "protocolVersion": STATEFUL, "capabilities": {}, "clientInfo": client }),
        )?;
        // A slow server may answer the first question after all, and then knows no `initialize`.
        let Some(answer) = self.answer(&[discovery, id], self.deadline)? else {
            bail!("the server did not answer `initialize` in time")
        };
        if answer.get("id").and_then(Value::as_u64) == Some(discovery) {
            if answer.get("result").is_some() {
                self.stateless = true;
                return Ok(answer);
            }
            return self.initialized(id);
        }
        self.accept(answer)
    }

    /// Waits for the answer to `initialize` alone.
    fn initialized(&mut self, id: u64) -> anyhow::Result<Value> {
        let Some(answer) = self.answer(&[id], self.deadline)? else {
            bail!("the server did not answer `initialize` in time")
        };
        self.accept(answer)
    }

    /// Ends the handshake of the stateful era.
    fn accept(&mut self, answer: Value) -> anyhow::Result<Value> {
        if answer.get("result").is_none() {
            bail!(
                "the server refused `initialize`: {}",
                mcpinspectd::text::escape::printable(&answer.to_string(), 300)
            );
        }
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(answer)
    }

    fn pages(&mut self, method: &str, messages: &mut Vec<Value>) -> anyhow::Result<()> {
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor
                .as_ref()
                .map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let id = self.send(method, params)?;
            let Some(answer) = self.answer(&[id], self.deadline)? else {
                bail!("the server did not answer `{method}` in time")
            };
            let next = answer
                .get("result")
                .and_then(|result| result.get("nextCursor"))
                .and_then(Value::as_str)
                .map(str::to_owned);
            // An unknown method counts as an empty list.
            if answer.get("result").is_some() {
                messages.push(answer);
            }
            match next {
                Some(next) if seen.insert(next.clone()) => cursor = Some(next),
                _ => return Ok(()),
            }
        }
        bail!("the server's `{method}` has more than {PAGES} pages")
    }

    fn send(&mut self, method: &str, mut params: Value) -> anyhow::Result<u64> {
        let id = self.next_id;
        self.next_id += 1;
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientInfo": { "name": "mcpinspect", "version": env!("CARGO_PKG_VERSION") },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        Ok(id)
    }

    fn write(&mut self, message: &Value) -> anyhow::Result<()> {
        let line = message.to_string();
        loop {
            match self.server.send(&line) {
                Sent::Queued => return Ok(()),
                Sent::Closed => bail!("the server closed its input"),
                Sent::Full if Instant::now() >= self.deadline => {
                    bail!("the server did not read in time")
                }
                Sent::Full => std::thread::sleep(HELD_UP),
            }
        }
    }

    /// Waits for the answer to one of the requests `ids`; returns `None` if none has come by `until`. Declines
    /// requests that the server sends in the meantime.
    fn answer(&mut self, ids: &[u64], until: Instant) -> anyhow::Result<Option<Value>> {
        loop {
            let patience = until.saturating_duration_since(Instant::now());
            if patience.is_zero() {
                return Ok(None);
            }
            let line = match self.server.receive(patience) {
                Received::Line(line) => line,
                Received::TooLong(_) => continue,
                Received::Nothing => return Ok(None),
                Received::Closed => bail!("{} before it answered", self.server.end()),
            };
            // Some servers print banners: skip lines that are not JSON.
            let Ok(message) = serde_json::from_slice::<&RawValue>(&line) else {
                continue;
            };
            let message: Value = Json::from_raw(message).into();
            match (message.get("method"), message.get("id")) {
                (Some(method), Some(request)) => {
                    let reply = match method.as_str() {
                        Some("ping") => json!({ "jsonrpc": "2.0", "id": request, "result": {} }),
                        _ => {
                            json!({ "jsonrpc": "2.0", "id": request, "error": { "code": -32601, "message": "not offered" } })
                        }
                    };
                    self.write(&reply)?;
                }
                (None, Some(answered)) if answered.as_u64().is_some_and(|id| ids.contains(&id)) => {
                    return Ok(Some(message));
                }
                _ => {}
            }
        }
    }
}
