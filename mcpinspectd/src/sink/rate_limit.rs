//! One server must not drown the others.
//!
//! What a server says decides how many events there are about it: a thousand tools, a finding in each
//! of a million results. Queues, journals and people's patience are shared. So each server has a
//! bucket of events, generous and refilled at a steady rate, and one more for those of high severity,
//! so that noise cannot hide a finding. What is left out is counted per server and told.
//!
//! Only events whose number a server decides are held back: sessions, decisions and losses are
//! always told, because others count on them.

use std::collections::HashMap;

use crate::event::EventKind;
use crate::model::{ServerId, Severity, Timestamp};

/// Events that a bucket holds, and events that flow in per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Most events at once.
    pub burst: u32,
    /// Events per second after that.
    pub per_second: u32,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            burst: 2000,
            per_second: 20,
        }
    }
}

/// Most servers with buckets of their own; beyond that, the rest share one pair.
const MOST: usize = 1024;

const NANOS: u64 = 1_000_000_000;

/// The buckets.
#[derive(Debug)]
pub struct RateLimiter {
    rate: Rate,
    servers: HashMap<ServerId, Buckets>,
    rest: Buckets,
}

#[derive(Debug)]
struct Buckets {
    ordinary: Bucket,
    severe: Bucket,
    suppressed: u64,
}

/// Holds time instead of tokens: an event costs the time in which one flows in.
#[derive(Debug)]
struct Bucket {
    nanos: u64,
    filled: Timestamp,
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision {
    /// Report it.
    Pass,
    /// Report it, and before it, how many were suppressed.
    PassAfter(u64),
    /// Suppress and count it.
    Suppress,
}

impl RateLimiter {
    /// Full buckets of this size.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            servers: HashMap::new(),
            rest: Buckets::new(rate),
        }
    }

    /// Decides about an event of this server at this time.
    pub fn judge(
        &mut self,
        server: &ServerId,
        kind: EventKind,
        severity: Option<Severity>,
        now: Timestamp,
    ) -> RateDecision {
        if !self.servers.contains_key(server) {
            if self.servers.len() >= MOST {
                let rate = self.rate;
                self.servers
                    .retain(|_, buckets| !buckets.is_idle(rate, now));
            }
            if self.servers.len() < MOST {
                self.servers.insert(server.clone(), Buckets::new(self.rate));
            }
        }
        let buckets = self.servers.get_mut(server).unwrap_or(&mut self.rest);
        if is_bounded_by_nature(kind) {
            // The end of a session is the last chance to tell of what was left out in it.
            return match kind {
                EventKind::SessionEnded => buckets.tell(),
                _ => RateDecision::Pass,
            };
        }
        let bucket = match severity {
            Some(Severity::High | Severity::Critical) => &mut buckets.severe,
            _ => &mut buckets.ordinary,
        };
        if bucket.take(self.rate, now) {
            buckets.tell()
        } else {
            buckets.suppressed += 1;
            RateDecision::Suppress
        }
    }

    /// What was left out and not told yet, for the end of a run.
    pub fn unreported(&mut self) -> Vec<(Option<ServerId>, u64)> {
        let named = self
            .servers
            .iter_mut()
            .map(|(name, buckets)| (Some(name.clone()), buckets));
        named
            .chain([(None, &mut self.rest)])
            .map(|(name, buckets)| (name, std::mem::take(&mut buckets.suppressed)))
            .filter(|(_, suppressed)| *suppressed > 0)
            .collect()
    }
}

/// Whether something other than the server's talk decides how many of these there are.
fn is_bounded_by_nature(kind: EventKind) -> bool {
    match kind {
        EventKind::ToolSeen
        | EventKind::ToolChanged
        | EventKind::ServerChanged
        | EventKind::Detection
        | EventKind::InvalidMessage => false,
        EventKind::SessionStarted
        | EventKind::SessionIdentified
        | EventKind::SessionEnded
        | EventKind::CaptureGap
        | EventKind::BlindSpot
        | EventKind::Policy
        | EventKind::Contained
        | EventKind::EventsDropped => true,
    }
}

impl Buckets {
    fn new(rate: Rate) -> Self {
        Self {
            ordinary: Bucket::full(rate),
            severe: Bucket::full(rate),
            suppressed: 0,
        }
    }

    fn tell(&mut self) -> RateDecision {
        match std::mem::take(&mut self.suppressed) {
            0 => RateDecision::Pass,
            suppressed => RateDecision::PassAfter(suppressed),
        }
    }

