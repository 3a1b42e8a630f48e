//! The client: starts a server over the requested kind of stream and follows a plan.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::OFlag;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::stat::Mode;
use serde_json::{Value, json};

use super::link::{IoOptions, Link};
use super::messages;
use super::plan::{Plan, Step};
use crate::wirelog::WireLog;

/// What connects client and server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// Two pipes.
    Pipe,
    /// Two socket pairs, one a direction, as Node and Bun make them.
    Socketpairs,
    /// One socket pair for both directions.
    Socketpair,
    /// Two named pipes.
    Fifo,
}

/// The client's command line.
#[derive(Clone, Debug, clap::Args)]
pub struct ClientOptions {
    #[command(flatten)]
    io: IoOptions,
    /// What connects client and server.
    #[arg(long, value_enum, default_value = "pipe")]
    transport: Transport,
    /// What to do.
    #[arg(long)]
    plan: Plan,
    /// Moves the ends to high descriptors and closes everything in between.
    #[arg(long)]
    dup_high: bool,
    /// The server's command line.
    #[arg(last = true, required = true)]
    server: Vec<OsString>,
}

/// Holds one session.
pub fn run(options: ClientOptions) -> Result<()> {
    let (mut input, mut output, mut child) = start(options.transport, &options.server)?;
    if options.dup_high {
        (input, output) = super::handover::move_high(input, output)?;
    }
    let log = WireLog::open("client").context("the wire log")?;
    let mut client = Client {
        link: Link::new(input, output, options.io, log)?,
        next_id: 1,
        stateless: false,
    };
    for step in &options.plan.0 {
        client.step(step).with_context(|| format!("{step:?}"))?;
    }
    client.link.finish()?;
    let status = child.wait()?;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

fn start(transport: Transport, server: &[OsString]) -> Result<(OwnedFd, OwnedFd, Child)> {
    let (ours_in, theirs_out, theirs_in, ours_out) = match transport {
        Transport::Pipe => {
            let (client_in, server_out) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
            let (server_in, client_out) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
            (client_in, server_out, server_in, client_out)
        }
        Transport::Socketpairs => {
            let (client_in, server_out) = socket_pair()?;
            let (server_in, client_out) = socket_pair()?;
            (client_in, server_out, server_in, client_out)
        }
        Transport::Socketpair => {
            let (client, server) = socket_pair()?;
            (client.try_clone()?, server.try_clone()?, server, client)
        }
        Transport::Fifo => {
            let directory = tempfile::tempdir()?;
            let (client_in, server_out) = fifo(&directory.path().join("out"))?;
            let (server_in, client_out) = fifo(&directory.path().join("in"))?;
            (client_in, server_out, server_in, client_out)
        }
    };
    let (program, arguments) = server.split_first().context("no server given")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(theirs_in))
        .stdout(Stdio::from(theirs_out))
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    Ok((ours_in, ours_out, child))
}

fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC;
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        flags,
    )?)
}

/// A named pipe's reading and writing end, each with its own open file.
fn fifo(path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    nix::unistd::mkfifo(path, Mode::S_IRUSR | Mode::S_IWUSR)?;
    // A reader that does not wait lets the writer open, and then becomes an ordinary blocking one.
    let reader = std::fs::File::options()
        .read(true)
        .custom_flags_nonblocking()
        .open(path)?;
    let writer = std::fs::File::options().write(true).open(path)?;
    nix::fcntl::fcntl(
        reader.as_fd(),
        nix::fcntl::FcntlArg::F_SETFL(OFlag::empty()),
    )?;
    Ok((reader.into(), writer.into()))
}

/// `open` options that do not wait for the other end.
trait NonBlockingOpen {
    fn custom_flags_nonblocking(&mut self) -> &mut Self;
}

impl NonBlockingOpen for std::fs::OpenOptions {
    fn custom_flags_nonblocking(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        self.custom_flags(OFlag::O_NONBLOCK.bits())
    }
}

struct Client {
    link: Link,
    next_id: u64,
    stateless: bool,
}

