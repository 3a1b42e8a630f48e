//! A bounded queue from the pipeline to one reader that may be slow, absent or dead.
//!
//! The pipeline never waits for a reader: what does not fit is dropped, and counted in items and bytes.
//! The loss is reported to the reader among the items ([`Received::Dropped`]), so whatever it writes can say
//! what is missing. Events and messages leave the pipeline through queues of this kind.
//!
//! A lock guards the queue. Neither side holds it for longer than it takes to move one item in or out:
//! items are made before it is taken, and freed after it is released.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A drained queue that has grown beyond this many items releases its memory.
const KEPT_CAPACITY: usize = 256;

/// What a reader waits for if it takes items one by one.
const ANYTHING: Bounds = Bounds { items: 0, bytes: 0 };

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Items; at least one.
    pub items: usize,
    /// Bytes, as the sender counts them. An item above this limit may wait alone.
    pub bytes: usize,
}

/// When a reader learns what was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReport {
    /// As soon as it takes the next item, ahead of the items still waiting.
    First,
    /// Where it is missing: after what was waiting by then, and before what came later.
    InPlace,
}

/// What did not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How many items; 0 if nothing was dropped.
    pub items: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What comes out of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The next item.
    Item(T),
    /// Items were dropped.
    Dropped(Dropped),
    /// Nothing: see [`Sender::wake`].
    Woken,
}

/// The outcome of waiting for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<T> {
    /// Something came.
    Received(Received<T>),
    /// The queue is closed, and everything was taken.
    Closed,
    /// Nothing came in time.
    Late,
}

/// Both ends of a queue.
pub fn bounded<T>(bounds: Bounds, report: LossReport) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        bounds,
        report,
        state: Mutex::default(),
        arrival: Condvar::new(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The pipeline's end. Dropping it closes the queue.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The reader's end.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    bounds: Bounds,
    report: LossReport,
    state: Mutex<State<T>>,
    arrival: Condvar,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<Slot<T>>,
    /// Items that are waiting or being made, and their bytes.
    items: usize,
    bytes: usize,
    /// Everything that was dropped.
    dropped: Dropped,
    /// How much of it must be reported ahead of the waiting items.
    unreported: Dropped,
    /// Nothing more is offered.
    closed: bool,
    /// No one reads any more.
    abandoned: bool,
    /// See [`Sender::wake`].
    woken: bool,
    /// The reader waits on the condition, until this much is there.
    sleeping: Option<Bounds>,
    /// The reader's task waits for this.
    waker: Option<Waker>,
}

#[derive(Debug)]
enum Slot<T> {
    Item { item: T, bytes: usize },
    Dropped(Dropped),
}

impl<T> Sender<T> {
    /// Offers the item of this many `bytes` that `make` returns; never waits for the reader. Returns
    /// whether it fits: otherwise `make` is not called, and the item counts as dropped. After
    /// [`close`](Self::close), nothing fits, and nothing counts.
    pub fn offer(&self, bytes: usize, make: impl FnOnce() -> T) -> bool {
        {
            let mut state = self.0.lock();
            if state.closed {
                return false;
            }
            if !state.has_room(bytes, self.0.bounds) {
                state.drop_item(bytes, self.0.report);
                self.0.notify(state);
                return false;
            }
            state.items += 1;
            state.bytes += bytes;
        }
        let item = make();
        let mut state = self.0.lock();
        state.waiting.push_back(Slot::Item { item, bytes });
        self.0.notify(state);
        true
    }

    /// Counts an item of this many `bytes` as dropped, because it is useless without another one that was.
    pub fn refuse(&self, bytes: usize) {
        let mut state = self.0.lock();
        if !state.closed {
            state.drop_item(bytes, self.0.report);
            self.0.notify(state);
        }
    }

    /// Wakes the reader although no item comes: something else needs its attention.
    pub fn wake(&self) {
        let mut state = self.0.lock();
        state.woken = true;
        self.0.notify(state);
    }

