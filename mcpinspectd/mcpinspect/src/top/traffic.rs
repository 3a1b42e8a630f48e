//! What is happening between clients and servers, folded from the latest messages.
//!
//! The store counts by day, which says nothing about this minute. So the messages that arrived since the last
//! reading are added to a minute of seconds for each server, and requests wait here for their answers. Messages
//! are read without their texts, and everything here is bounded.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::history::RecordedMessage;

/// Seconds to look back.
pub const WINDOW: usize = 60;

/// Response times of one server within the window; the oldest make room.
const MAX_LATENCIES: usize = 2048;

/// Calls waiting for an answer; those that find no room are not listed.
const MAX_CALLS: usize = 4096;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;

/// A server of one user. Two users may have two servers of the same name.
pub type ServerKey = (String, Option<u32>);

/// A request that has no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub server_key: ServerKey,
    pub session: String,
    /// The request's number in the store and in its session.
    pub number: i64,
    pub sequence: u64,
    pub method: String,
    pub tool: Option<String>,
    /// Its id, as JSON text.
    pub id: String,
    pub since: Timestamp,
    /// Whether the server asked the client.
    pub from_server: bool,
}

/// One second of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Second {
    /// Since the Unix epoch.
    at: u64,
    messages: u64,
    errors: u64,
    /// The slowest answer, in nanoseconds.
    slowest: Option<u64>,
}

/// The last minute of a server.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    seconds: VecDeque<Second>,
    latencies: VecDeque<(u64, u64)>,
}

impl Meter {
    fn add(&mut self, message: &RecordedMessage, time: Timestamp) {
        let at = time.0 / SECOND;
        let newest = self.seconds.back().map_or(0, |second| second.at);
        // Streams are read in turn, so a message may be slightly older than the one before.
        let found = self.seconds.iter().rposition(|second| second.at <= at);
        let index = match found {
            Some(index) if self.seconds[index].at == at => index,
            found => {
                let index = found.map_or(0, |index| index + 1);
                let second = Second {
                    at,
                    ..Second::default()
                };
                self.seconds.insert(index, second);
                index
            }
        };
        let second = &mut self.seconds[index];
        second.messages += u64::from(!message.is_member);
        second.errors += u64::from(message.is_error);
        if let Some(nanos) = message.latency_ns {
            second.slowest = second.slowest.max(Some(nanos));
            self.latencies.push_back((at, nanos));
        }
        self.forget(newest.max(at));
    }

    /// Forgets everything more than a minute before this second.
    fn forget(&mut self, now: u64) {
        let first = now.saturating_sub(WINDOW as u64 - 1);
        while self
            .seconds
            .pop_front_if(|second| second.at < first)
            .is_some()
        {}
        let too_many = self.latencies.len().saturating_sub(MAX_LATENCIES);
        self.latencies.drain(..too_many);
        self.latencies.retain(|(at, _)| *at >= first);
    }

    /// Messages in the last minute.
    pub fn messages(&self) -> u64 {
        self.seconds.iter().map(|second| second.messages).sum()
    }

    /// Errors in the last minute.
    pub fn errors(&self) -> u64 {
        self.seconds.iter().map(|second| second.errors).sum()
    }

    /// Nanoseconds within which this share of the last minute's answers came.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let mut sorted: Vec<u64> = self.latencies.iter().map(|(_, nanos)| *nanos).collect();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        // Both are small and not negative.
        sorted.get((last as f64 * share).ceil() as usize).copied()
    }

    /// The slowest answer of each of the last `WINDOW` seconds, the newest last.
    pub fn slowest(&self, now: Timestamp) -> Vec<Option<u64>> {
        let now = now.0 / SECOND;
        let mut seconds = vec![None; WINDOW];
        for second in &self.seconds {
            let ago = now.saturating_sub(second.at);
            if let Ok(ago) = usize::try_from(ago)
                && ago < WINDOW
            {
                seconds[WINDOW - 1 - ago] = second.slowest;
            }
        }
        seconds
    }
}

/// All servers' messages of the last minute, and calls in flight.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    meters: HashMap<ServerKey, Meter>,
    /// By session, sequence and id: members of a batch share a sequence.
    calls: BTreeMap<(String, u64, String), Call>,
}

impl Traffic {
    /// Adds a message of a server.
    pub fn add(&mut self, message: &RecordedMessage, server_key: ServerKey) {
        let Some(time) = Timestamp::parse(&message.time) else {
            return;
        };
        self.follow(message, &server_key, time);
        self.meters
            .entry(server_key)
            .or_default()
            .add(message, time);
    }

