//! What a call of a tool costs: alone, with the daemon, and with what people would use instead.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use mcpinspect_tests::peer::calls::{ReadCall, WriteCall};
use mcpinspect_tests::peer::link::{IoOptions, Link};
use mcpinspect_tests::peer::messages::padding;
use mcpinspect_tests::places;
use mcpinspect_tests::wirelog::WireLog;
use serde_json::{Value, json};

use super::Watching;
use super::stats::{Samples, grouped, head, row};

/// In between client and server, or beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Observer {
    Nobody,
    Daemon,
    Proxy,
    Strace,
}

const OBSERVERS: [(&str, Observer); 4] = [
    ("nobody", Observer::Nobody),
    ("mcpinspectd", Observer::Daemon),
    ("stdio proxy (copies to a file)", Observer::Proxy),
    ("strace -f -e trace=read,write -s 1048576", Observer::Strace),
];

/// A client that measures.
struct Client {
    link: Link,
    server: Child,
    next_id: u64,
}

impl Client {
    fn start(server: &[OsString], observer: Observer, scratch: &std::path::Path) -> Result<Self> {
        let mut command: Vec<OsString> = Vec::new();
        match observer {
            Observer::Nobody | Observer::Daemon => {}
            Observer::Proxy => {
                command.push(places::program("stdio_proxy")?.into());
                command.push(scratch.join("proxy").into());
            }
            Observer::Strace => {
                let arguments = [
                    "strace",
                    "-f",
                    "-e",
                    "trace=read,write",
                    "-s",
                    "1048576",
                    "-o",
                ];
                command.extend(arguments.map(Into::into));
                command.push(scratch.join("strace").into());
            }
        }
        command.extend_from_slice(server);
        let mut server = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", command[0].display()))?;
        let input = OwnedFd::from(server.stdout.take().context("the server's output")?);
        let output = OwnedFd::from(server.stdin.take().context("the server's input")?);
        let options = IoOptions {
            read: ReadCall::Read,
            write: WriteCall::Write,
            pieces: 1,
            fragment: usize::MAX,
            buffer: 65_536,
            nonblocking: false,
            peek: false,
            threads: false,
        };
        let link = Link::new(input, output, options, WireLog::open("client")?)?;
        let mut client = Self {
            link,
            server,
            next_id: 0,
        };
        client.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "cost", "version": "1"}}),
        )?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        client.link.send_line(done.to_string().as_bytes())?;
        Ok(client)
    }

    fn request(&mut self, method: &str, params: Value) -> Result<()> {
        self.next_id += 1;
        let id = self.next_id;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(id, line.to_string().as_bytes())
    }

    /// Sends a line and reads up to the answer with this id.
    fn send(&mut self, id: u64, line: &[u8]) -> Result<()> {
        self.link.send_line(line)?;
        loop {
            let line = self.link.receive_line()?.context("the server is gone")?;
            let message: Value = serde_json::from_slice(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "the call failed: {message}");
                return Ok(());
            }
        }
    }

    /// Microseconds of each of `count` calls.
    fn time(&mut self, count: usize) -> Result<Vec<f64>> {
        let message = padding(200);
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            self.next_id += 1;
            let id = self.next_id;
            let line = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                "params": {"name": "echo", "arguments": {"message": message, "size": 300}}});
            let line = line.to_string();
            let begun = Instant::now();
            self.send(id, line.as_bytes())?;
            times.push(begun.elapsed().as_nanos() as f64 / 1000.0);
        }
        Ok(times)
    }

    fn end(mut self) -> Result<()> {
        self.link.finish()?;
        self.server.wait()?;
        Ok(())
    }
}

/// Measures all servers under all observers in turn, and prints the tables.
pub fn measure(rounds: usize) -> Result<()> {
    let everything = places::node_directory()?
        .join("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    let python = places::script("python/echo.py")?;
    let servers: [(&str, Vec<OsString>, usize); 3] = [
        (
            "server-everything (TypeScript SDK)",
            vec!["node".into(), everything.into()],
            300,
        ),
        (
            "echo server (Python SDK)",
            vec![places::python()?.into(), python.into()],
            300,
        ),
        (
            "bare ping-pong (no SDK)",
            vec![places::program("oddpeer")?.into(), "server".into()],
            3000,
        ),
    ];
    for (name, server, count) in servers {
        let mut samples = vec![Samples::default(); OBSERVERS.len()];
        for _ in 0..rounds {
            for ((_, observer), samples) in OBSERVERS.iter().zip(&mut samples) {
                let scratch = tempfile::tempdir()?;
                let daemon = (*observer == Observer::Daemon)
                    .then(Watching::start)
                    .transpose()?;
                let mut client = Client::start(&server, *observer, scratch.path())?;
                // Compilers and caches warm up first.
                client.time(count / 3)?;
                samples.extend(client.time(count)?);
                client.end()?;
                drop(daemon);
            }
        }
        table(name, &samples);
    }
    Ok(())
}

fn table(name: &str, samples: &[Samples]) {
    println!("`echo` call of 300 B, {name}: microseconds\n");
    head(&[
        "who watches",
        "minimum",
        "median",
        "p99",
        "median, relative",
    ]);
    let alone = samples[0].median();
    for ((observer, _), samples) in OBSERVERS.iter().zip(samples) {
        row(&[
            (*observer).to_owned(),
            grouped(samples.minimum()),
            grouped(samples.median()),
            grouped(samples.quantile(0.99)),
            format!("{:.2}×", samples.median() / alone),
        ]);
    }
    println!();
}
