//! The server's side of a tape, played on standard output to a client on standard input.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;

use crate::peer::Received;
use crate::replay::recording::Recording;
use crate::replay::report::counted;
use crate::replay::serve::{Served, Server, Settings};

use crate::server_process::next_line;

/// Lines of the client to read ahead.
const AHEAD: usize = 4;

/// Lines waiting for their time; if there are more, the client has to wait.
const MAX_PENDING: usize = 10_000;

/// Requests to name on standard error.
const NAMED: usize = 50;

/// Longest name.
const NAME: usize = 200;

/// Plays `recording` until the client has left. Returns 0 if it asked for all of it and nothing else.
pub fn serve(
    recording: &Recording,
    settings: Settings,
    report: Option<PathBuf>,
) -> anyhow::Result<ExitCode> {
    let (sender, lines) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        let mut input = io::BufReader::new(io::stdin());
        while let Ok(Some(received)) = next_line(&mut input) {
            if sender.send(received).is_err() {
                return;
            }
        }
    });
    let mut server = Server::new(recording, settings);
    let mut pending = Pending::default();
    let mut is_open = true;
    while is_open || !pending.lines.is_empty() {
        if !pending.write()? {
            break;
        }
        let wait = pending.wait();
        if !is_open || pending.lines.len() >= MAX_PENDING {
            std::thread::sleep(wait.unwrap_or_default());
            continue;
        }
        let received = match wait {
            Some(wait) => lines.recv_timeout(wait),
            None => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let line = match received {
            Ok(Received::Line(line)) => line,
            // Not a message that a client means to send.
            Ok(Received::TooLong(_)) => b"{".to_vec(),
            // A client on standard input never gives up on its own.
            Ok(Received::Nothing | Received::Unanswered(..)) | Err(RecvTimeoutError::Timeout) => {
                continue;
            }
            Ok(Received::Closed) | Err(RecvTimeoutError::Disconnected) => {
                is_open = false;
                continue;
            }
        };
        let now = Instant::now();
        for line in server.line(&line) {
            pending.add(now + line.after, line.text);
        }
    }
    let served = server.finish();
    tell(&served);
    if let Some(path) = report {
        let text = terminal_safe(&served)?;
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(ExitCode::from(u8::from(!served.complete)))
}

/// Lines waiting for their time, in order of time.
#[derive(Default)]
struct Pending {
    lines: BinaryHeap<Reverse<(Instant, u64, String)>>,
    added: u64,
}

impl Pending {
    fn add(&mut self, due: Instant, text: String) {
        self.added += 1;
        self.lines.push(Reverse((due, self.added, text)));
    }

    /// How long until something is due.
    fn wait(&self) -> Option<Duration> {
        let Reverse((due, ..)) = self.lines.peek()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Writes everything that is due. Returns false if the client has left.
    fn write(&mut self) -> anyhow::Result<bool> {
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(Reverse((at, ..))) = self.lines.peek()
            && *at <= now
            && let Some(Reverse((_, _, text))) = self.lines.pop()
        {
            due.push(text);
        }
        if due.is_empty() {
            return Ok(true);
        }
        let reader = terminal::print(|out| {
            for text in &due {
                out.write_all(text.as_bytes())?;
                out.write_all(b"\n")?;
            }
            Ok(())
        })?;
        Ok(reader == terminal::Reader::Listening)
    }
}

/// Reports the outcome on standard error.
fn tell(served: &Served) {
    let mut err = io::stderr().lock();
    let mut say = |line: String| {
        // Nowhere to report a failure to.
        let _ = writeln!(err, "mcpinspect: {line}");
    };
    say(format!(
        "{}, {} answered as on the tape, {} failed on purpose",
        counted(served.requests, "request"),
        served.answered,
        served.failed
    ));
    for request in served.not_on_tape.iter().take(NAMED) {
        say(format!(
            "not on the tape: {}",
            printable(&request.path, NAME)
        ));
    }
    let rest = served.not_on_tape.len().saturating_sub(NAMED) as u64 + served.more_not_on_tape;
    if rest > 0 {
        say(format!("{} more not on the tape", counted(rest, "request")));
    }
    for request in served.not_consumed.iter().take(NAMED) {
        let number = request.message.unwrap_or_default();
        let path = printable(&request.path, NAME);
        say(format!("not requested: {path} (message {number})"));
    }
    let rest = served.not_consumed.len().saturating_sub(NAMED) as u64;
    if rest > 0 {
        say(format!("{} more not requested", counted(rest, "request")));
    }
    if served.invalid > 0 {
        say(format!(
            "{} of the client that were not messages",
            counted(served.invalid, "line")
        ));
    }
}
