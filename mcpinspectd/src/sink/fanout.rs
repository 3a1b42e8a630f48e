//! From the pipeline's one thread to every sink, without ever making it wait.
//!
//! Each sink has a queue of its own, bounded in records and in bytes, so a journal that hangs costs
//! the bus nothing. A full queue drops the event for that sink alone and counts it; the sink's end
//! of the queue, the [`Inlet`], tells of the loss as an event of its own as soon as it moves again,
//! so the loss is written where the events are missing.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::flood::{Flood, Rate, Verdict};
use super::history::History;
use super::kind::EventKind;
use super::live::{Live, LiveLimits};
use super::metrics::EventCounts;
use super::record::{self, EventId, Record};
use super::wording;
use crate::event::Event;
use crate::model::{ServerId, Timestamp};

/// How much may wait, and how much is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest JSON of one event, bytes.
    pub event_json: usize,
    /// Most records that wait for one sink.
    pub queue_records: usize,
    /// Most bytes that wait for one sink.
    pub queue_bytes: usize,
    /// Most records that [`View::history`] keeps.
    pub history_records: usize,
    /// Most bytes that [`View::history`] keeps.
    pub history_bytes: usize,
    /// Most of what goes on now that is remembered.
    pub live: LiveLimits,
    /// Most events of one server, in each of two classes of severity.
    pub per_server: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_json: 48 << 10,
            queue_records: 8192,
            queue_bytes: 8 << 20,
            history_records: 4096,
            history_bytes: 1 << 20,
            live: LiveLimits::default(),
            per_server: Rate::default(),
        }
    }
}

/// What readers may ask for: the present and the recent past.
#[derive(Debug)]
pub struct View {
    live: Mutex<Live>,
    history: Mutex<History>,
    counts: Mutex<EventCounts>,
}

impl View {
    /// The present.
    pub fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// How many events there were.
    pub fn counts(&self) -> EventCounts {
        lock(&self.counts).clone()
    }

    /// The recent past.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
}

/// What became of the events for one sink.
#[derive(Debug, Default)]
pub struct Counters {
    queued_bytes: AtomicUsize,
    accepted: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    unreported: AtomicU64,
    reopen: AtomicBool,
}

/// The sum for one sink, for a status line or the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The sink's name.
    pub sink: &'static str,
    /// Events that arrived.
    pub delivered: u64,
    /// Events that the other side refused, or that found nobody there.
    pub failed: u64,
    /// Events that found the queue full.
    pub dropped: u64,
    /// Events that still wait.
    pub waiting: u64,
}

/// What comes out of a queue.
#[derive(Debug)]
pub enum Item {
    /// An event.
    Record(Arc<Record>),
    /// Nothing but a wake-up: see [`Inlet::take_reopen_request`].
    Reopen,
}

/// The sink's end of its queue.
#[derive(Debug)]
pub struct Inlet {
    name: &'static str,
    queue: Receiver<Item>,
    counters: Arc<Counters>,
    source: Arc<Source>,
}

impl Inlet {
    /// The next item; `None` once the fan-out is closed and everything was taken.
    pub async fn recv(&mut self) -> Option<Item> {
        if let Some(notice) = self.loss_notice() {
            return Some(notice);
        }
        let item = self.queue.recv().await;
        self.taken(item)
    }

    /// Like [`Inlet::recv`], for a thread of its own; must not be called on a runtime's thread.
    pub fn blocking_recv(&mut self) -> Option<Item> {
        if let Some(notice) = self.loss_notice() {
            return Some(notice);
        }
        let item = self.queue.blocking_recv();
        self.taken(item)
    }

    /// Whether the fan-out is closed: no time for patience any more.
    pub fn is_closing(&self) -> bool {
        self.queue.is_closed()
    }

    /// Whether the output is to be opened again; asking answers the request.
    pub fn take_reopen_request(&self) -> bool {
        self.counters.reopen.swap(false, Ordering::Relaxed)
    }

