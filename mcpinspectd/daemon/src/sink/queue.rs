//! One sink's queue: bounded in events and in bytes, and honest about what it dropped.
//!
//! The pipeline's end, the `QueueSender`, never waits: a full queue drops the event for this sink
//! only and counts it. The sink's end, the [`QueueReceiver`], reports the loss as a separate event
//! as soon as it moves again, so the loss is recorded where the events are missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mcpinspect_core::model::{SinkTally, Timestamp};
use mcpinspect_engine::event::body::{DropReason, EventsDropped};
use mcpinspect_engine::event::{Envelope, Event};
use mcpinspect_runtime::queue::{Bounds, LossReport, Received, Receiver, Sender, bounded};

use super::sequencer::Sequencer;

/// Both ends of a queue for the sink `name`.
pub(super) fn queue(
    name: &'static str,
    bounds: Bounds,
    sequencer: Arc<Sequencer>,
) -> (QueueSender, QueueReceiver) {
    let (sender, receiver) = bounded(bounds, LossReport::First);
    let counters = Arc::new(Counters::default());
    let sender = QueueSender {
        name,
        queue: sender,
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

/// What became of the events that fit.
#[derive(Debug, Default)]
struct Counters {
    accepted: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    reopen: AtomicBool,
}

/// What comes out of a queue.
#[derive(Debug)]
pub enum Item {
    /// An event.
    Event(Arc<Envelope>),
    /// Only a wake-up: see [`QueueReceiver::take_reopen_request`].
    Reopen,
}

/// The sink's end of its queue.
#[derive(Debug)]
pub struct QueueReceiver {
    name: &'static str,
    queue: Receiver<Arc<Envelope>>,
    counters: Arc<Counters>,
    sequencer: Arc<Sequencer>,
}

impl QueueReceiver {
    /// The next item; `None` once the fan-out is closed and everything was taken.
    pub async fn recv(&mut self) -> Option<Item> {
        loop {
            let received = self.queue.recv().await?;
            if let Some(item) = self.item(received) {
                return Some(item);
            }
        }
    }

    /// Like [`QueueReceiver::recv`], for a separate thread; must not be called on a runtime's thread.
    pub fn blocking_recv(&mut self) -> Option<Item> {
        loop {
            let received = self.queue.blocking_recv()?;
            if let Some(item) = self.item(received) {
                return Some(item);
            }
        }
    }

    /// Whether the fan-out is closed: no more time for patience.
    pub fn is_closing(&self) -> bool {
        self.queue.is_closed()
    }

    /// Whether the output should be reopened. Clears the request.
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

    fn item(&self, received: Received<Arc<Envelope>>) -> Option<Item> {
        match received {
            Received::Item(envelope) => Some(Item::Event(envelope)),
            Received::Dropped(dropped) => self.loss_notice(dropped.items).map(Item::Event),
            Received::Woken => Some(Item::Reopen),
        }
    }

    fn loss_notice(&self, dropped: u64) -> Option<Arc<Envelope>> {
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
        Some(envelope)
    }
}

#[derive(Debug)]
pub(super) struct QueueSender {
    name: &'static str,
    queue: Sender<Arc<Envelope>>,
    counters: Arc<Counters>,
}

impl QueueSender {
    /// Asks the sink to reopen its output.
    pub(super) fn request_reopen(&self) {
        self.counters.reopen.store(true, Ordering::Relaxed);
        self.queue.wake();
    }

    /// Ends the queue: the sink drains what waits and finishes.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    pub(super) fn offer(&self, envelope: &Arc<Envelope>) {
        if self.queue.offer(envelope.size(), || Arc::clone(envelope)) {
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
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
            dropped: self.queue.dropped().items,
            waiting: accepted.saturating_sub(delivered + failed),
        }
    }
}