impl Client {
    fn step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Handshake(revision) => self.handshake(revision)?,
            Step::List => {
                self.request("tools/list", json!({}))?;
            }
            Step::Call(size) => self.echo(*size)?,
            Step::Calls(count, size) => {
                for _ in 0..*count {
                    self.echo(*size)?;
                }
            }
            Step::Id(id) => {
                self.link.send_line(&messages::echo_request(id, 0))?;
                self.answer(id)?;
            }
            Step::IdLast => {
                let id = self.id();
                let line = format!(
                    r#"{{"method":"tools/call","params":{{"name":"echo","arguments":{{"id":"no","size":0}}}},"jsonrpc":"2.0","id":{id}}}"#
                );
                self.link.send_line(line.as_bytes())?;
                self.answer(&id)?;
            }
            Step::Flight(count) => {
                let ids: Vec<Value> = (0..*count).map(|_| self.id()).collect();
                for id in &ids {
                    self.link.send_line(&messages::echo_request(id, 0))?;
                }
                self.answers(ids)?;
            }
            Step::Unanswered(count) => {
                for _ in 0..*count {
                    self.send_request("tools/call", json!({"name": "never", "arguments": {}}))?;
                }
            }
            Step::Notify(count, size) => {
                for number in 0..*count {
                    let line = messages::notification(number as u64, *size);
                    self.link.send_line(&line)?;
                }
            }
            Step::Burst(count, size) => {
                self.tool("burst", json!({"count": count, "size": size}))?;
            }
            Step::Batch(count) => {
                let ids: Vec<Value> = (0..*count).map(|_| self.id()).collect();
                let calls: Vec<Value> = ids
                    .iter()
                    .map(|id| serde_json::from_slice(&messages::echo_request(id, 0)))
                    .collect::<Result<_, _>>()?;
                self.link
                    .send_line(Value::from(calls).to_string().as_bytes())?;
                self.answers(ids)?;
            }
            Step::Ask => {
                self.tool("ask", json!({}))?;
            }
            Step::Junk(size) => self.link.send_line(&messages::junk(*size))?,
            Step::EmitJunk(size) => {
                self.tool("junk", json!({"size": size}))?;
            }
            Step::Send(file) => self.link.send(&std::fs::read(file)?)?,
            Step::Emit(file) => {
                self.tool("emit", json!({"file": file}))?;
            }
            Step::Seep(file) => {
                self.tool("seep", json!({"file": file}))?;
            }
            Step::Trail(file) => {
                self.tool("trail", json!({"file": file}))?;
            }
            Step::Mark(file) => std::fs::write(file, "")?,
            Step::Wait(file) => {
                while !file.exists() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Step::Sleep(milliseconds) => {
                std::thread::sleep(Duration::from_millis(*milliseconds));
            }
        }
        Ok(())
    }

    fn handshake(&mut self, revision: &str) -> Result<()> {
        let me = json!({"name": "oddpeer", "version": "1.0.0"});
        if revision == "stateless" || revision == "fallback" {
            self.stateless = true;
            let id = self.send_request("server/discover", json!({}))?;
            let answer = self.answer(&id)?;
            if answer.get("result").is_some() {
                return Ok(());
            }
            self.stateless = false;
        }
        let revision = match revision {
            "fallback" => "2025-11-25",
            "stateless" => bail!("the server does not know server/discover"),
            other => other,
        };
        self.request(
            "initialize",
            json!({"protocolVersion": revision, "capabilities": {"sampling": {}}, "clientInfo": me}),
        )?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.link.send_line(done.to_string().as_bytes())?;
        Ok(())
    }

    fn id(&mut self) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        id.into()
    }

    fn echo(&mut self, size: usize) -> Result<()> {
        let id = self.id();
        self.link.send_line(&messages::echo_request(&id, size))?;
        self.answer(&id)?;
        Ok(())
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Result<Value> {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    fn send_request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        if self.stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "oddpeer", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let id = self.id();
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.link.send_line(line.to_string().as_bytes())?;
        Ok(id)
    }

    fn request(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.send_request(method, params)?;
        let answer = self.answer(&id)?;
        ensure!(answer.get("error").is_none(), "{method} failed: {answer}");
        Ok(answer)
    }

    fn answer(&mut self, id: &Value) -> Result<Value> {
        self.answers(vec![id.clone()])
    }

    /// Reads until each of `ids` is answered, and answers what the server asks meanwhile.
    fn answers(&mut self, ids: Vec<Value>) -> Result<Value> {
        let mut open: HashSet<String> = ids.iter().map(Value::to_string).collect();
        loop {
            let line = self.link.receive_line()?;
            let line = line.with_context(|| format!("the server is gone, {open:?} unanswered"))?;
            let Ok(message) = serde_json::from_slice::<Value>(&line) else {
                continue;
            };
            let parts = match message {
                Value::Array(parts) => parts,
                single => vec![single],
            };
            for part in parts {
                let Some(id) = part.get("id") else { continue };
                if part.get("method").is_some() {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result":
                        {"role": "assistant", "model": "none", "content": {"type": "text", "text": "yes"}}});
                    self.link.send_line(answer.to_string().as_bytes())?;
                } else if open.remove(&id.to_string()) && open.is_empty() {
                    return Ok(part);
                }
            }
        }
    }
}