    /// Ends the queue: the reader takes the waiting items, and then the end.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.notify(state);
    }

    /// Everything that was dropped so far.
    pub fn dropped(&self) -> Dropped {
        self.0.lock().dropped
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<T> Receiver<T> {
    /// The next item; `None` once the queue is closed and everything was taken. Nothing is lost if the
    /// future is dropped.
    pub async fn recv(&mut self) -> Option<Received<T>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Like [`recv`](Self::recv), for a thread that may block.
    pub fn blocking_recv(&mut self) -> Option<Received<T>> {
        let mut state = self.0.lock();
        loop {
            if let Some(received) = state.take() {
                return Some(received);
            }
            if state.closed {
                return None;
            }
            state.sleeping = Some(ANYTHING);
            state = self
                .0
                .arrival
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Like [`blocking_recv`](Self::blocking_recv), until `end` at most.
    pub fn recv_until(&mut self, end: Instant) -> Arrival<T> {
        let mut state = self.0.lock();
        loop {
            if let Some(received) = state.take() {
                return Arrival::Received(received);
            }
            if state.closed {
                return Arrival::Closed;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.sleeping = None;
                return Arrival::Late;
            }
            state.sleeping = Some(ANYTHING);
            let waited = self.0.arrival.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until this much can be taken, and until `end` at most; less when the queue is closed, or the reader is
    /// woken. Meanwhile the sender spends no time on waking the reader for each item. A queue that is half full is
    /// always enough.
    pub fn gather(&mut self, wanted: Bounds, end: Instant) {
        let bounds = self.0.bounds;
        let wanted = Bounds {
            items: wanted.items.min(bounds.items / 2),
            bytes: wanted.bytes.min(bounds.bytes / 2),
        };
        let mut state = self.0.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if state.is_enough(wanted) || left.is_zero() {
                state.sleeping = None;
                return;
            }
            state.sleeping = Some(wanted);
            let waited = self.0.arrival.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether nothing more is offered: the waiting items are the last ones.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Option<Received<T>>> {
        let mut state = self.0.lock();
        if let Some(received) = state.take() {
            return Poll::Ready(Some(received));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.abandoned = true;
        let unread = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unread);
    }
}

impl<T> Shared<T> {
    /// The state is consistent after every statement, even after a panic elsewhere.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the reader if it waits. The lock is released first, so that it does not wait again.
    fn notify(&self, mut state: MutexGuard<'_, State<T>>) {
        let wanted = state.sleeping;
        let is_enough = wanted.is_some_and(|wanted| state.is_enough(wanted));
        if is_enough {
            state.sleeping = None;
        }
        let waker = state.waker.take();
        drop(state);
        if is_enough {
            self.arrival.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> State<T> {
    /// Whether the reader has this much to do, or something else.
    fn is_enough(&self, wanted: Bounds) -> bool {
        let Bounds { items, bytes } = wanted;
        self.items >= items || self.bytes >= bytes || self.closed || self.woken
    }

    fn has_room(&self, bytes: usize, bounds: Bounds) -> bool {
        let fits = self.bytes == 0 || self.bytes + bytes <= bounds.bytes;
        !self.abandoned && self.items < bounds.items.max(1) && fits
    }

    fn drop_item(&mut self, bytes: usize, report: LossReport) {
        self.dropped.add(bytes);
        match (report, self.waiting.back_mut()) {
            (LossReport::First, _) => self.unreported.add(bytes),
            // The reader is gone and takes no marks.
            (LossReport::InPlace, _) if self.abandoned => {}
            (LossReport::InPlace, Some(Slot::Dropped(dropped))) => dropped.add(bytes),
            (LossReport::InPlace, _) => {
                let mut dropped = Dropped::default();
                dropped.add(bytes);
                self.waiting.push_back(Slot::Dropped(dropped));
            }
        }
    }

    fn take(&mut self) -> Option<Received<T>> {
        if self.unreported.items > 0 {
            return Some(Received::Dropped(std::mem::take(&mut self.unreported)));
        }
        let Some(slot) = self.waiting.pop_front() else {
            return std::mem::take(&mut self.woken).then_some(Received::Woken);
        };
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_CAPACITY {
            self.waiting = VecDeque::new();
        }
        Some(match slot {
            Slot::Item { item, bytes } => {
                self.items -= 1;
                self.bytes -= bytes;
                Received::Item(item)
            }
            Slot::Dropped(dropped) => Received::Dropped(dropped),
        })
    }
}

// Not derived: items need no default.
impl<T> Default for State<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            items: 0,
            bytes: 0,
            dropped: Dropped::default(),
            unreported: Dropped::default(),
            closed: false,
            abandoned: false,
            woken: false,
            sleeping: None,
            waker: None,
        }
    }
}

impl Dropped {
    fn add(&mut self, bytes: usize) {
        self.items += 1;
        self.bytes += bytes as u64;
    }
}

#[cfg(test)]
mod tests;
