//! Samples a stream that is not MCP, a few kilobytes at a time.
//!
//! What a stream carries at first proves nothing about what it carries later, and a server may write
//! to its own standard input to make it look like something else. So the probes ship a little more of
//! such a stream: at once, and again after growing pauses, whenever that little is used up.

use std::time::Duration;

use mcpinspect_core::model::BootTime;

/// Bytes of each end to ship at a time: the first kilobytes of a message name its method.
const BYTES: u64 = 4096;
/// Time until the next sample, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// How much of a stream that is not MCP is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// By [`mcpinspect_common::End`]: payload is shipped for positions below this.
    limit: [u64; 2],
    pause: Duration,
    next: Option<BootTime>,
}

impl Sampling {
    /// The first sample, of a stream whose ends are at these positions.
    pub fn new(positions: [u64; 2]) -> Self {
        Self {
            limit: positions.map(|position| position.saturating_add(BYTES)),
            pause: PAUSE,
            next: None,
        }
    }

    /// The position below which an end is shipped.
    pub fn limit(&self, end: mcpinspect_common::End) -> u64 {
        self.limit[end as usize]
    }

    /// Whether it is time to check if another sample is due.
    pub fn is_due(&self, now: BootTime) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Takes another sample if an end has used up its bytes. Returns whether one had.
    pub fn renew(&mut self, positions: [u64; 2], now: BootTime) -> bool {
        let spent = positions
            .iter()
            .zip(self.limit)
            .any(|(at, limit)| *at >= limit);
        if self.next.is_none() {
            // The first pause begins with the first check.
            self.next = Some(now + self.pause);
            return false;
        }
        if spent {
            self.limit = positions.map(|position| position.saturating_add(BYTES));
            self.pause = (2 * self.pause).min(PAUSE_MAX);
        }
        self.next = Some(now + self.pause);
        spent
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::End;

    use super::*;

    #[test]
    fn a_busy_stream_is_sampled_ever_more_rarely() {
        let mut sampling = Sampling::new([100, 120]);
        assert_eq!(sampling.limit(End::Reader), 100 + BYTES);
        assert_eq!(sampling.limit(End::Writer), 120 + BYTES);
        let (mut now, mut at, mut samples) = (BootTime::default() + PAUSE, 1 << 20, 0);
        while now < BootTime::default() + 200 * PAUSE {
            if sampling.is_due(now) && sampling.renew([at, at], now) {
                samples += 1;
                assert_eq!(sampling.limit(End::Reader), at + BYTES);
            }
            now += PAUSE / 10;
            at += 1 << 20;
        }
        assert!((10..=20).contains(&samples), "{samples}");
    }

    #[test]
    fn a_quiet_stream_keeps_its_sample() {
        let mut sampling = Sampling::new([100, 100]);
        for second in 1..100 {
            assert!(!sampling.renew([100, 100 + BYTES - 1], BootTime::default() + second * PAUSE));
        }
        assert!(sampling.renew([100, 100 + BYTES], BootTime::default() + 100 * PAUSE));
    }
}