    /// Counts one event that arrived.
    pub fn delivered(&self) {
        self.counters.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one event that did not.
    pub fn failed(&self) {
        self.counters.failed.fetch_add(1, Ordering::Relaxed);
    }

    fn taken(&self, item: Option<Item>) -> Option<Item> {
        if let Some(Item::Record(record)) = &item {
            self.counters
                .queued_bytes
                .fetch_sub(record.size(), Ordering::Relaxed);
        }
        item
    }

    fn loss_notice(&self) -> Option<Item> {
        let dropped = self.counters.unreported.swap(0, Ordering::Relaxed);
        if dropped == 0 {
            return None;
        }
        tracing::warn!(
            sink = self.name,
            dropped,
            "events were dropped because the sink is too slow"
        );
        let event = Event::EventsDropped {
            timestamp: now(),
            sink: Some(self.name.to_owned()),
            server_id: None,
            reason: "queue_full",
            dropped,
        };
        let record = self.source.record(&event)?;
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Item::Record(record))
    }
}

/// Makes records, and keeps them for readers.
#[derive(Debug)]
struct Source {
    run: Timestamp,
    next: AtomicU64,
    max_json: usize,
    view: Arc<View>,
}

impl Source {
    /// Takes in what an event means for the present, where nobody is told of the event itself.
    fn note(&self, event: &Event) {
        self.view.live().apply(event);
    }

    fn record(&self, event: &Event) -> Option<Arc<Record>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (uid, presence) = {
            let mut live = self.view.live();
            (live.uid_of(event), live.apply(event))
        };
        match Record::new(event, EventId::new(self.run, number), uid, self.max_json) {
            Ok(mut record) => {
                record.presence = presence;
                lock(&self.view.counts).add(record.kind, record.severity);
                let record = Arc::new(record);
                self.view.history().push(&record);
                Some(record)
            }
            Err(error) => {
                tracing::error!(%error, "an event has no JSON form and is lost");
                None
            }
        }
    }
}

#[derive(Debug)]
struct Outlet {
    name: &'static str,
    /// `None` once the fan-out is closed.
    queue: Option<Sender<Item>>,
    counters: Arc<Counters>,
}

/// Where the pipeline puts its events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sinks {
    source: Arc<Source>,
    outlets: Arc<Mutex<Vec<Outlet>>>,
    flood: Arc<Mutex<Flood>>,
    limits: Limits,
}

impl Sinks {
    /// A fan-out to nobody yet.
    pub fn new(limits: &Limits) -> Self {
        let view = Arc::new(View {
            live: Mutex::new(Live::new(limits.live)),
            history: Mutex::new(
                History::new(limits.history_records, limits.history_bytes).taken_at_once(),
            ),
            counts: Mutex::default(),
        });
        let source = Source {
            run: now(),
            next: AtomicU64::new(1),
            max_json: limits.event_json,
            view,
        };
        Self {
            source: Arc::new(source),
            outlets: Arc::default(),
            flood: Arc::new(Mutex::new(Flood::new(limits.per_server))),
            limits: *limits,
        }
    }

    /// Adds a sink: it gets every event from here on through what is returned.
    pub fn add(&self, name: &'static str) -> Inlet {
        let (sender, receiver) = channel(self.limits.queue_records.max(1));
        let counters = Arc::new(Counters::default());
        lock(&self.outlets).push(Outlet {
            name,
            queue: Some(sender),
            counters: Arc::clone(&counters),
        });
        Inlet {
            name,
            queue: receiver,
            counters,
            source: Arc::clone(&self.source),
        }
    }

