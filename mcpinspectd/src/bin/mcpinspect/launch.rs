//! Starts an MCP server, lists its tools, prompts and resources, and stops it.
//!
//! Speaks both eras of the protocol: `server/discover` first, then `initialize` on the same pipe if
//! the answer is an error or does not come. The server is untrusted: its output is bounded, its
//! requests are declined, the number of pages is limited, and at the end its whole process group is
//! killed.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use mcpinspectd::detect::json::Json;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Longest line that a server may send.
const LINE_LIMIT: u64 = 16 * 1024 * 1024;
/// Maximum number of pages of one list.
const PAGES: usize = 200;
/// How long to wait for an answer to `server/discover` before trying the older handshake.
const DISCOVERY: Duration = Duration::from_secs(3);
/// How long a server may take to exit after its input was closed, and after each signal.
const EXIT_GRACE: Duration = Duration::from_millis(500);
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
    let (program, arguments) = command.split_first().context("no command given")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let mut process = ServerProcess::new(child, Instant::now() + timeout)?;
    let listing = process.list(program);
    process.stop();
    listing
}

struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    deadline: Instant,
    next_id: u64,
    stateless: bool,
}

impl ServerProcess {
    fn new(mut child: Child, deadline: Instant) -> anyhow::Result<Self> {
        let input = child.stdin.take();
        let output = child.stdout.take().context("the server has no output")?;
        let (sender, lines) = sync_channel(64);
        std::thread::spawn(move || {
            let mut reader = BufReader::new(output);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut reader).take(LINE_LIMIT).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
                // Some servers print banners: skip lines that are not JSON.
                if let Ok(message) = serde_json::from_slice::<&RawValue>(&line)
                    && sender.send(Json::from_raw(message).into()).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            input,
            lines,
            deadline,
            next_id: 1,
            stateless: false,
        })
    }

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
        let id = self.send("server/discover", json!({}))?;
        let patience = (Instant::now() + DISCOVERY).min(self.deadline);
        if let Some(answer) = self.answer(id, patience)?
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
        let Some(answer) = self.answer(id, self.deadline)? else {
            bail!("the server did not answer `initialize` in time")
        };
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
            let Some(answer) = self.answer(id, self.deadline)? else {
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
        let input = self
            .input
            .as_mut()
            .context("the server's input is closed")?;
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        input
            .write_all(&line)
            .and_then(|()| input.flush())
            .context("the server closed its input")
    }

    /// Waits for the answer to request `id`; returns `None` if it has not come by `until`. Declines
    /// requests that the server sends in the meantime.
    fn answer(&mut self, id: u64, until: Instant) -> anyhow::Result<Option<Value>> {
        loop {
            let patience = until.saturating_duration_since(Instant::now());
            let message = match self.lines.recv_timeout(patience) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.try_wait().ok().flatten();
                    match status {
                        Some(status) => bail!("the server ended ({status}) before it answered"),
                        None => bail!("the server closed its output before it answered"),
                    }
                }
            };
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
                (None, Some(answered)) if answered.as_u64() == Some(id) => {
                    return Ok(Some(message));
                }
                _ => {}
            }
        }
    }

    /// Closes the server's input, and kills its process group if that is not enough.
    fn stop(&mut self) {
        drop(self.input.take());
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
            if let Some(signal) = signal {
                // Fails if the group is gone already, which is the goal.
                let _ = killpg(group, signal);
            }
            let until = Instant::now() + EXIT_GRACE;
            while Instant::now() < until {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    // The leader is gone; helpers that it started may not be.
                    let _ = killpg(group, Signal::SIGKILL);
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let _ = self.child.wait();
    }
}
