//! The other side, as far as it is seen: lines in, lines out, and a clock.

use std::fmt;
use std::time::Duration;

/// The server, or what stands for it.
pub trait Peer {
    /// Takes a line, which has no line break.
    fn send(&mut self, line: &str) -> Sent;

    /// Waits for the next line, at most so long.
    fn receive(&mut self, wait: Duration) -> Received;

    /// Time since it was started.
    fn elapsed(&self) -> Duration;

    /// Why nothing comes any more.
    fn end(&mut self) -> End;
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
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
    /// A line of so many bytes, too many to keep.
    TooLong(u64),
    /// Nothing, for now.
    Nothing,
    /// The end.
    Closed,
}

/// How a peer ended. Displayed as a sentence without its full stop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// What happened, in words: "the server ended (exit status: 3)".
    pub what: String,
    /// Whether its process has ended; otherwise it has only closed its output.
    pub exited: bool,
    /// Its exit status, unless a signal ended it.
    pub exit_status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The last line of its standard error, safe to print.
    pub last_words: Option<String>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.last_words {
            Some(line) => write!(f, "; it said last: {line}"),
            None => Ok(()),
        }
    }
}
