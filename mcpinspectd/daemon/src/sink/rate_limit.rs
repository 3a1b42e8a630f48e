//! One server must not drown the others, and one user must not drown another's servers.
//!
//! A server's messages decide how many events there are about it: a thousand tools, a finding in each
//! of a million results. Queues, journals and people's patience are shared. So each server has a
//! bucket of events, generous and refilled at a steady rate, and one more for those of high severity,
//! so that noise cannot hide a finding. Since a user can start any number of servers, all servers of
//! one user together have such a pair of buckets too. Suppressed events are counted per server
//! and reported.
//!
//! Only events whose number a server decides are held back: sessions, decisions and losses are
//! always reported, because readers rely on them.

use std::collections::HashMap;

use mcpinspect_core::model::{ServerId, Severity, Timestamp};
use mcpinspect_engine::event::EventKind;

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

/// Servers of one user with buckets of their own; the user's further servers share one pair.
const SERVERS_PER_USER: usize = 256;

/// Users with buckets of their own; further ones share those of the unknown user.
const USERS: usize = 1024;

/// A user's buckets are this many times as large as those of one server.
const USER_SHARE: u32 = 4;

const NANOS: u64 = 1_000_000_000;

/// The buckets.
#[derive(Debug)]
pub struct RateLimiter {
    rate: Rate,
    users: HashMap<Option<u32>, User>,
}

/// The servers of one user.
#[derive(Debug)]
struct User {
    all: Buckets,
    servers: HashMap<ServerId, Counted>,
    rest: Counted,
}

/// Buckets, and how many events did not fit since that was last reported.
#[derive(Debug)]
struct Counted {
    buckets: Buckets,
    suppressed: u64,
}

#[derive(Debug)]
struct Buckets {
    rate: Rate,
    ordinary: Bucket,
    severe: Bucket,
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
            users: HashMap::new(),
        }
    }

    /// Decides about an event at this time. `uid` is the user that the server runs as, if known.
    pub fn judge(
        &mut self,
        uid: Option<u32>,
        server: &ServerId,
        kind: EventKind,
        severity: Option<Severity>,
        now: Timestamp,
    ) -> RateDecision {
        let user = self.user(uid, now);
        let counted = user.server(server, now);
        if is_bounded_by_nature(kind) {
            // The end of a session is the last chance to report what was suppressed in it.
            return match kind {
                EventKind::SessionEnded => counted.report(),
                _ => RateDecision::Pass,
            };
        }
        // A server that exceeds its own rate takes nothing from its user's other servers.
        if counted.buckets.take(severity, now) && user.all.take(severity, now) {
            user.server(server, now).report()
        } else {
            user.server(server, now).suppressed += 1;
            RateDecision::Suppress
        }
    }

    /// The events that were suppressed and not yet reported, for the end of a run.
    pub fn unreported(&mut self) -> Vec<(Option<ServerId>, u64)> {
        let mut unreported = Vec::new();
        for user in self.users.values_mut() {
            let named = user
                .servers
                .iter_mut()
                .map(|(name, counted)| (Some(name.clone()), counted));
            for (name, counted) in named.chain([(None, &mut user.rest)]) {
                match std::mem::take(&mut counted.suppressed) {
                    0 => {}
                    suppressed => unreported.push((name, suppressed)),
                }
            }
        }
        unreported
    }

    fn user(&mut self, uid: Option<u32>, now: Timestamp) -> &mut User {
        let uid = if self.users.contains_key(&uid) {
            uid
        } else {
            if self.users.len() >= USERS {
                self.users.retain(|_, user| !user.is_idle(now));
            }
            uid.filter(|_| self.users.len() < USERS)
        };
        let rate = self.rate;
        self.users.entry(uid).or_insert_with(|| User::new(rate))
    }
}

impl User {
    fn new(rate: Rate) -> Self {
        Self {
            all: Buckets::new(Rate {
                burst: rate.burst.saturating_mul(USER_SHARE),
                per_second: rate.per_second.saturating_mul(USER_SHARE),
            }),
            servers: HashMap::new(),
            rest: Counted::new(rate),
        }
    }

    fn server(&mut self, server: &ServerId, now: Timestamp) -> &mut Counted {
        if !self.servers.contains_key(server) {
            if self.servers.len() >= SERVERS_PER_USER {
                self.servers.retain(|_, counted| !counted.is_idle(now));
            }
            if self.servers.len() < SERVERS_PER_USER {
                let rate = self.rest.buckets.rate;
                self.servers.insert(server.clone(), Counted::new(rate));
            }
        }
        self.servers.get_mut(server).unwrap_or(&mut self.rest)
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.all.is_full(now)
            && self.rest.is_idle(now)
            && self.servers.values_mut().all(|server| server.is_idle(now))
    }
}

impl Counted {
    fn new(rate: Rate) -> Self {
        Self {
            buckets: Buckets::new(rate),
            suppressed: 0,
        }
    }

