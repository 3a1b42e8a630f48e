//! Emptying the ring, at once and always: what waits in it is what can be lost.
//!
//! A thread of its own copies records out into batches and hands those on through a bounded
//! channel. When the rest of the daemon falls behind, this thread waits, the ring fills, and the
//! probes count what they could not write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use aya::maps::{MapData, RingBuf};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::record;
use crate::priority::Priority;

/// A batch is handed on when nothing else waits in the ring, or when it holds this many bytes. While
/// the receiver is busy it goes on growing, so that many small records do not take up the channel.
const BATCH_BYTES: usize = 8 << 20;
/// Batches that may wait. With the bytes of a batch this bounds what the daemon holds.
const BATCHES_MAX: usize = 2;
/// How long to wait before a batch is offered again, in milliseconds.
const OFFER_AGAIN: u16 = 1;
/// How long to let small records gather after the first that comes into an empty ring. The kernel
/// wakes a waiting reader for each such record, and whoever wrote it pays for the wake-up: without
/// the pause that is every message, with it one in two milliseconds. More bytes end the pause.
const GATHER: u16 = 2;
/// How often the thread looks whether it shall stop, in milliseconds.
const STOP_LOOK: u16 = 50;

/// Records, one behind the other as they came out of the ring.
#[derive(Default)]
pub struct Batch(Vec<u8>);

impl Batch {
    /// The records' bytes, each to be given to [`record::decode`].
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.0.as_slice();
        std::iter::from_fn(move || {
            // Only whole records were put in; anything else ends the batch.
            let length = record::length(rest).ok()?;
            let (record, tail) = rest.split_at(length);
            rest = tail;
            Some(record)
        })
    }
}

/// The running thread.
pub struct Drain {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Starts emptying `ring`. The receiver ends after [`Drain::stop`], when the ring is empty.
///
/// # Errors
/// The thread cannot be started.
pub fn start(ring: RingBuf<MapData>) -> std::io::Result<(Drain, Receiver<Batch>)> {
    let arrivals = Arrivals::of(&ring)?;
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let thread = std::thread::Builder::new()
        .name("drain".into())
        .spawn(move || drain(ring, &arrivals, &sender, &stopped))?;
    Ok((Drain { stop, thread }, receiver))
}

impl Drain {
    /// Asks the thread to end once the ring is empty. Detach the probes before.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Waits for the thread's end. The receiver must be read until it ends, or this waits forever.
    pub fn join(self) {
        if self.thread.join().is_err() {
            tracing::error!("the thread that empties the ring has panicked");
        }
    }
}

fn drain(
    mut ring: RingBuf<MapData>,
    arrivals: &Arrivals,
    sender: &SyncSender<Batch>,
    stop: &AtomicBool,
) {
    Priority::Ring.claim();
    let mut batch = Vec::new();
    loop {
        let stopping = stop.load(Ordering::Acquire);
        take(&mut ring, &mut batch);
        if batch.is_empty() {
            if stopping {
                return;
            }
            if arrivals.wait(STOP_LOOK) {
                arrivals.wait(GATHER);
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
            Ok(()) => {}
            Err(Some(Batch(back))) => {
                batch = back;
                arrivals.wait(OFFER_AGAIN);
            }
            Err(None) => return,
        }
    }
}

/// Moves what is in the ring into a batch, as far as it has room.
fn take(ring: &mut RingBuf<MapData>, batch: &mut Vec<u8>) {
    while batch.len() < BATCH_BYTES {
        let Some(item) = ring.next() else { return };
        // A record is as long as its size class; only the part in use is of interest.
        let Ok(length) = record::length(&item) else {
            tracing::warn!(bytes = item.len(), "a record that is shorter than it says");
            continue;
        };
        batch.extend_from_slice(&item[..length]);
    }
}

/// The kernel's notices that something came into the ring: one when it was empty before, and one for
/// each that adds to many bytes. Edges, not levels: what has been noticed is not noticed again.
struct Arrivals(Epoll);

impl Arrivals {
    fn of(ring: &RingBuf<MapData>) -> nix::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0);
        epoll.add(ring, event)?;
        Ok(Self(epoll))
    }

    /// Waits for a notice, and gives whether there was one.
    fn wait(&self, milliseconds: u16) -> bool {
        let mut events = [EpollEvent::empty()];
        // An interrupted wait is a short wait.
        let noticed = self.0.wait(&mut events, EpollTimeout::from(milliseconds));
        noticed.is_ok_and(|count| count > 0)
    }
}
