//! A server for tests.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;

use super::peer::{Peer, PeerEnd, Received, SendOutcome};

/// A server that is a function, with a clock that only moves during waits.
pub(crate) struct FakePeer<F> {
    answer: F,
    /// What it received.
    pub received: Vec<Value>,
    lines: VecDeque<Received>,
    /// The time.
    pub now: Duration,
}

impl<F: FnMut(&Value) -> Vec<Received>> FakePeer<F> {
    /// A server that answers each message with `answer`.
    pub fn new(answer: F) -> Self {
        Self {
            answer,
            received: Vec::new(),
            lines: VecDeque::new(),
            now: Duration::ZERO,
        }
    }
}

impl<F: FnMut(&Value) -> Vec<Received>> Peer for FakePeer<F> {
    fn send(&mut self, line: &str) -> SendOutcome {
        assert!(!line.contains('\n'));
        // One that is too deep for a test is ignored.
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        self.lines.extend((self.answer)(&message));
        self.received.push(message);
        SendOutcome::Queued
    }

    fn receive(&mut self, wait: Duration) -> Received {
        self.lines.pop_front().unwrap_or_else(|| {
            self.now += wait;
            Received::Nothing
        })
    }

    fn elapsed(&self) -> Duration {
        self.now
    }

    fn end(&mut self) -> PeerEnd {
        PeerEnd {
            what: "it ended".to_owned(),
            ..PeerEnd::default()
        }
    }
}
