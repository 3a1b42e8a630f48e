//! What was really on the wire: the kernel's view of the session, beside this program's own.
//!
//! What a client wrote to a pipe and read from it is not what happened: a launcher may have changed it, a
//! second process may have written to it. `mcpinspectd tap` sees the calls of both ends. It is a separate
//! program, which gives up its privileges once the probes are attached, so it is started beside the call and
//! shows only sessions of this process. It is ready before the server is started, so it misses nothing.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use mcpinspect_core::text::escape::printable;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use serde::Serialize;
use serde_json::Value;

/// The program that watches.
const PROGRAM: &str = "mcpinspectd";

/// How long the probes may take to attach.
const READY: Duration = Duration::from_secs(30);

/// How long captured data may take to be shown.
const DRAIN: Duration = Duration::from_secs(30);

/// Most lines of the tap to keep, and most bytes of them.
const MAX_LINES: usize = 10_000;
const MAX_BYTES: usize = 32 << 20;

/// Longest quotation of why the tap failed, in characters.
const QUOTED: usize = 500;

/// What the kernel saw. Lines are those of `mcpinspectd tap --format jsonl --raw`.
#[derive(Debug, Default, Serialize)]
pub struct CapturedTraffic {
    /// Frames, in the order of the wire.
    messages: Vec<Value>,
    /// Lost bytes, blind spots and tampering.
    events: Vec<Value>,
    /// How long each request took, from its last byte to that of its answer.
    calls: Vec<Call>,
    /// The ledger: what was written, read, captured and lost.
    streams: Value,
    /// Lines that were too many to keep.
    dropped: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    direction: Value,
    id: Value,
    method: Value,
    duration_ms: f64,
}

/// A tap running beside a call.
pub struct Tap {
    child: Child,
    reader: JoinHandle<CapturedTraffic>,
    /// Disconnected once the tap has ended.
    ended: Receiver<()>,
}

impl Tap {
    /// Starts it, and waits until nothing can be missed any more.
    ///
    /// # Errors
    /// In words: only root may, or the probes cannot be loaded.
    pub fn start() -> anyhow::Result<Self> {
        ensure!(
            Uid::effective().is_root(),
            "`--wire` requires root: run this with sudo"
        );
        let own = std::process::id().to_string();
        let mut child = Command::new(program())
            .args(["tap", "--format", "jsonl", "--raw", "--pid", &own])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("`--wire` requires the program {PROGRAM}"))?;
        let stdout = child.stdout.take().context("the tap has no output")?;
        let (sender, ready) = channel();
        let reader = std::thread::spawn(move || {
            read(stdout, || {
                // The waiting side may have given up.
                let _ = sender.send(());
            })
        });
        match ready.recv_timeout(READY) {
            Ok(()) => Ok(Self {
                child,
                reader,
                ended: ready,
            }),
            Err(why) => {
                // It may have ended on its own.
                let _ = child.kill();
                let mut words = String::new();
                if let Some(stderr) = child.stderr.take() {
                    let _ = stderr.take(1 << 16).read_to_string(&mut words);
                }
                let _ = child.wait();
                let words = printable(words.trim(), QUOTED);
                match why {
                    RecvTimeoutError::Timeout => {
                        bail!("`--wire`: the probes were not attached in time: {words}")
                    }
                    RecvTimeoutError::Disconnected => {
                        bail!("`--wire`: the probes cannot be used: {words}")
                    }
                }
            }
        }
    }

    /// Ends it, and returns what it saw.
    pub fn finish(mut self) -> CapturedTraffic {
        let pid = i32::try_from(self.child.id()).map(Pid::from_raw);
        if let Ok(pid) = pid {
            // Fails if it has already ended, and then there is nothing to end.
            let _ = kill(pid, Signal::SIGINT);
        }
        if self.ended.recv_timeout(DRAIN) == Err(RecvTimeoutError::Timeout) {
            let _ = self.child.kill();
        }
        let wire = self.reader.join().unwrap_or_default();
        let _ = self.child.wait();
        wire
    }
}

/// The program installed with this one, or else the one in the path.
fn program() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.map(|own| own.with_file_name(PROGRAM));
    beside
        .filter(|program| program.is_file())
        .unwrap_or_else(|| PROGRAM.into())
}

/// Reads the lines of a tap to their end. `ready` is called when the probes are attached.
fn read(stdout: ChildStdout, ready: impl FnOnce()) -> CapturedTraffic {
    let mut ready = Some(ready);
    let mut wire = CapturedTraffic::default();
    let mut open = HashMap::new();
    let mut bytes = 0;
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        match value.get("type").and_then(Value::as_str) {
            Some("tap_ready") => {
                if let Some(ready) = ready.take() {
                    ready();
                }
            }
            Some("tap_summary") => {
                wire.streams = value.get("streams").cloned().unwrap_or_default();
            }
            kind => {
                let is_message = kind == Some("mcp_message");
                if is_message {
                    wire.calls.extend(call(&mut open, &value));
                }
                bytes += line.len();
                let list = match is_message {
                    true => &mut wire.messages,
                    false => &mut wire.events,
                };
                match list.len() < MAX_LINES && bytes <= MAX_BYTES {
                    true => list.push(value),
                    false => wire.dropped += 1,
                }
            }
        }
    }
    wire
}

/// The request that this message answers, with the time in between. Requests are remembered in `open`.
fn call(open: &mut HashMap<(String, String), (Timestamp, Value)>, message: &Value) -> Option<Call> {
    let member = |name: &str| message.get(name).cloned().unwrap_or_default();
    let (id, direction) = (member("id"), member("direction"));
    let time: Timestamp = member("timestamp").as_str()?.parse().ok()?;
    match member("kind").as_str()? {
        "request" if open.len() < MAX_LINES => {
            let key = (direction.to_string(), id.to_string());
            open.insert(key, (time, member("method")));
            None
        }
        "response" => {
            let request_direction = match direction.as_str()? {
                "server_to_client" => "client_to_server",
                _ => "server_to_client",
            };
            let request_direction = Value::from(request_direction);
            let (sent, method) = open.remove(&(request_direction.to_string(), id.to_string()))?;
            Some(Call {
                direction: request_direction,
                id,
                method,
                duration_ms: time.duration_since(sent).as_micros() as f64 / 1e3,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_timed_from_its_request_to_its_answer() {
        let mut open = HashMap::new();
        let mut line = |kind: &str, direction: &str, second: &str, id: Value| {
            let time = format!("2026-01-31T08:53:{second}Z");
            let message = json!({"kind": kind, "direction": direction, "timestamp": time, "id": id, "method": "x"});
            call(&mut open, &message)
        };
        assert!(line("request", "client_to_server", "20.000100", json!(1)).is_none());
        assert!(line("request", "server_to_client", "20.5", json!(1)).is_none());
        assert!(line("response", "server_to_client", "20.6", json!("1")).is_none());
        let timed = line("response", "server_to_client", "21.000350", json!(1)).unwrap();
        assert_eq!((timed.method, timed.duration_ms), (json!("x"), 1000.25));
        assert!(line("response", "server_to_client", "22.0", json!(1)).is_none());
        assert!(line("response", "client_to_server", "22.0", json!(1)).is_some());
    }
}