    fn is_idle(&mut self, rate: Rate, now: Timestamp) -> bool {
        let full = rate.capacity();
        self.ordinary.fill(rate, now);
        self.severe.fill(rate, now);
        self.suppressed == 0 && self.ordinary.nanos == full && self.severe.nanos == full
    }
}

impl Rate {
    fn cost(self) -> u64 {
        NANOS / u64::from(self.per_second.max(1))
    }

    fn capacity(self) -> u64 {
        self.cost().saturating_mul(u64::from(self.burst))
    }
}

impl Bucket {
    fn full(rate: Rate) -> Self {
        Self {
            nanos: rate.capacity(),
            filled: Timestamp(0),
        }
    }

    fn fill(&mut self, rate: Rate, now: Timestamp) {
        let since = now.nanos_since(self.filled);
        self.nanos = self.nanos.saturating_add(since).min(rate.capacity());
        self.filled = self.filled.max(now);
    }

    fn take(&mut self, rate: Rate, now: Timestamp) -> bool {
        self.fill(rate, now);
        match self.nanos.checked_sub(rate.cost()) {
            Some(rest) => {
                self.nanos = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        burst: 3,
        per_second: 10,
    };
    const LOW: Option<Severity> = Some(Severity::Low);
    const HIGH: Option<Severity> = Some(Severity::High);

    fn server(name: &str) -> ServerId {
        ServerId(name.into())
    }

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp(1_700_000_000 * NANOS + milliseconds * 1_000_000)
    }

    #[test]
    fn a_burst_passes_the_rest_is_counted_and_told() {
        let mut limiter = RateLimiter::new(RATE);
        let mut judge =
            |severity, time| limiter.judge(&server("a"), EventKind::Detection, severity, at(time));
        for _ in 0..3 {
            assert_eq!(judge(LOW, 0), RateDecision::Pass);
        }
        assert_eq!(judge(LOW, 0), RateDecision::Suppress);
        assert_eq!(judge(LOW, 99), RateDecision::Suppress);
        assert_eq!(judge(LOW, 100), RateDecision::PassAfter(2));
        assert_eq!(judge(LOW, 100), RateDecision::Suppress);
        // Noise does not hide a finding.
        assert_eq!(judge(HIGH, 100), RateDecision::PassAfter(1));
        // A clock that steps back gives nothing away and takes nothing.
        assert_eq!(judge(LOW, 0), RateDecision::Suppress);
        assert_eq!(judge(LOW, 200), RateDecision::PassAfter(1));
        // A long rest fills the bucket to the rim, and no further.
        for _ in 0..3 {
            assert_eq!(judge(LOW, 100_000), RateDecision::Pass);
        }
        assert_eq!(judge(LOW, 100_000), RateDecision::Suppress);
    }

    #[test]
    fn servers_do_not_share_and_losses_always_pass() {
        let mut limiter = RateLimiter::new(RATE);
        for _ in 0..10 {
            limiter.judge(&server("loud"), EventKind::ToolSeen, None, at(0));
            assert_eq!(
                limiter.judge(&server("loud"), EventKind::CaptureGap, LOW, at(0)),
                RateDecision::Pass
            );
        }
        assert_eq!(
            limiter.judge(&server("calm"), EventKind::ToolSeen, None, at(0)),
            RateDecision::Pass
        );
        let end = limiter.judge(&server("loud"), EventKind::SessionEnded, None, at(0));
        assert_eq!(end, RateDecision::PassAfter(7));
        limiter.judge(&server("loud"), EventKind::ToolSeen, None, at(0));
        assert_eq!(limiter.unreported(), [(Some(server("loud")), 1)]);
        assert_eq!(limiter.unreported(), []);
    }

    #[test]
    fn memory_is_bounded_and_idle_servers_make_room() {
        let mut limiter = RateLimiter::new(RATE);
        for number in 0..MOST * 2 {
            limiter.judge(
                &server(&number.to_string()),
                EventKind::ToolSeen,
                None,
                at(0),
            );
        }
        assert_eq!(limiter.servers.len(), MOST);
        assert_eq!(
            limiter.unreported(),
            [(None, MOST as u64 - 3)],
            "the rest share one bucket"
        );
        limiter.judge(&server("new"), EventKind::ToolSeen, None, at(10_000));
        assert_eq!(limiter.servers.len(), 1);
    }
}
