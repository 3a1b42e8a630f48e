//! Empties the ring without delay: records are lost only while others wait in it.
//!
//! A dedicated thread copies records into batches and passes them on. The batches that wait, and the one that
//! is being read, have a bound in bytes. When the rest of the daemon falls that far behind, this thread waits,
//! the ring fills, and the probes count what they cannot write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use aya::maps::{MapData, RingBuf};
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::priority::Priority;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::mapped::MappedWords;
use super::record;

/// A batch is sent when it has this many bytes. Between two batches the receiver looks at the clock, so this also
/// bounds how late it can be.
const BATCH_BYTES: usize = 4 << 20;
/// A smaller one is sent only while fewer bytes than this are at the receiver: it would wait there anyway, and
/// grows meanwhile.
const RECEIVER_BUSY: usize = 64 << 10;
/// Bytes of all batches: those that wait, the one that grows, and the one that is being read. A burst that the
/// ring alone could not hold fits in here.
const BATCHES_BYTES: usize = 16 << 20;
/// Milliseconds before a busy receiver is looked at again.
const LOOK_AGAIN: u16 = 1;
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

    /// Moves records into a batch until it has `bytes`, or the ring is empty.
    fn take(&mut self, batch: &mut Vec<u8>, bytes: usize) {
        let read = self.read.all();
        while batch.len() < bytes {
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
pub struct Batch {
    bytes: Vec<u8>,
    backlog: Arc<Backlog>,
}

impl Batch {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of each record, for [`record::decode`].
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            // A batch holds whole records only; anything else ends it.
            let length = record::length(rest).ok()?;
            let (record, tail) = rest.split_at(length);
            rest = tail;
            Some(record)
        })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.backlog
            .0
            .fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// The bytes of the batches that were sent and still exist.
#[derive(Default)]
struct Backlog(AtomicUsize);

impl Backlog {
    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// A batch that counts until it is dropped.
    fn batch(self: &Arc<Self>, bytes: Vec<u8>) -> Batch {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Batch {
            bytes,
            backlog: Arc::clone(self),
        }
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

/// Starts the thread that empties `ring`, and calls `notifier` for each batch. After [`Drain::stop`] the
/// channel closes once the ring is empty.
///
/// # Errors
/// The thread cannot be started.
pub fn start(ring: Ring, notifier: Notifier) -> std::io::Result<(Drain, Receiver<Batch>)> {
    let stop = Arc::new(Stop {
        requested: AtomicBool::new(false),
        event: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
    });
    let wakeups = Wakeups::of(&ring.records, &stop.event)?;
    // Bounded by the bytes of what is in it.
    let (sender, receiver) = channel();
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("drain".into())
        .spawn(move || drain(ring, &wakeups, &sender, &notifier, &stopped))?;
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

fn drain(
    mut ring: Ring,
    wakeups: &Wakeups,
    sender: &Sender<Batch>,
    notifier: &Notifier,
    stop: &Stop,
) {
    Priority::Ring.claim();
    let backlog = Arc::new(Backlog::default());
    let mut batch = Vec::new();
    loop {
        let stopping = stop.requested.load(Ordering::Acquire);
        let room = BATCHES_BYTES.saturating_sub(backlog.bytes());
        ring.take(&mut batch, room.min(BATCH_BYTES));
        if batch.is_empty() && room > 0 {
            if stopping {
                return;
            }
            if wakeups.wait(LOOK_ANYWAY) {
                wakeups.wait(GATHER);
            }
        } else if batch.len() >= BATCH_BYTES || backlog.bytes() < RECEIVER_BUSY {
            if sender
                .send(backlog.batch(std::mem::take(&mut batch)))
                .is_err()
            {
                return;
            }
            notifier.notify();
        } else {
            wakeups.wait(LOOK_AGAIN);
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
