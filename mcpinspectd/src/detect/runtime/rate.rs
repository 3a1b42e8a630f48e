//! Counts in windows of a minute, told once per window.

use crate::model::Timestamp;

/// A minute in nanoseconds.
const MINUTE: u64 = 60 * 1_000_000_000;

/// Counts events of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    since: Timestamp,
    count: u32,
}

impl Rate {
    /// One more at `now`. Says the count once, when the window's count first exceeds `limit`.
    pub fn tick(&mut self, now: Timestamp, limit: u32) -> Option<u32> {
        if self.count == 0 || now.nanos_since(self.since) >= MINUTE {
            self.since = now;
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        (self.count == limit + 1).then_some(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_once_when_the_limit_is_exceeded() {
        let mut rate = Rate::default();
        let at = |second: u64| Timestamp(second * 1_000_000_000);
        assert_eq!(
            [
                rate.tick(at(1), 2),
                rate.tick(at(2), 2),
                rate.tick(at(3), 2),
                rate.tick(at(4), 2)
            ],
            [None, None, Some(3), None]
        );
        assert_eq!(rate.tick(at(61), 2), None, "a new window");
        assert_eq!(rate.tick(at(62), 2), None);
        assert_eq!(rate.tick(at(63), 2), Some(3));
    }
}
