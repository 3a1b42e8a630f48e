//! A storage that writes on a separate thread, and the outbox that holds events until then.
//!
//! A commit takes as long as the disk does: milliseconds usually, a second while something else writes
//! a lot. The thread that takes the kernel's records through the pipeline must not wait for that: while
//! it does, the ring fills, and what does not fit is lost. So it hands its writes over and goes on, and
//! only the *events* wait. They pass an [`Outbox`], which lets an event out when everything
//! recorded before it is on disk, or was tried and failed. The order of events does not change; events
//! without a write before them pass at once.
//!
//! All writes that have gathered since the last commit go into the next one, with two exceptions: the note
//! that an event reported a decision is written after that event is out, and a person's decision is written
//! separately, to report whether it succeeded. What waits is bounded. Above the bound the pipeline waits for
//! the disk.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use mcpinspect_core::model::{DefinitionHash, Timestamp};
use mcpinspect_judge::registry::{
    Contents, Decision, DecisionDone, DecisionWrite, DefinitionVersion, ItemDecision, ItemKey,
    ItemView, ServerOf, ServerUsage, Storage, StorageError, StorageHealth, StoredItem, Write,
};
use mcpinspect_runtime::priority::Priority;

use super::backlog::{Backlog, RETRY_AFTER, cut_at_moved};
use super::database::{Commit, Database};
use super::values::failed;

/// Most writes that wait for their first attempt.
const MAX_WRITES: u64 = 8192;
/// Most bytes of definitions in them.
const MAX_BYTES: usize = 8 << 20;
/// Most events that wait for writes.
const MAX_WAITING: usize = 8192;

/// The pipeline's side: implements [`Storage`] for the registry. Reads on the calling thread.
pub(super) struct WriteBehind<T> {
    reader: Database,
    queue: Arc<Queue<T>>,
    /// The data version when last checked, which the writing thread's commits change too.
    data_version: i64,
    /// Whether decisions that were found could not be followed yet.
    behind: bool,
}

/// The writing thread before its start.
#[derive(Debug)]
pub struct Writer<T> {
    database: Database,
    queue: Arc<Queue<T>>,
}

/// Lets events out in order, each after the writes that were recorded before it.
#[derive(Debug)]
pub struct Outbox<T> {
    queue: Arc<Queue<T>>,
    tell: Tell<T>,
    thread: Option<JoinHandle<()>>,
}

/// Where events go.
struct Tell<T>(Arc<dyn Fn(T) + Send + Sync>);

impl<T> Clone for Tell<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Tell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tell")
    }
}

#[derive(Debug)]
struct Queue<T> {
    state: Mutex<State<T>>,
    /// There may be work for the thread.
    work: Condvar,
    /// There may be room again.
    room: Condvar,
}

/// What the two threads share. Writes are numbered from 0 in the order in which they are recorded.
struct State<T> {
    /// All writes that are not on disk.
    backlog: Backlog,
    /// The number of the first write in the backlog.
    first: u64,
    /// The number of the first write that was not tried.
    untried: u64,
    /// Bytes of definitions in writes that were not tried.
    untried_bytes: usize,
    /// What waits until all writes before a number were tried.
    waiting: VecDeque<(u64, Waiting<T>)>,
    /// Whether the thread is emitting an event right now.
    telling: bool,
    /// Whether the outbox is gone: the thread does what is left and ends.
    closed: bool,
    /// Whether the thread is gone.
    ended: bool,
}

enum Waiting<T> {
    Event(T),
    Decision(DecisionWrite, DecisionDone),
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("unwritten", &self.backlog.len())
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for WriteBehind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteBehind")
            .field(&self.queue.lock())
            .finish()
    }
}

impl<T> State<T> {
    /// The number of the next write.
    fn next(&self) -> u64 {
        self.first + self.backlog.len() as u64
    }

