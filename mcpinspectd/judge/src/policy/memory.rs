//! What rules remember about a session's earlier messages. Each rule has a fixed amount of space.

use std::collections::VecDeque;

use mcpinspect_core::model::Timestamp;

use super::condition::Condition;

/// Most messages for a rate to count.
pub(super) const RATE_LIMIT: usize = 10_000;

/// More than this many messages in a time.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// At most [`RATE_LIMIT`].
    pub(super) more_than: usize,
    /// In nanoseconds.
    pub(super) within: u64,
}

/// An earlier message of the session.
#[derive(Clone, Debug)]
pub(super) struct After {
    pub(super) condition: Condition,
    /// In nanoseconds; any time if `None`.
    pub(super) within: Option<u64>,
}

/// What one rule remembers.
#[derive(Clone, Debug, Default)]
struct Remembered {
    /// When it let the last messages pass, for its rate.
    passed: VecDeque<Timestamp>,
    /// When the message that it waits for came.
    came: Option<Timestamp>,
}

/// What the rules of a policy remember, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory(Vec<Remembered>);

impl Memory {
    fn of(&mut self, rule: usize) -> &mut Remembered {
        if self.0.len() <= rule {
            self.0.resize_with(rule + 1, Remembered::default);
        }
        &mut self.0[rule]
    }

    /// Whether a message exceeds the rate. One that does not is counted.
    pub(super) fn exceeds(&mut self, rule: usize, rate: &Rate, now: Timestamp) -> bool {
        let passed = &mut self.of(rule).passed;
        while passed
            .front()
            .is_some_and(|time| now.nanos_since(*time) >= rate.within)
        {
            passed.pop_front();
        }
        if passed.len() >= rate.more_than {
            return true;
        }
        passed.push_back(now);
        false
    }

    /// Notes that the message a rule waits for came.
    pub(super) fn came(&mut self, rule: usize, now: Timestamp) {
        self.of(rule).came = Some(now);
    }

    /// Whether it came in time.
    pub(super) fn has_come(&mut self, rule: usize, after: &After, now: Timestamp) -> bool {
        self.of(rule).came.is_some_and(|came| {
            after
                .within
                .is_none_or(|within| now.nanos_since(came) <= within)
        })
    }
}