    fn report(&mut self) -> RateDecision {
        match std::mem::take(&mut self.suppressed) {
            0 => RateDecision::Pass,
            suppressed => RateDecision::PassAfter(suppressed),
        }
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.suppressed == 0 && self.buckets.is_full(now)
    }
}

/// Whether something other than the server's messages decides how many of these there are.
fn is_bounded_by_nature(kind: EventKind) -> bool {
    match kind {
        EventKind::ToolSeen
        | EventKind::ToolChanged
        | EventKind::ServerChanged
        | EventKind::Detection
        | EventKind::CallHung
        | EventKind::RuleMatched
        | EventKind::InvalidMessage => false,
        EventKind::SessionStarted
        | EventKind::SessionIdentified
        | EventKind::SessionEnded
        | EventKind::ServerOrphaned
        | EventKind::CaptureGap
        | EventKind::BlindSpot
        | EventKind::Policy
        | EventKind::Contained
        | EventKind::RegistryFull
        | EventKind::EventsDropped
        | EventKind::Store => true,
    }
}

impl Buckets {
    fn new(rate: Rate) -> Self {
        Self {
            rate,
            ordinary: Bucket::full(rate),
            severe: Bucket::full(rate),
        }
    }

    fn take(&mut self, severity: Option<Severity>, now: Timestamp) -> bool {
        let bucket = match severity {
            Some(Severity::High | Severity::Critical) => &mut self.severe,
            _ => &mut self.ordinary,
        };
        bucket.take(self.rate, now)
    }

    fn is_full(&mut self, now: Timestamp) -> bool {
        let full = self.rate.capacity();
        [&mut self.ordinary, &mut self.severe]
            .into_iter()
            .all(|bucket| {
                bucket.fill(self.rate, now);
                bucket.nanos == full
            })
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
        let mut judge = |severity, time| {
            limiter.judge(None, &server("a"), EventKind::Detection, severity, at(time))
        };
        for _ in 0..3 {
            assert_eq!(judge(LOW, 0), RateDecision::Pass);
        }
        assert_eq!(judge(LOW, 0), RateDecision::Suppress);
        assert_eq!(judge(LOW, 99), RateDecision::Suppress);
        assert_eq!(judge(LOW, 100), RateDecision::PassAfter(2));
        assert_eq!(judge(LOW, 100), RateDecision::Suppress);
        // Noise does not hide a finding.
        assert_eq!(judge(HIGH, 100), RateDecision::PassAfter(1));
        // A clock that steps back neither adds nor removes anything.
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
        let mut judge = |name, kind| limiter.judge(Some(7), &server(name), kind, None, at(0));
        for _ in 0..10 {
            judge("loud", EventKind::ToolSeen);
            assert_eq!(judge("loud", EventKind::CaptureGap), RateDecision::Pass);
        }
        assert_eq!(judge("calm", EventKind::ToolSeen), RateDecision::Pass);
        let end = judge("loud", EventKind::SessionEnded);
        assert_eq!(end, RateDecision::PassAfter(7));
        judge("loud", EventKind::ToolSeen);
        assert_eq!(limiter.unreported(), [(Some(server("loud")), 1)]);
        assert_eq!(limiter.unreported(), []);
    }

    #[test]
    fn any_number_of_noisy_servers_costs_other_users_nothing() {
        let mut limiter = RateLimiter::new(RATE);
        let mut passed = 0;
        for number in 0..5000 {
            for severity in [LOW, HIGH] {
                let noisy = server(&number.to_string());
                let decision =
                    limiter.judge(Some(666), &noisy, EventKind::Detection, severity, at(0));
                passed += u32::from(decision != RateDecision::Suppress);
            }
        }
        assert_eq!(passed, 2 * USER_SHARE * RATE.burst);
        for name in ["calm", "0"] {
            let calm = limiter.judge(Some(7), &server(name), EventKind::Detection, HIGH, at(0));
            assert_eq!(calm, RateDecision::Pass);
        }
        let unreported: u64 = limiter.unreported().iter().map(|(_, count)| count).sum();
        assert_eq!(unreported, 10_000 - u64::from(passed));
    }

    #[test]
    fn memory_is_bounded_and_idle_ones_make_room() {
        let mut limiter = RateLimiter::new(RATE);
        let seen = EventKind::ToolSeen;
        for number in 0..SERVERS_PER_USER * 2 {
            let name = server(&number.to_string());
            limiter.judge(Some(1), &name, seen, None, at(0));
        }
        assert_eq!(limiter.users[&Some(1)].servers.len(), SERVERS_PER_USER);
        limiter.unreported();
        limiter.judge(Some(1), &server("new"), seen, None, at(10_000));
        assert_eq!(limiter.users[&Some(1)].servers.len(), 1);

        for uid in 0..5000 {
            limiter.judge(Some(uid), &server("a"), seen, None, at(10_000));
        }
        assert_eq!(limiter.users.len(), USERS + 1, "the rest share one entry");
        limiter.unreported();
        limiter.judge(Some(5000), &server("a"), seen, None, at(20_000));
        assert!(limiter.users.len() <= 2);
    }
}