    /// The end of the writes that may be committed now: all of them, up to the first that has to follow
    /// an event that still waits.
    fn committable(&self) -> u64 {
        let Some((after, _)) = self.waiting.front() else {
            return self.next();
        };
        let skipped = usize::try_from(after.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let reported = |write: &Write| matches!(write, Write::Reported { .. });
        let blocked = self.backlog.iter().skip(skipped).position(reported);
        blocked.map_or(self.next(), |at| {
            (self.first + (skipped + at) as u64).max(self.untried)
        })
    }

    fn has_room(&self) -> bool {
        self.next() - self.untried < MAX_WRITES && self.untried_bytes < MAX_BYTES
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // The state is consistent after every statement, even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State<T>>) -> MutexGuard<'s, State<T>> {
        condition
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both sides of a storage on two connections to one database.
pub(super) fn new<T>(
    writer: Database,
    reader: Database,
) -> Result<(WriteBehind<T>, Writer<T>), StorageError> {
    let queue = Arc::new(Queue {
        state: Mutex::new(State {
            backlog: Backlog::default(),
            first: 0,
            untried: 0,
            untried_bytes: 0,
            waiting: VecDeque::new(),
            telling: false,
            closed: false,
            ended: false,
        }),
        work: Condvar::new(),
        room: Condvar::new(),
    });
    let storage = WriteBehind {
        data_version: reader.data_version().map_err(failed)?,
        reader,
        queue: Arc::clone(&queue),
        behind: false,
    };
    let writer = Writer {
        database: writer,
        queue,
    };
    Ok((storage, writer))
}

impl<T: Send + 'static> Writer<T> {
    /// Starts the thread. Events that pass the outbox go to `tell`, on the thread that pushes them or
    /// on this one.
    ///
    /// # Errors
    /// If the system cannot start another thread.
    pub fn start(self, tell: impl Fn(T) + Send + Sync + 'static) -> std::io::Result<Outbox<T>> {
        start(self.database, self.queue, tell)
    }
}

fn start<T: Send + 'static>(
    database: impl Commit,
    queue: Arc<Queue<T>>,
    tell: impl Fn(T) + Send + Sync + 'static,
) -> std::io::Result<Outbox<T>> {
    let tell = Tell(Arc::new(tell));
    let thread = std::thread::Builder::new().name("registry".to_owned());
    let (shared, events) = (Arc::clone(&queue), tell.clone());
    let thread = thread.spawn(move || {
        Priority::Pipeline.claim();
        let ended = Ended(Arc::clone(&shared));
        run(database, &shared, &events);
        drop(ended);
    })?;
    Ok(Outbox {
        queue,
        tell,
        thread: Some(thread),
    })
}

/// Notes that the thread is gone, however it ended, so that no thread waits for it.
struct Ended<T>(Arc<Queue<T>>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.room.notify_all();
    }
}

impl<T> Outbox<T> {
    /// Lets `event` out once everything recorded before it is on disk, after all events pushed before
    /// it. Waits only if too many events wait already.
    pub fn push(&mut self, event: T) {
        let mut state = self.queue.lock();
        while state.waiting.len() >= MAX_WAITING && !state.ended {
            state = Queue::wait(&self.queue.room, state);
        }
        let after = state.next();
        let passes = state.waiting.is_empty() && !state.telling && state.untried == after;
        if passes || state.ended {
            let left = std::mem::take(&mut state.waiting);
            drop(state);
            for (_, waiting) in left {
                match waiting {
                    Waiting::Event(event) => (self.tell.0)(event),
                    Waiting::Decision(_, done) => done(Err(ended())),
                }
            }
            // No other event can come in between: only this thread pushes.
            (self.tell.0)(event);
            return;
        }
        state.waiting.push_back((after, Waiting::Event(event)));
        drop(state);
        self.queue.work.notify_one();
    }

    /// Writes what was recorded, lets the remaining events out, and ends the thread.
    pub fn finish(mut self) {
        self.close();
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.queue.lock().closed = true;
        self.queue.work.notify_one();
        if thread.join().is_err() {
            tracing::error!("the thread that writes the tool registry panicked");
        }
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.close();
    }
}

fn ended() -> StorageError {
    StorageError("the thread that writes the tool registry has ended".to_owned())
}

/// The thread: commits what was recorded, then lets out what waited for it.
fn run<T>(mut database: impl Commit, queue: &Queue<T>, tell: &Tell<T>) {
    let mut state = queue.lock();
    loop {
        let now = Timestamp::now();
        let end = state.committable();
        let is_due = match state.backlog.has_failed() {
            true => state.closed || !state.backlog.is_backing_off(now),
            false => end > state.untried,
        };
        if is_due && !state.backlog.is_empty() {
            state = commit(&mut database, queue, state, end, now);
        } else if end > state.untried {
            // The disk failed a moment ago. Memory goes on, and so do the events.
            state.untried = end;
            state.untried_bytes = 0;
        }
        let mut told = false;
        state.telling = true;
        while state
            .waiting
            .front()
            .is_some_and(|(after, _)| *after <= state.untried)
        {
            let Some((_, waiting)) = state.waiting.pop_front() else {
                break;
            };
            told = true;
            match waiting {
                Waiting::Event(event) => {
                    drop(state);
                    (tell.0)(event);
                    state = queue.lock();
                }
                Waiting::Decision(decision, done) => {
                    state = decide(&mut database, queue, state, &decision, done, now);
                }
            }
        }
        state.telling = false;
        queue.room.notify_all();
        if told || state.committable() > state.untried {
            continue;
        }
        if state.closed {
            return;
        }
        state = match state.backlog.has_failed() {
            true => {
                let pause = Duration::from_nanos(RETRY_AFTER);
                let woken = queue.work.wait_timeout(state, pause);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            false => Queue::wait(&queue.work, state),
        };
    }
}

/// Writes the backlog up to the write numbered `end`, with the state unlocked.
fn commit<'q, T>(
    database: &mut impl Commit,
    queue: &'q Queue<T>,
    mut state: MutexGuard<'q, State<T>>,
    end: u64,
    now: Timestamp,
) -> MutexGuard<'q, State<T>> {
    let count = usize::try_from(end - state.first).unwrap_or(usize::MAX);
    let batch: Vec<Write> = state.backlog.iter().take(count).cloned().collect();
    let tried: usize = batch.iter().map(Write::size).sum();
    drop(state);
    let result = database.write(&mut batch.iter());
    state = queue.lock();
    match result {
        Ok(()) => {
            // Some may have been given up meanwhile.
            let left = usize::try_from(end.saturating_sub(state.first)).unwrap_or(usize::MAX);
            state.backlog.stored(left);
            state.first = state.first.max(end);
        }
        Err(error) => state.first += state.backlog.failed(error, now) as u64,
    }
    state.untried_bytes = state.untried_bytes.saturating_sub(tried);
    state.untried = state.untried.max(end).max(state.first);
    state
}

