//! The other side of a replay, as far as it is seen: lines in, lines out, and a clock.

use std::time::Duration;

/// The server, or what stands for it.
pub trait Peer {
    /// Takes a line, which has no line break.
    fn send(&mut self, line: &str) -> Sent;

    /// Waits for the next line, at most so long.
    fn receive(&mut self, wait: Duration) -> Received;

    /// Time since it was started.
    fn elapsed(&self) -> Duration;

    /// Why nothing comes any more, in words: how the process ended.
    fn end(&mut self) -> String;
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Queued,
    /// There is no room now.
    Full,
    /// Nobody reads any more.
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
