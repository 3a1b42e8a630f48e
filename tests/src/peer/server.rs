//! The server: answers whatever it can make sense of until its input ends.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::handover::{self, Adoption, Method};
use super::link::{IoOptions, Link};
use super::messages;
use crate::wirelog::WireLog;

/// The server's command line.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerOptions {
    #[command(flatten)]
    io: IoOptions,
    /// Lines to write before anything is read.
    #[arg(long)]
    banner: Option<PathBuf>,
    /// Sends a notification before anything is read.
    #[arg(long)]
    greet: bool,
    /// Moves the wire to high descriptors and closes 0 and 1.
    #[arg(long)]
    dup_high: bool,
    /// Executes itself anew after this many messages, in the middle of the session.
    #[arg(long)]
    reexec_after: Option<u64>,
    /// Lets another process serve.
    #[arg(long, value_enum)]
    hand_over: Option<Method>,
    /// Serves what another process hands over (set by `--hand-over`).
    #[arg(long, hide = true)]
    adopt: Option<Adoption>,
    /// File with the tool definitions, read again at each `tools/list`.
    #[arg(long)]
    tools: Option<PathBuf>,
    /// Knows `server/discover`.
    #[arg(long)]
    stateless: bool,
    /// Name to give as its own.
    #[arg(long, default_value = "oddpeer")]
    name: String,
    /// Stays after the end of its input, with its output open.
    #[arg(long)]
    linger: bool,
}

/// Serves one session.
pub fn run(options: ServerOptions) -> Result<()> {
    if let Some(method) = options.hand_over {
        return handover::give(method);
    }
    let (input, output) = match options.adopt {
        Some(adoption) => handover::take(adoption).context("taking over")?,
        None => standard_streams(),
    };
    let (input, output) = if options.dup_high {
        let high = handover::move_high(input, output)?;
        handover::occupy_standard_streams()?;
        high
    } else {
        (input, output)
    };
    let log = WireLog::open("server").context("the wire log")?;
    let mut server = Server {
        link: Link::new(input, output, options.io.clone(), log)?,
        options,
        received: 0,
    };
    server.serve()
}

fn standard_streams() -> (OwnedFd, OwnedFd) {
    // SAFETY: a started program owns its standard streams, and nothing else here uses them.
    unsafe { (OwnedFd::from_raw_fd(0), OwnedFd::from_raw_fd(1)) }
}

struct Server {
    link: Link,
    options: ServerOptions,
    received: u64,
}

impl Server {
    fn serve(&mut self) -> Result<()> {
        if let Some(banner) = &self.options.banner {
            self.link.send(&std::fs::read(banner)?)?;
        }
        if self.options.greet {
            self.link.send_line(&messages::notification(0, 0))?;
        }
        while let Some(line) = self.link.receive_line()? {
            self.received += 1;
            self.line(&line)?;
            let due = self.options.reexec_after == Some(self.received);
            if due && !self.link.has_unread() {
                return handover::execute_anew();
            }
        }
        if self.options.linger {
            loop {
                std::thread::park();
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        match serde_json::from_slice::<Value>(line) {
            Ok(Value::Array(parts)) => {
                let answers: Vec<Value> = parts
                    .iter()
                    .filter_map(|part| self.answer(part).transpose())
                    .map(|answer| Ok(serde_json::from_slice(&answer?)?))
                    .collect::<Result<_>>()?;
                if !answers.is_empty() {
                    self.link
                        .send_line(Value::from(answers).to_string().as_bytes())?;
                }
            }
            Ok(message) => {
                if let Some(answer) = self.answer(&message)? {
                    self.link.send_line(&answer)?;
                }
            }
            // Not ours to judge: the client may send junk to see what an observer makes of it.
            Err(_) => {}
        }
        Ok(())
    }

    /// The line that answers a request.
    fn answer(&mut self, message: &Value) -> Result<Option<Vec<u8>>> {
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else {
            return Ok(None);
        };
        let me = json!({"name": self.options.name, "version": "1.0.0"});
        let result = match method {
            "initialize" => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": true}, "logging": {}},
                "serverInfo": me,
            }),
            "server/discover" if self.options.stateless => json!({
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": me},
            }),
            "ping" => json!({}),
            "tools/list" => json!({"tools": self.tools()?}),
            "tools/call" => {
                let arguments = &message["params"]["arguments"];
                let size = number(&arguments["size"]);
                match message["params"]["name"].as_str() {
                    Some("echo") => return Ok(Some(messages::echo_response(id, size))),
                    Some("never") => return Ok(None),
                    Some("emit") => {
                        let file = arguments["file"].as_str().context("emit what?")?;
                        self.link.send(&std::fs::read(file)?)?;
                    }
                    Some("seep") => {
                        let file = arguments["file"].as_str().context("seep what?")?;
                        for piece in std::fs::read(file)?.chunks(256 << 10) {
                            self.link.send(piece)?;
                            std::thread::sleep(std::time::Duration::from_millis(10));
                        }
                    }
                    Some("junk") => self.link.send_line(&messages::junk(size))?,
                    Some("burst") => {
                        for n in 0..number(&arguments["count"]) {
                            let line = messages::notification(n as u64, size);
                            self.link.send_line(&line)?;
                        }
                    }
                    Some("trail") => {
                        let file = arguments["file"].as_str().context("trail what?")?;
                        let line = messages::echo_response(id, 0);
                        self.link.send_line(&line)?;
                        self.link.send(&std::fs::read(file)?)?;
                        return Ok(None);
                    }
                    Some("ask") => self.ask()?,
                    _ => {}
                }
                json!({"content": [{"type": "text", "text": "done"}], "isError": false})
            }
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                let line = json!({"jsonrpc": "2.0", "id": id, "error": error});
                return Ok(Some(line.to_string().into_bytes()));
            }
        };
        // The TypeScript SDK's order: the result first, the id last.
        let line = format!(r#"{{"result":{result},"jsonrpc":"2.0","id":{id}}}"#);
        Ok(Some(line.into_bytes()))
    }

    fn tools(&self) -> Result<Value> {
        if let Some(file) = &self.options.tools {
            let text = std::fs::read_to_string(file).context("the tool definitions")?;
            return Ok(serde_json::from_str(&text)?);
        }
        Ok(json!([{
            "name": "echo",
            "description": "Returns text of the size asked for.",
            "inputSchema": {"type": "object", "properties": {"size": {"type": "integer"}}},
        }]))
    }

    /// A request from the server, with an id that the client uses too.
    fn ask(&mut self) -> Result<()> {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params":
            {"maxTokens": 1, "messages": [{"role": "user", "content": {"type": "text", "text": "ok?"}}]}});
        self.link.send_line(line.to_string().as_bytes())?;
        let answer = self.link.receive_line()?;
        self.received += 1;
        answer
            .map(|_| ())
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }
}

fn number(value: &Value) -> usize {
    value
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(0)
}