    /// Gives `event` to every sink. Never waits: where a queue is full, that sink misses it, and
    /// where its server makes too many, all do; both are counted and told.
    pub fn publish(&self, event: &Event) {
        // Held throughout, so every sink sees the events in the order of their numbers.
        let outlets = lock(&self.outlets);
        let verdict = record::server(event).map_or(Verdict::Tell, |server| {
            let (kind, severity) = (EventKind::of(event), wording::severity(event));
            lock(&self.flood).judge(server, kind, severity, record::time(event))
        });
        match verdict {
            Verdict::Tell => {}
            Verdict::TellAfter(left_out) => {
                let server = record::server(event).cloned();
                self.hand_out(
                    &outlets,
                    &left_out_notice(server, left_out, record::time(event)),
                );
            }
            Verdict::LeaveOut => {
                self.source.note(event);
                return;
            }
        }
        self.hand_out(&outlets, event);
    }

    fn hand_out(&self, outlets: &[Outlet], event: &Event) {
        let Some(record) = self.source.record(event) else {
            return;
        };
        for outlet in outlets {
            outlet.offer(&record, self.limits.queue_bytes);
        }
    }

    /// Asks the sinks that write files to open them again.
    pub fn reopen(&self) {
        for outlet in lock(&self.outlets).iter() {
            outlet.counters.reopen.store(true, Ordering::Relaxed);
            if let Some(queue) = &outlet.queue {
                // Only there to wake an idle sink: where the queue is full, the sink is awake.
                let _ = queue.try_send(Item::Reopen);
            }
        }
    }

    /// Ends the queues: sinks drain what waits and finish. What is published later goes nowhere.
    pub fn close(&self) {
        let mut outlets = lock(&self.outlets);
        for (server, left_out) in lock(&self.flood).untold() {
            self.hand_out(&outlets, &left_out_notice(server, left_out, now()));
        }
        for outlet in outlets.iter_mut() {
            outlet.queue = None;
        }
    }

    /// What readers may ask for.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.source.view)
    }

    /// What became of the events, sink by sink.
    pub fn tally(&self) -> Vec<Tally> {
        lock(&self.outlets).iter().map(Outlet::tally).collect()
    }
}

