//! Reduces a flood of similar events to a few.

use mcpinspect_core::model::Timestamp;

/// Events that pass at once; after that, one in [`EVERY`].
const BURST: u32 = 5;

/// After the first few, nanoseconds between two events.
const EVERY: u64 = 10_000_000_000;

/// A throttle, by the time of what the events report.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    passed: u32,
    suppressed: u64,
    last: Timestamp,
}

impl Throttle {
    /// Whether one more event passes; if so, how many were suppressed since the last.
    pub(super) fn pass(&mut self, now: Timestamp) -> Option<u64> {
        if self.passed < BURST || now.nanos_since(self.last) >= EVERY {
            self.passed = self.passed.saturating_add(1);
            self.last = now;
            return Some(std::mem::take(&mut self.suppressed));
        }
        self.suppressed += 1;
        None
    }
}
