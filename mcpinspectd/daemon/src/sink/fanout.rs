//! From the pipeline's one thread to every sink, without ever making it wait.
//!
//! Each sink has a queue of its own (see [`queue`](super::queue)), so a hanging journal costs the bus
//! nothing. A server that floods is limited to its rate here, before the event costs anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcpinspect_core::model::{ServerId, SinkTally, Timestamp};
use mcpinspect_engine::event::Event;
use mcpinspect_engine::event::body::{DropReason, EventsDropped};
use mcpinspect_runtime::queue::Bounds;

use super::queue::{QueueReceiver, QueueSender, queue};
use super::rate_limit::{Rate, RateDecision, RateLimiter};
use super::sequencer::Sequencer;
use crate::status::{View, ViewLimits};

/// How much may wait, and how much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct SinkLimits {
    /// Longest JSON of one event, in bytes.
    pub event_json: usize,
    /// Most events that may wait for one sink.
    pub queue_events: usize,
    /// Most bytes that may wait for one sink.
    pub queue_bytes: usize,
    /// Most that readers can look back on.
    pub view: ViewLimits,
    /// Most events of one server, in each of two classes of severity.
    pub per_server: Rate,
}

impl Default for SinkLimits {
    fn default() -> Self {
        Self {
            event_json: 48 << 10,
            queue_events: 8192,
            queue_bytes: 8 << 20,
            view: ViewLimits::default(),
            per_server: Rate::default(),
        }
    }
}

/// Where the pipeline puts its events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sinks {
    sequencer: Arc<Sequencer>,
    queues: Arc<Mutex<Vec<QueueSender>>>,
    rate_limiter: Arc<Mutex<RateLimiter>>,
    limits: SinkLimits,
}

impl Sinks {
    /// A fan-out without sinks.
    pub fn new(limits: &SinkLimits) -> Self {
        let view = Arc::new(View::new(&limits.view));
        Self {
            sequencer: Arc::new(Sequencer::new(limits.event_json, view)),
            queues: Arc::default(),
            rate_limiter: Arc::new(Mutex::new(RateLimiter::new(limits.per_server))),
            limits: *limits,
        }
    }

    /// Adds a sink: it gets every event from now on through the returned receiver.
    pub fn add(&self, name: &'static str) -> QueueReceiver {
        let bounds = Bounds {
            items: self.limits.queue_events,
            bytes: self.limits.queue_bytes,
        };
        let (sender, receiver) = queue(name, bounds, Arc::clone(&self.sequencer));
        lock(&self.queues).push(sender);
        receiver
    }

    /// Offers `event` to every sink and never waits. If a queue is full, that sink misses the
    /// event; if the event's server exceeds its rate, all sinks do. Both losses are counted and
    /// reported.
    pub fn publish(&self, event: &Event) {
        // Held throughout, so every sink sees the events in the order of their numbers.
        let queues = lock(&self.queues);
        let decision = event.server().map_or(RateDecision::Pass, |server| {
            let (kind, severity) = (event.kind(), event.severity());
            let uid = self.sequencer.view().live().uid_of(event);
            lock(&self.rate_limiter).judge(uid, server, kind, severity, event.time)
        });
        match decision {
            RateDecision::Pass => {}
            RateDecision::PassAfter(suppressed) => {
                let server = event.server().cloned();
                self.hand_out(&queues, &suppression_notice(server, suppressed, event.time));
            }
            RateDecision::Suppress => {
                self.sequencer.note(event);
                return;
            }
        }
        self.hand_out(&queues, event);
    }

    fn hand_out(&self, queues: &[QueueSender], event: &Event) {
        let Some(envelope) = self.sequencer.envelope(event) else {
            return;
        };
        for queue in queues {
            queue.offer(&envelope);
        }
    }

    /// Asks the sinks that write files to reopen them.
    pub fn reopen(&self) {
        for queue in lock(&self.queues).iter() {
            queue.request_reopen();
        }
    }

    /// Ends the queues: sinks drain what waits and finish. What is published later goes nowhere.
    pub fn close(&self) {
        let queues = lock(&self.queues);
        for (server, suppressed) in lock(&self.rate_limiter).unreported() {
            self.hand_out(
                &queues,
                &suppression_notice(server, suppressed, Timestamp::now()),
            );
        }
        for queue in queues.iter() {
            queue.close();
        }
    }

    /// What readers may ask for.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(self.sequencer.view())
    }

    /// What became of the events, sink by sink.
    pub fn tally(&self) -> Vec<SinkTally> {
        lock(&self.queues).iter().map(QueueSender::tally).collect()
    }
}

fn suppression_notice(server_id: Option<ServerId>, dropped: u64, time: Timestamp) -> Event {
    let body = EventsDropped {
        sink: None,
        server_id,
        reason: DropReason::Flood,
        dropped,
    };
    Event::of_daemon(time, body)
}

