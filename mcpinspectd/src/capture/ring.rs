//! Empties the ring without delay: records are lost only while others wait in it.
//!
//! A dedicated thread copies records into batches and passes them on through a bounded channel. When
//! the rest of the daemon falls behind, this thread waits, the ring fills, and the probes count what
//! they cannot write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use aya::maps::{MapData, RingBuf};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::mapped::MappedWords;
use super::record;
use crate::bell::Bell;
use crate::priority::Priority;

/// A batch is sent when the ring is empty or the batch has this many bytes. While the receiver is busy
/// the batch keeps growing, so that many small records do not fill the channel.
const BATCH_BYTES: usize = 4 << 20;
/// Batches that may wait. Multiplied by the size of a batch, this bounds the memory that the daemon holds.
const BATCHES_MAX: usize = 2;
/// Milliseconds before a batch is offered to a busy receiver again.
const OFFER_AGAIN: u16 = 1;
/// Milliseconds in which small records gather after the first one in an empty ring. The kernel wakes
/// a waiting reader for each such record, and the process that wrote it pays for the wake-up: without
/// the pause once per message, with it once per two milliseconds. Many bytes end the pause early.
const GATHER: u16 = 2;

/// Milliseconds after which the ring is checked without a notification: a lost one must not leave the
/// daemon blind.
const LOOK_ANYWAY: u16 = 1000;

/// The probes' ring, and how much of each user's records was read.
pub struct Ring {
    records: RingBuf<MapData>,
    read: MappedWords,
}

impl Ring {
    /// A ring with the array in which its reader counts.
    pub fn new(records: RingBuf<MapData>, read: MappedWords) -> Self {
        Self { records, read }
    }

    /// Moves records into a batch while it has room.
    fn take(&mut self, batch: &mut Vec<u8>) {
        let read = self.read.all();
        while batch.len() < BATCH_BYTES {
            let Some(item) = self.records.next() else {
                return;
            };
            if let Some(count) = record::share(&item).and_then(|share| read.get(usize::from(share)))
            {
                count.fetch_add(item.len() as u64, Ordering::Relaxed);
            }
            // An entry is as long as its size class; only the part in use is copied.
            let Ok(length) = record::length(&item) else {
                tracing::warn!(
                    bytes = item.len(),
                    "dropped a record that is shorter than its header says"
                );
                continue;
            };
            batch.extend_from_slice(&item[..length]);
        }
    }
}

/// Records, one after another as they came out of the ring.
#[derive(Default)]
pub struct Batch(Vec<u8>);

impl Batch {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// The bytes of each record, for [`record::decode`].
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            // A batch holds whole records only; anything else ends it.
            let length = record::length(rest).ok()?;
            let (record, tail) = rest.split_at(length);
            rest = tail;
            Some(record)
        })
    }
}

/// The running thread.
pub struct Drain {
    stop: Arc<Stop>,
    thread: JoinHandle<()>,
}

/// A request to stop, which ends a wait.
struct Stop {
    requested: AtomicBool,
    event: EventFd,
}

/// Starts the thread that empties `ring`, and rings `bell` for each batch. After [`Drain::stop`] the
/// channel closes once the ring is empty.
///
/// # Errors
/// The thread cannot be started.
pub fn start(ring: Ring, bell: Bell) -> std::io::Result<(Drain, Receiver<Batch>)> {
    let stop = Arc::new(Stop {
        requested: AtomicBool::new(false),
        event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
    });
    let wakeups = Wakeups::of(&ring.records, &stop.event)?;
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("drain".into())
        .spawn(move || drain(ring, &wakeups, &sender, &bell, &stopped))?;
    Ok((Drain { stop, thread }, receiver))
}

impl Drain {
    /// Asks the thread to end once the ring is empty. Detach the probes first.
    pub fn stop(&self) {
        self.stop.requested.store(true, Ordering::Release);
        if let Err(error) = self.stop.event.write(1) {
            tracing::error!(%error, "cannot wake the thread that empties the ring");
        }
    }

    /// Waits for the thread to end. Read the receiver until it closes first, or this waits forever.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread that empties the ring has panicked");
        }
    }
}

fn drain(mut ring: Ring, wakeups: &Wakeups, sender: &SyncSender<Batch>, bell: &Bell, stop: &Stop) {
    Priority::Ring.claim();
    let mut batch = Vec::new();
    loop {
        let stopping = stop.requested.load(Ordering::Acquire);
        ring.take(&mut batch);
        if batch.is_empty() {
            if stopping {
                return;
            }
            if wakeups.wait(LOOK_ANYWAY) {
                wakeups.wait(GATHER);
            }
            continue;
        }
        let full = batch.len() >= BATCH_BYTES || stopping;
        let offered = Batch(std::mem::take(&mut batch));
        let sent = if full {
            sender.send(offered).map_err(|_| None)
        } else {
            sender.try_send(offered).map_err(|error| match error {
                TrySendError::Full(offered) => Some(offered),
                TrySendError::Disconnected(_) => None,
            })
        };
        match sent {
            Ok(()) => bell.ring(),
            Err(Some(Batch(back))) => {
                batch = back;
                wakeups.wait(OFFER_AGAIN);
            }
            Err(None) => return,
        }
    }
}

/// The kernel's notifications about new records (one if the ring was empty before, and one for each
/// record while many bytes wait) and about a request to stop. Edge-triggered: each record notifies only once.
struct Wakeups(Epoll);

impl Wakeups {
    fn of(ring: &RingBuf<MapData>, stop: &EventFd) -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(ring, event)?;
        epoll.add(stop, event)?;
        Ok(Self(epoll))
    }

    /// Waits for a notification. Returns whether there was one.
    fn wait(&self, milliseconds: impl Into<EpollTimeout>) -> bool {
        let mut events = [EpollEvent::empty()];
        // An interrupted wait counts as a short one: the caller looks either way.
        self.0
            .wait(&mut events, milliseconds)
            .is_ok_and(|count| count > 0)
    }
}