impl Outlet {
    fn offer(&self, record: &Arc<Record>, max_bytes: usize) {
        let Some(queue) = &self.queue else { return };
        let counters = &self.counters;
        let size = record.size();
        let before = counters.queued_bytes.fetch_add(size, Ordering::Relaxed);
        // A record that is larger than the whole limit may wait alone.
        let fits = before == 0 || before + size <= max_bytes;
        // A queue whose reader has ended refuses as well: that is a loss like any other.
        if fits && queue.try_send(Item::Record(Arc::clone(record))).is_ok() {
            counters.accepted.fetch_add(1, Ordering::Relaxed);
        } else {
            counters.queued_bytes.fetch_sub(size, Ordering::Relaxed);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            counters.unreported.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn tally(&self) -> Tally {
        let delivered = self.counters.delivered.load(Ordering::Relaxed);
        let failed = self.counters.failed.load(Ordering::Relaxed);
        let accepted = self.counters.accepted.load(Ordering::Relaxed);
        Tally {
            sink: self.name,
            delivered,
            failed,
            dropped: self.counters.dropped.load(Ordering::Relaxed),
            waiting: accepted.saturating_sub(delivered + failed),
        }
    }
}

fn left_out_notice(server_id: Option<ServerId>, dropped: u64, timestamp: Timestamp) -> Event {
    Event::EventsDropped {
        timestamp,
        sink: None,
        server_id,
        reason: "flood",
        dropped,
    }
}

/// The time of day.
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The values behind these locks are whole after every statement, also after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use super::*;
    use crate::event::Severity;
    use crate::sink::live::Presence;
    use crate::sink::testing::{changed, detected, session_started};

    fn record(inlet: &mut Inlet) -> Option<Arc<Record>> {
        match inlet.blocking_recv()? {
            Item::Record(record) => Some(record),
            Item::Reopen => panic!("no reopening was asked for"),
        }
    }

    #[test]
    fn every_sink_gets_every_event_in_order_and_then_the_end() {
        let sinks = Sinks::new(&Limits::default());
        let (mut one, mut two) = (sinks.add("one"), sinks.add("two"));
        for server in ["a", "b", "c"] {
            sinks.publish(&detected(server));
        }
        sinks.close();
        sinks.publish(&detected("late"));
        for inlet in [&mut one, &mut two] {
            for server in ["a", "b", "c"] {
                let record = record(inlet).unwrap();
                assert_eq!(record.server.as_ref().unwrap().0.as_ref(), server);
                inlet.delivered();
            }
            assert!(record(inlet).is_none());
        }
        let tally = &sinks.tally()[1];
        assert_eq!(
            (tally.sink, tally.delivered, tally.dropped, tally.waiting),
            ("two", 3, 0, 0)
        );
    }

    #[test]
    fn a_slow_sink_loses_alone_and_says_so_itself() {
        let limits = Limits {
            queue_records: 2,
            ..Limits::default()
        };
        let sinks = Sinks::new(&limits);
        let (mut slow, mut quick) = (sinks.add("slow"), sinks.add("quick"));
        for _ in 0..5 {
            sinks.publish(&detected("a"));
            assert_eq!(record(&mut quick).unwrap().kind, EventKind::Detection);
        }
        let notice = record(&mut slow).unwrap();
        assert_eq!(notice.kind, EventKind::EventsDropped);
        assert_eq!(notice.severity, Some(Severity::Medium));
        assert!(notice.json.contains("\"dropped\":3"), "{}", notice.json);
        assert_eq!(record(&mut slow).unwrap().kind, EventKind::Detection);
        assert_eq!(record(&mut slow).unwrap().kind, EventKind::Detection);
        assert_eq!(sinks.tally()[0].dropped, 3);
        assert_eq!(sinks.tally()[1].dropped, 0);
        // Room again: the next event arrives, and the loss is not told twice.
        sinks.publish(&detected("b"));
        assert_eq!(record(&mut slow).unwrap().kind, EventKind::Detection);
    }

    #[test]
    fn bytes_are_bounded_as_well_as_records() {
        let limits = Limits {
            queue_bytes: 100_000,
            ..Limits::default()
        };
        let sinks = Sinks::new(&limits);
        let mut inlet = sinks.add("one");
        for _ in 0..50 {
            sinks.publish(&changed("a", &"x".repeat(20_000)));
        }
        let dropped = sinks.tally()[0].dropped;
        assert!((40..50).contains(&dropped), "{dropped}");
        assert_eq!(record(&mut inlet).unwrap().kind, EventKind::EventsDropped);
        sinks.close();
        while record(&mut inlet).is_some() {}
        assert_eq!(inlet.counters.queued_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_flooding_server_is_cut_short_and_the_others_are_not() {
        let per_server = Rate {
            burst: 2,
            per_second: 1,
        };
        let sinks = Sinks::new(&Limits {
            per_server,
            ..Limits::default()
        });
        let mut inlet = sinks.add("one");
        for _ in 0..10 {
            sinks.publish(&detected("loud"));
        }
        sinks.publish(&detected("calm"));
        sinks.close();
        let told: Vec<_> = std::iter::from_fn(|| record(&mut inlet))
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
        let sinks = Sinks::new(&Limits::default());
        let mut inlet = sinks.add("one");
        sinks.publish(&session_started("a", 1000));
        sinks.publish(&detected("a"));
        let started = record(&mut inlet).unwrap();
        assert_eq!(
            (started.uid, started.presence),
            (Some(1000), Some(Presence::Appeared))
        );
        let found = record(&mut inlet).unwrap();
        assert_eq!((found.uid, found.presence), (Some(1000), None));
        assert_eq!(sinks.view().history().get(found.id.as_str()), Some(found));
        assert_eq!(sinks.view().live().servers().count(), 1);
    }
}