/// The values behind these locks are consistent after every statement, even after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Severity;
    use mcpinspect_engine::event::testing::{changed, detected, session_started};
    use mcpinspect_engine::event::{Envelope, EventKind, Presence};

    use super::*;
    use crate::sink::queue::Item;

    fn next(receiver: &mut QueueReceiver) -> Option<Arc<Envelope>> {
        match receiver.blocking_recv()? {
            Item::Event(envelope) => Some(envelope),
            Item::Reopen => panic!("no reopening was asked for"),
        }
    }

    #[test]
    fn every_sink_gets_every_event_in_order_and_then_the_end() {
        let sinks = Sinks::new(&SinkLimits::default());
        let (mut one, mut two) = (sinks.add("one"), sinks.add("two"));
        for server in ["a", "b", "c"] {
            sinks.publish(&detected(server));
        }
        sinks.close();
        sinks.publish(&detected("late"));
        for receiver in [&mut one, &mut two] {
            for server in ["a", "b", "c"] {
                let record = next(receiver).unwrap();
                assert_eq!(record.server.as_ref().unwrap().0.as_ref(), server);
                receiver.delivered();
            }
            assert!(next(receiver).is_none());
        }
        let tally = &sinks.tally()[1];
        assert_eq!(
            (tally.sink, tally.delivered, tally.dropped, tally.waiting),
            ("two", 3, 0, 0)
        );
    }

    #[test]
    fn a_slow_sink_loses_alone_and_says_so_itself() {
        let limits = SinkLimits {
            queue_events: 2,
            ..SinkLimits::default()
        };
        let sinks = Sinks::new(&limits);
        let (mut slow, mut quick) = (sinks.add("slow"), sinks.add("quick"));
        for _ in 0..5 {
            sinks.publish(&detected("a"));
            assert_eq!(next(&mut quick).unwrap().kind, EventKind::Detection);
        }
        let notice = next(&mut slow).unwrap();
        assert_eq!(notice.kind, EventKind::EventsDropped);
        assert_eq!(notice.severity, Some(Severity::Medium));
        assert!(notice.json.contains("\"dropped\":3"), "{}", notice.json);
        assert_eq!(next(&mut slow).unwrap().kind, EventKind::Detection);
        assert_eq!(next(&mut slow).unwrap().kind, EventKind::Detection);
        assert_eq!(sinks.tally()[0].dropped, 3);
        assert_eq!(sinks.tally()[1].dropped, 0);
        // Room again: the next event arrives, and the loss is not reported twice.
        sinks.publish(&detected("b"));
        assert_eq!(next(&mut slow).unwrap().kind, EventKind::Detection);
    }

    #[test]
    fn bytes_are_bounded_as_well_as_records() {
        let limits = SinkLimits {
            queue_bytes: 100_000,
            ..SinkLimits::default()
        };
        let sinks = Sinks::new(&limits);
        let mut receiver = sinks.add("one");
        for _ in 0..50 {
            sinks.publish(&changed("a", &"x".repeat(20_000)));
        }
        let dropped = sinks.tally()[0].dropped;
        assert!((40..50).contains(&dropped), "{dropped}");
        assert_eq!(next(&mut receiver).unwrap().kind, EventKind::EventsDropped);
        sinks.close();
        let arrived = std::iter::from_fn(|| next(&mut receiver)).count() as u64;
        assert_eq!(arrived + dropped, 50);
    }

    #[test]
    fn a_flooding_server_is_cut_short_and_the_others_are_not() {
        let per_server = Rate {
            burst: 2,
            per_second: 1,
        };
        let sinks = Sinks::new(&SinkLimits {
            per_server,
            ..SinkLimits::default()
        });
        let mut receiver = sinks.add("one");
        for _ in 0..10 {
            sinks.publish(&detected("loud"));
        }
        sinks.publish(&detected("calm"));
        sinks.close();
        let told: Vec<_> = std::iter::from_fn(|| next(&mut receiver))
            .map(|record| record.title.clone())
            .collect();
        let loud = "Credential access in tool \"read\" of loud";
        let calm = "Credential access in tool \"read\" of calm";
        assert_eq!(
            told,
            [loud, loud, calm, "8 events about loud were left out"]
        );
    }

    #[test]
    fn records_know_the_owner_and_what_they_did_to_the_picture() {
        let sinks = Sinks::new(&SinkLimits::default());
        let mut receiver = sinks.add("one");
        sinks.publish(&session_started("a", 1000));
        sinks.publish(&detected("a"));
        let started = next(&mut receiver).unwrap();
        assert_eq!(
            (started.uid, started.presence),
            (Some(1000), Some(Presence::Appeared))
        );
        let found = next(&mut receiver).unwrap();
        assert_eq!((found.uid, found.presence), (Some(1000), None));
        assert_eq!(sinks.view().history().get(found.id.as_str()), Some(found));
        assert_eq!(sinks.view().live().servers().count(), 1);
    }
}
