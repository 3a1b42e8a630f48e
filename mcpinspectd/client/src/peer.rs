//! The other side, as seen from here: lines in, lines out, and a clock.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::failure::{Category, Failure};

/// The server, or a stand-in for it.
pub trait Peer {
    /// Takes a line, which has no line break.
    fn send(&mut self, line: &str) -> SendOutcome;

    /// Waits for the next line, for at most this long.
    fn receive(&mut self, wait: Duration) -> Received;

    /// Time since it was started.
    fn elapsed(&self) -> Duration;

    /// Why nothing comes any more.
    fn end(&mut self) -> PeerEnd;

    /// Whether something that expects no answer has still to arrive, if that can be known.
    fn is_sending(&self) -> bool {
        false
    }

    /// Learns a tool's definition before it is called: over HTTP, some arguments are repeated in headers.
    fn learn(&mut self, _tool: &Value) {}
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// It is on its way.
    Queued,
    /// There is no room now.
    Full,
    /// The reader is gone.
    Closed,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line of this many bytes, too many to keep.
    TooLong(u64),
    /// No answer will come to the request with this id, and why. If the request was answered before,
    /// this means nothing. Without an id, what failed was a message that expects no answer.
    Unanswered(Option<u64>, Box<Failure>),
    /// Nothing, for now.
    Nothing,
    /// The end.
    Closed,
}

/// How a peer ended. Displayed as a sentence without its full stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerEnd {
    /// What happened, in words: "the server ended (exit status: 3)".
    pub what: String,
    /// Whether its process has ended; otherwise it has only closed its output.
    pub exited: bool,
    /// Its exit status, unless a signal ended it.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last line of its standard error, safe to print.
    pub last_line: Option<String>,
}

impl PeerEnd {
    /// The failure of anything not answered before.
    pub fn failure(&self) -> Failure {
        let code = match self.exited {
            true => "exited",
            false => "closed",
        };
        let mut message = format!("{} before it answered", self.what);
        if let Some(line) = &self.last_line {
            message.push_str("; its last output: ");
            message.push_str(line);
        }
        Failure::new(Category::Transport, code, message).with(json!({
            "exitStatus": self.exit_status,
            "signal": self.signal,
            "lastLine": self.last_line,
        }))
    }
}

impl fmt::Display for PeerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.last_line {
            Some(line) => write!(f, "; its last output: {line}"),
            None => Ok(()),
        }
    }
}
