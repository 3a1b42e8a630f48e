//! One sink's queue: bounded in events and in bytes, and honest about what it dropped.
//!
//! The pipeline's end, the `QueueSender`, never waits: a full queue drops the event for this sink
//! alone and counts it. The sink's end, the [`QueueReceiver`], reports the loss as an event of its own
//! as soon as it moves again, so the loss is written where the events are missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::sequencer::Sequencer;
use crate::event::body::{DropReason, EventsDropped};
use crate::event::{Envelope, Event};
use crate::model::{SinkTally, Timestamp};

/// Both ends of a queue for the sink `name`, for at most `events` that wait.
pub(super) fn queue(
    name: &'static str,
    events: usize,
    sequencer: Arc<Sequencer>,
) -> (QueueSender, QueueReceiver) {
    let (sender, receiver) = channel(events.max(1));
    let counters = Arc::new(Counters::default());
    let sender = QueueSender {
        name,
        queue: Some(sender),
        counters: Arc::clone(&counters),
    };
    let receiver = QueueReceiver {
        name,
        queue: receiver,
        counters,
        sequencer,
    };
    (sender, receiver)
}

/// What became of the events for one sink.
#[derive(Debug, Default)]
struct Counters {
    queued_bytes: AtomicUsize,
    accepted: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    unreported: AtomicU64,
    reopen: AtomicBool,
}

/// What comes out of a queue.
#[derive(Debug)]
pub enum Item {
    /// An event.
    Event(Arc<Envelope>),
    /// Nothing but a wake-up: see [`QueueReceiver::take_reopen_request`].
    Reopen,
}

/// The sink's end of its queue.
#[derive(Debug)]
pub struct QueueReceiver {
    name: &'static str,
    queue: Receiver<Item>,
    counters: Arc<Counters>,
    sequencer: Arc<Sequencer>,
}

impl QueueReceiver {
    /// The next item; `None` once the fan-out is closed and everything was taken.
    pub async fn recv(&mut self) -> Option<Item> {
        if let Some(notice) = self.loss_notice() {
            return Some(notice);
        }
        let item = self.queue.recv().await;
        self.taken(item)
    }

    /// Like [`QueueReceiver::recv`], for a thread of its own; must not be called on a runtime's thread.
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

    /// Bytes that wait.
    #[cfg(test)]
    pub(super) fn queued_bytes(&self) -> usize {
        self.counters.queued_bytes.load(Ordering::Relaxed)
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
        if let Some(Item::Event(envelope)) = &item {
            self.counters
                .queued_bytes
                .fetch_sub(envelope.size(), Ordering::Relaxed);
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
        let body = EventsDropped {
            sink: Some(self.name.to_owned()),
            server_id: None,
            reason: DropReason::QueueFull,
            dropped,
        };
        let event = Event::of_daemon(Timestamp::now(), body);
        let envelope = self.sequencer.envelope(&event)?;
        self.counters.accepted.fetch_add(1, Ordering::Relaxed);
        Some(Item::Event(envelope))
    }
}

#[derive(Debug)]
pub(super) struct QueueSender {
    name: &'static str,
    /// `None` once the fan-out is closed.
    queue: Option<Sender<Item>>,
    counters: Arc<Counters>,
}

impl QueueSender {
    /// Asks the sink to open its output again.
    pub(super) fn request_reopen(&self) {
        self.counters.reopen.store(true, Ordering::Relaxed);
        if let Some(queue) = &self.queue {
            // Only there to wake an idle sink: where the queue is full, the sink is awake.
            let _ = queue.try_send(Item::Reopen);
        }
    }

    /// Ends the queue: the sink drains what waits and finishes.
    pub(super) fn close(&mut self) {
        self.queue = None;
    }

    pub(super) fn offer(&self, envelope: &Arc<Envelope>, max_bytes: usize) {
        let Some(queue) = &self.queue else { return };
        let counters = &self.counters;
        let size = envelope.size();
        let before = counters.queued_bytes.fetch_add(size, Ordering::Relaxed);
        // A record that is larger than the whole limit may wait alone.
        let fits = before == 0 || before + size <= max_bytes;
        // A queue whose reader has ended refuses as well: that is a loss like any other.
        if fits && queue.try_send(Item::Event(Arc::clone(envelope))).is_ok() {
            counters.accepted.fetch_add(1, Ordering::Relaxed);
        } else {
            counters.queued_bytes.fetch_sub(size, Ordering::Relaxed);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            counters.unreported.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn tally(&self) -> SinkTally {
        let delivered = self.counters.delivered.load(Ordering::Relaxed);
        let failed = self.counters.failed.load(Ordering::Relaxed);
        let accepted = self.counters.accepted.load(Ordering::Relaxed);
        SinkTally {
            sink: self.name,
            delivered,
            failed,
            dropped: self.counters.dropped.load(Ordering::Relaxed),
            waiting: accepted.saturating_sub(delivered + failed),
        }
    }
}