/// Writes a person's decision. What was recorded before must be on disk first.
fn decide<'q, T>(
    database: &mut impl Commit,
    queue: &'q Queue<T>,
    mut state: MutexGuard<'q, State<T>>,
    decision: &DecisionWrite,
    done: DecisionDone,
    now: Timestamp,
) -> MutexGuard<'q, State<T>> {
    let end = state.untried;
    if state.backlog.has_failed() && end > state.first {
        state = commit(database, queue, state, end, now);
    }
    let error = state.backlog.health().error;
    drop(state);
    done(match error {
        Some(error) => Err(StorageError(error)),
        None => database.decide(decision),
    });
    queue.lock()
}

impl<T: Send> Storage for WriteBehind<T> {
    fn load(&mut self) -> Result<Contents, StorageError> {
        self.reader.load().map_err(failed)
    }

    fn record(&mut self, writes: Vec<Write>, _now: Timestamp) {
        if writes.is_empty() {
            return;
        }
        let mut state = self.queue.lock();
        while !state.has_room() && !state.ended {
            state = Queue::wait(&self.queue.room, state);
        }
        state.untried_bytes += writes.iter().map(Write::size).sum::<usize>();
        state.backlog.extend(writes);
        // Between two attempts on a failing disk, nothing else bounds what waits.
        let lost = state.backlog.give_up_excess();
        state.first += lost as u64;
        state.untried = state.untried.max(state.first);
        if state.ended {
            let lost = state.backlog.failed(ended(), Timestamp::now());
            state.first += lost as u64;
            state.untried = state.next();
        }
        drop(state);
        self.queue.work.notify_one();
    }

    fn is_settled(&self) -> bool {
        let state = self.queue.lock();
        state.untried == state.next() && state.waiting.is_empty()
    }

    fn health(&self) -> StorageHealth {
        self.queue.lock().backlog.health()
    }

    fn decide(&mut self, decision: DecisionWrite, done: DecisionDone) {
        let mut state = self.queue.lock();
        if state.ended {
            drop(state);
            return done(Err(ended()));
        }
        let after = state.next();
        state
            .waiting
            .push_back((after, Waiting::Decision(decision, done)));
        drop(state);
        self.queue.work.notify_one();
    }

    fn has_changed(&mut self) -> Result<bool, StorageError> {
        let before = std::mem::replace(
            &mut self.data_version,
            self.reader.data_version().map_err(failed)?,
        );
        Ok(std::mem::take(&mut self.behind) || before != self.data_version)
    }

    fn decided_after(&mut self, decision: i64) -> Result<Vec<(i64, StoredItem)>, StorageError> {
        // Before the database is read: a write stored in between is part of what is read.
        let moved = self.queue.lock().backlog.moved_pins();
        let mut decided = self.reader.decided_after(decision).map_err(failed)?;
        self.behind |= cut_at_moved(&mut decided, &moved);
        Ok(decided)
    }

    fn untold(
        &mut self,
        decision: i64,
        limit: usize,
    ) -> Result<Vec<(i64, ItemDecision)>, StorageError> {
        self.reader.untold(decision, limit).map_err(failed)
    }

    fn definition(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
    ) -> Result<Option<Arc<str>>, StorageError> {
        let state = self.queue.lock();
        if let Some(text) = state.backlog.definition(server, key, hash) {
            return Ok(Some(text));
        }
        let former = state.backlog.former(server);
        drop(state);
        self.reader
            .definition(server, former.as_deref(), key, hash)
            .map_err(failed)
    }

    fn versions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<DefinitionVersion>, StorageError> {
        self.reader.versions(server, key).map_err(failed)
    }

    fn decisions(
        &self,
        server: ServerOf<'_>,
        key: &ItemKey,
    ) -> Result<Vec<Decision>, StorageError> {
        self.reader.decisions(server, key).map_err(failed)
    }

    fn items(&self, server: Option<&str>) -> Result<Vec<ItemView>, StorageError> {
        self.reader.items(server).map_err(failed)
    }

    fn usage(&self) -> Result<Vec<ServerUsage>, StorageError> {
        self.reader.usage().map_err(failed)
    }
}

#[cfg(test)]
mod tests;
