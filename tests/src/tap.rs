//! Runs `mcpinspectd tap` and collects its JSON lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::Value;

use crate::{places, schema};

/// How long the daemon may take to attach.
const READY: Duration = Duration::from_secs(120);
/// How long it may take to drain and end.
const DRAIN: Duration = Duration::from_secs(60);

/// Messages of one tap to check against the schema: floods have hundreds of thousands, all alike.
const CHECKED: usize = 2000;

/// A `mcp_message` line.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the interface's own")]
pub struct Message {
    pub timestamp: String,
    pub session_id: String,
    pub server_id: String,
    pub direction: String,
    pub server_pid: Option<u32>,
    pub client_pid: Option<u32>,
    pub kind: String,
    pub method: Option<String>,
    pub id: Option<Value>,
    pub bytes: u64,
    pub sha256: String,
    pub raw: Option<String>,
    pub gap_before: bool,
}

/// A `mcp_capture_gap` line.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the interface's own")]
pub struct Gap {
    pub session_id: String,
    pub direction: String,
    pub bytes_lost: u64,
    #[serde(default)]
    pub reason: String,
}

/// One stream of the summary.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are the interface's own")]
pub struct Stream {
    pub session_id: String,
    pub direction: String,
    pub bytes_written: u64,
    pub bytes_read: u64,
    pub bytes_captured: u64,
    pub bytes_lost: u64,
    pub frames: u64,
}

/// Everything that the daemon reported so far.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// Messages in the order reported.
    pub messages: Vec<Message>,
    /// Known losses in the order reported.
    pub gaps: Vec<Gap>,
    /// The ledger at the end.
    pub streams: Option<Vec<Stream>>,
    /// Every other line, whole.
    pub others: Vec<Value>,
    /// Whether `tap_ready` was reported, and reported first.
    ready: bool,
    /// Lines that are not what the interface promises.
    broken: Vec<String>,
    /// Whether the output has ended.
    ended: bool,
}

impl Capture {
    fn take(&mut self, line: &str) {
        if let Err(e) = self.parse(line) {
            let line: String = line.chars().take(300).collect();
            self.broken.push(format!("{e:#}: {line}"));
        }
    }

    /// How much was reported, and what was lost for which reason.
    fn summary(&self) -> String {
        let mut lost: BTreeMap<(&str, &str), (usize, u64)> = BTreeMap::new();
        for gap in &self.gaps {
            let sum = lost.entry((&gap.reason, &gap.direction)).or_default();
            *sum = (sum.0 + 1, sum.1 + gap.bytes_lost);
        }
        let mut summary = format!("{} messages", self.messages.len());
        for ((reason, direction), (gaps, bytes)) in lost {
            summary += &format!(", {gaps} gaps {direction} of {bytes} bytes: {reason}");
        }
        summary
    }

    fn parse(&mut self, line: &str) -> Result<()> {
        let value: Value = serde_json::from_str(line).context("not JSON")?;
        let kind = value["type"].as_str().context("no type")?;
        ensure!(self.ready || kind == "tap_ready", "{kind} before tap_ready");
        ensure!(self.streams.is_none(), "{kind} after tap_summary");
        if kind != "mcp_message" || self.messages.len() < CHECKED {
            schema::tap_line(&value).map_err(Error::msg)?;
        }
        match kind {
            "tap_ready" => self.ready = true,
            "mcp_message" => self.messages.push(serde_json::from_value(value)?),
            "mcp_capture_gap" => self.gaps.push(serde_json::from_value(value)?),
            "tap_summary" => {
                self.streams = Some(serde_json::from_value(value["streams"].clone())?);
            }
            _ => self.others.push(value),
        }
        Ok(())
    }
}

type Shared = Arc<(Mutex<Capture>, Condvar)>;

/// A running `mcpinspectd tap`.
pub struct Tap {
    child: Child,
    shared: Shared,
    errors: Arc<Mutex<Vec<u8>>>,
}

/// How the daemon ended, and everything that it reported.
pub struct Finished {
    /// What it reported.
    pub capture: Capture,
    /// Its highest resident memory, in bytes.
    pub peak_memory: u64,
}

impl Tap {
    /// Starts it and waits until it is attached.
    pub fn start() -> Result<Self> {
        Self::start_with("", &[])
    }

    /// Like [`Tap::start`], with this configuration. TLS is left alone unless it says otherwise: the probes for it take
    /// the kernel some seconds each time, on every processor that the tests have.
    pub fn configured(configuration: &str) -> Result<Self> {
        Self::start_with(configuration, &[])
    }

