//! A server with its client's ends of the wire, and the client's record of the messages.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mcpinspect_tests::wirelog::{Frame, Way};
use nix::fcntl::OFlag;
use serde_json::{Value, json};

/// Calls after the handshake.
const CALLS: u32 = 8;
/// How long an answer may take: servers start slowly on a busy machine, and some take their time.
const ANSWER: Duration = Duration::from_secs(30);
/// How long a server may take to leave when its client has.
const LEAVE: Duration = Duration::from_secs(20);

/// How the two are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Two pipes.
    Pipes,
    /// Two pipes that keep the borders between writes (`O_DIRECT`).
    Packets,
    /// One socket pair for both directions.
    Socket,
}

/// The messages as the client knows them: without line ends and blank lines.
#[derive(Clone, Debug, Default)]
pub struct SentFrames {
    /// A word that each request and answer has in it, and nobody else's.
    pub marker: String,
    pub to_server: Vec<Frame>,
    pub to_client: Vec<Frame>,
}

/// A server with its client's ends of the wire.
pub struct Server {
    child: Child,
    /// `None` once the client has closed its end.
    output: Option<Box<dyn Write>>,
    /// What the server says, line by line.
    lines: Receiver<Vec<u8>>,
    socket: Option<UnixStream>,
    sent_frames: SentFrames,
}

impl Server {
    /// Starts `command` on a wire. On a socket, `CLIENT_SOCKET` is the number that the client's end has in
    /// the client.
    pub fn start(mut command: Command, wire: Wire) -> Result<Self> {
        if wire == Wire::Socket {
            let (ours, theirs) = UnixStream::pair()?;
            let output: OwnedFd = theirs.try_clone()?.into();
            let child = command
                .env("CLIENT_SOCKET", ours.as_raw_fd().to_string())
                .stdin(OwnedFd::from(theirs))
                .stdout(output)
                .spawn()?;
            // The command holds the server's ends of it.
            drop(command);
            let (output, input) = (ours.try_clone()?, ours.try_clone()?);
            return Ok(Self::of(child, output, input, Some(ours)));
        }
        let flags = match wire {
            Wire::Packets => OFlag::O_CLOEXEC | OFlag::O_DIRECT,
            _ => OFlag::O_CLOEXEC,
        };
        let (its_input, output) = nix::unistd::pipe2(flags)?;
        let (input, its_output) = nix::unistd::pipe2(flags)?;
        let child = command.stdin(its_input).stdout(its_output).spawn()?;
        drop(command);
        let file = std::fs::File::from;
        Ok(Self::of(child, file(output), file(input), None))
    }

    fn of(
        child: Child,
        output: impl Write + 'static,
        input: impl Read + Send + 'static,
        socket: Option<UnixStream>,
    ) -> Self {
        let (say, lines) = channel();
        std::thread::spawn(move || {
            let mut input = BufReader::with_capacity(1 << 16, input);
            loop {
                let mut line = Vec::new();
                let more = matches!(input.read_until(b'\n', &mut line), Ok(1..));
                if !more || say.send(line).is_err() {
                    return;
                }
            }
        });
        let marker = format!("marker-{}-of-{}", child.id(), std::process::id());
        Self {
            child,
            output: Some(Box::new(output)),
            lines,
            socket,
            sent_frames: SentFrames {
                marker,
                ..SentFrames::default()
            },
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let output = self.output.as_mut().context("the client's end is closed")?;
        output.write_all(format!("{line}\n").as_bytes())?;
        self.sent_frames
            .to_server
            .push(Frame::of(Way::Sent, line.as_bytes()));
        Ok(())
    }

    /// Sends a request with this id.
    pub fn request(&mut self, id: u32, method: &str, mut params: Value) -> Result<()> {
        params["_meta"] = json!({"marker": self.sent_frames.marker});
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send(&request.to_string())
    }

    /// Reads lines up to the answer with this id, whatever else the server says.
    pub fn hear(&mut self, id: u32) -> Result<()> {
        let wanted = format!("\"id\":{id},");
        loop {
            let line = self.lines.recv_timeout(ANSWER);
            let mut line = line.with_context(|| format!("no answer to {id}"))?;
            if line.ends_with(b"\n") {
                line.pop();
            }
            let frame = Frame::of(Way::Received, &line);
            if !frame.is_blank() {
                self.sent_frames.to_client.push(frame);
            }
            // In whatever encoding.
            line.retain(|byte| !matches!(byte, 0 | b' '));
            if String::from_utf8_lossy(&line).contains(&wanted) {
                return Ok(());
            }
        }
    }

    /// One call, and its answer.
    pub fn call(&mut self, id: u32) -> Result<()> {
        let arguments = json!({"number": id, "padding": "p".repeat(200)});
        self.request(
            id,
            "tools/call",
            json!({"name": "help", "arguments": arguments}),
        )?;
        self.hear(id)
    }

    /// Greets the server.
    pub fn greet(&mut self) -> Result<()> {
        self.request(
            0,
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "evaded", "version": "1"},
            }),
        )?;
        self.hear(0)?;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }

    /// A whole session. Before its last answer, the client closes what it writes to.
    pub fn talk(&mut self) -> Result<SentFrames> {
        self.greet()?;
        for id in 1..=CALLS {
            self.call(id)?;
        }
        let last = CALLS + 1;
        self.request(last, "tools/call", json!({"name": "last", "arguments": {}}))?;
        self.close()?;
        self.hear(last)?;
        Ok(self.sent_frames.clone())
    }

    /// Closes what the client writes to.
    fn close(&mut self) -> Result<()> {
        self.output = None;
        if let Some(socket) = self.socket.take() {
            // The other one may have left.
            match socket.shutdown(Shutdown::Write) {
                Err(error) if error.kind() != ErrorKind::NotConnected => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The messages so far.
    pub fn sent_frames(&self) -> &SentFrames {
        &self.sent_frames
    }

    /// Ends it.
    pub fn end(mut self) -> Result<()> {
        self.close()?;
        let deadline = Instant::now() + LEAVE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > deadline {
                bail!("it does not end");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test leaves nothing running; after `end` this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