    fn follow(&mut self, message: &RecordedMessage, server_key: &ServerKey, time: Timestamp) {
        let session = &message.session_id;
        match (message.kind.as_str(), &message.id, message.answers) {
            ("request", Some(id), _) if self.calls.len() < MAX_CALLS => {
                let call = Call {
                    server_key: server_key.clone(),
                    session: session.clone(),
                    number: message.number,
                    sequence: message.sequence,
                    method: message.method.clone().unwrap_or_default(),
                    tool: message.tool.clone(),
                    id: id.clone(),
                    since: time,
                    from_server: message.direction == "server_to_client",
                };
                let key = (session.clone(), message.sequence, id.clone());
                self.calls.insert(key, call);
            }
            ("response", Some(id), Some(answers)) => {
                self.calls.remove(&(session.clone(), answers, id.clone()));
            }
            ("notification", ..)
                if message.method.as_deref() == Some("notifications/cancelled") =>
            {
                if let Some(cancelled) = message.concerns {
                    self.calls
                        .retain(|(of, sequence, _), _| of != session || *sequence != cancelled);
                }
            }
            _ => {}
        }
    }

    /// Lets time pass: forgets what is over a minute old, and calls of sessions that are no longer `open`. A session
    /// may be written before it is known to be open, so calls may be `young`.
    pub fn settle(&mut self, now: Timestamp, open: Option<&BTreeSet<&str>>) {
        const YOUNG: u64 = 3 * SECOND;
        self.meters.retain(|_, meter| {
            meter.forget(now.0 / SECOND);
            !meter.seconds.is_empty()
        });
        if let Some(open) = open {
            self.calls.retain(|(session, ..), call| {
                open.contains(session.as_str()) || now.nanos_since(call.since) < YOUNG
            });
        }
    }

    /// Forgets the waiting calls: if messages were skipped, answers may be among them.
    pub fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// The last minute of a server; nothing if it was silent.
    pub fn meter(&self, server_key: &ServerKey) -> Meter {
        self.meters.get(server_key).cloned().unwrap_or_default()
    }

    /// All calls in flight.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.values()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW, answer, message, request};
    use super::*;

    fn server_key() -> ServerKey {
        ("files".to_owned(), Some(1000))
    }

    fn at(seconds_ago: u64) -> Timestamp {
        Timestamp(NOW.0 - seconds_ago * SECOND)
    }

    #[test]
    fn a_request_waits_for_its_answer_and_no_other() {
        let mut traffic = Traffic::default();
        traffic.add(&request("s1", 1, "7", at(5)), server_key());
        traffic.add(&request("s1", 2, "8", at(4)), server_key());
        traffic.add(&request("s2", 1, "7", at(4)), server_key());
        traffic.add(&answer("s1", 3, 1, "7", 250_000_000, at(3)), server_key());
        let waiting: Vec<_> = traffic
            .calls()
            .map(|call| (call.session.as_str(), call.sequence))
            .collect();
        assert_eq!(waiting, [("s1", 2), ("s2", 1)]);
        let mut cancelled = message("s1", 4, "notification", at(2));
        cancelled.method = Some("notifications/cancelled".to_owned());
        cancelled.concerns = Some(2);
        traffic.add(&cancelled, server_key());
        assert_eq!(traffic.calls().count(), 1);
        // A session that ended has no calls; a young one may not be known to be open yet.
        traffic.settle(at(2), Some(&BTreeSet::new()));
        assert_eq!(traffic.calls().count(), 1);
        traffic.settle(NOW, Some(&BTreeSet::from(["s2"])));
        assert_eq!(traffic.calls().count(), 1);
        traffic.settle(NOW, None);
        assert_eq!(traffic.calls().count(), 1);
        traffic.settle(NOW, Some(&BTreeSet::new()));
        assert_eq!(traffic.calls().count(), 0);
    }

    #[test]
    fn members_of_a_batch_are_told_apart_by_their_ids() {
        let mut traffic = Traffic::default();
        for id in ["1", "2"] {
            let mut member = request("s1", 1, id, at(5));
            member.is_member = true;
            traffic.add(&member, server_key());
        }
        traffic.add(&answer("s1", 2, 1, "2", 1, at(4)), server_key());
        assert_eq!(traffic.calls().next().unwrap().id, "1");
        // The batch is the message; its members are not.
        assert_eq!(traffic.meter(&server_key()).messages(), 1);
    }

    #[test]
    fn a_minute_is_counted_and_then_forgotten() {
        let mut traffic = Traffic::default();
        for (ago, nanos) in [(59, 9), (10, 5), (10, 7), (11, 3), (0, 4)] {
            traffic.add(&answer("s1", ago + 1, 1, "1", nanos, at(ago)), server_key());
        }
        traffic.settle(NOW, None);
        let meter = traffic.meter(&server_key());
        assert_eq!(meter.messages(), 5);
        assert_eq!(
            (meter.quantile(0.5), meter.quantile(0.99)),
            (Some(5), Some(9))
        );
        let slowest = meter.slowest(NOW);
        assert_eq!(slowest.len(), WINDOW);
        assert_eq!(
            (slowest[0], slowest[49], slowest[48], slowest[59]),
            (Some(9), Some(7), Some(3), Some(4))
        );
        traffic.settle(Timestamp(NOW.0 + SECOND), None);
        assert_eq!(traffic.meter(&server_key()).messages(), 4);
        traffic.settle(Timestamp(NOW.0 + 120 * SECOND), None);
        assert_eq!(traffic.meter(&server_key()).quantile(0.5), None);
    }
}