    /// Like [`Tap::configured`], with more arguments.
    pub fn start_with(configuration: &str, arguments: &[&str]) -> Result<Self> {
        ensure!(
            nix::unistd::geteuid().is_root(),
            "watching the kernel needs root: run `cargo xtask test`"
        );
        let mut command = Command::new(places::daemon()?);
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("config.toml");
        std::fs::write(&file, complete(configuration)?)?;
        command
            .args(["tap", "--format", "jsonl", "--raw", "--config"])
            .arg(&file)
            .args(arguments);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let shared = Shared::default();
        let errors = Arc::<Mutex<Vec<u8>>>::default();
        let stdout = child.stdout.take().context("its output")?;
        let mut stderr = child.stderr.take().context("its errors")?;
        std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || collect(stdout, &shared)
        });
        std::thread::spawn({
            let errors = Arc::clone(&errors);
            move || {
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = stderr.read(&mut chunk) {
                    lock(&errors).extend_from_slice(&chunk[..count]);
                }
            }
        });
        let mut tap = Self {
            child,
            shared,
            errors,
        };
        tap.wait_until(READY, "tap_ready", |capture| capture.ready)?;
        Ok(tap)
    }

    /// The daemon's pid.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until `enough` holds.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        what: &str,
        enough: impl Fn(&Capture) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        let (capture, changed) = &*self.shared;
        let mut capture = lock(capture);
        while !enough(&capture) {
            let left = deadline.saturating_duration_since(Instant::now());
            if capture.ended || left.is_zero() {
                let state = if capture.ended { "ended" } else { "is silent" };
                let heard = capture.summary();
                drop(capture);
                bail!(
                    "mcpinspectd {state}, no {what} within {limit:?} ({heard}){}",
                    self.said()
                );
            }
            capture = changed
                .wait_timeout(capture, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), signal)?;
        Ok(())
    }

    /// Resident memory, now and at its highest, in bytes.
    pub fn memory(&self) -> Result<(u64, u64)> {
        memory(self.child.id())
    }

    /// Interrupts it, and requires the clean end that the interface promises.
    pub fn finish(mut self) -> Result<Finished> {
        let (_, peak_memory) = self.memory().context("mcpinspectd died early")?;
        self.signal(Signal::SIGINT)?;
        self.wait_until(DRAIN, "end of output", |capture| capture.ended)?;
        let status = self.ended()?;
        let capture = std::mem::take(&mut *lock(&self.shared.0));
        ensure!(
            status.success(),
            "mcpinspectd ended with {status}{}",
            self.said()
        );
        ensure!(
            capture.broken.is_empty(),
            "lines that break the interface: {:#?}",
            &capture.broken[..capture.broken.len().min(5)]
        );
        ensure!(capture.streams.is_some(), "no tap_summary{}", self.said());
        let own = self.child.id();
        let itself = |m: &&Message| m.server_pid == Some(own) || m.client_pid == Some(own);
        if let Some(message) = capture.messages.iter().find(itself) {
            bail!("mcpinspectd captured itself: {message:?}");
        }
        Ok(Finished {
            capture,
            peak_memory,
        })
    }

    fn ended(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "mcpinspectd closed its output and does not end"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn said(&self) -> String {
        let text = lock(&self.errors).clone();
        let text = String::from_utf8_lossy(&text);
        let tail: Vec<&str> = text.lines().collect();
        let tail = tail[tail.len().saturating_sub(15)..].join("\n    ");
        match tail.is_empty() {
            true => String::new(),
            false => format!("; it said:\n    {tail}"),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // A failed test leaves nothing running; after `finish` this does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A test's configuration combined with what all tests have, and what applies to this machine (the file that
/// `MCPINSPECT_CONFIG` names). The test's own settings win.
fn complete(configuration: &str) -> Result<String> {
    let machine = match std::env::var_os("MCPINSPECT_CONFIG") {
        Some(path) => std::fs::read_to_string(path)?,
        None => String::new(),
    };
    let mut all = toml::Table::new();
    for text in ["[capture]\ntls = false", &machine, configuration] {
        for (name, section) in text.parse::<toml::Table>()? {
            match (all.get_mut(&name), section) {
                (Some(toml::Value::Table(known)), toml::Value::Table(section)) => {
                    known.extend(section)
                }
                (_, section) => {
                    all.insert(name, section);
                }
            }
        }
    }
    Ok(all.to_string())
}

/// Resident memory of a process, now and at its highest, in bytes.
pub fn memory(pid: u32) -> Result<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Result<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let line = line.with_context(|| format!("no {name} in its status"))?;
        let number = line.trim().trim_end_matches(" kB").parse::<u64>()?;
        Ok(number * 1024)
    };
    Ok((field("VmRSS:")?, field("VmHWM:")?))
}

/// Takes the daemon's lines at once and interprets them later: a tap that had to wait for this
/// process would fall behind, and the test would measure itself.
fn collect(stdout: ChildStdout, shared: &Shared) {
    let (sender, lines) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 20, stdout);
        loop {
            let mut line = Vec::new();
            let more = matches!(reader.read_until(b'\n', &mut line), Ok(1..));
            if !more || sender.send(line).is_err() {
                return;
            }
        }
    });
    let (capture, changed) = &**shared;
    for line in lines {
        lock(capture).take(String::from_utf8_lossy(&line).trim_end());
        changed.notify_all();
    }
    lock(capture).ended = true;
    changed.notify_all();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
