//! Counts events per minute, and reports an unusual rate once per minute.

use mcpinspect_core::model::Timestamp;

/// A minute in nanoseconds.
const MINUTE: u64 = 60 * 1_000_000_000;

/// Counts events of one kind in windows of a minute.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateCounter {
    since: Timestamp,
    events: u32,
}

impl RateCounter {
    /// Counts an event at `now`. Returns the count when it first exceeds `limit` in this window.
    pub fn count(&mut self, now: Timestamp, limit: u32) -> Option<u32> {
        if self.events == 0 || now.nanos_since(self.since) >= MINUTE {
            self.since = now;
            self.events = 0;
        }
        self.events = self.events.saturating_add(1);
        (self.events == limit + 1).then_some(self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_limit_is_reported_once() {
        let mut rate = RateCounter::default();
        let at = |second: u64| Timestamp(second * 1_000_000_000);
        assert_eq!(
            [
                rate.count(at(1), 2),
                rate.count(at(2), 2),
                rate.count(at(3), 2),
                rate.count(at(4), 2)
            ],
            [None, None, Some(3), None]
        );
        assert_eq!(rate.count(at(61), 2), None, "a new window");
        assert_eq!(rate.count(at(62), 2), None);
        assert_eq!(rate.count(at(63), 2), Some(3));
    }
}
