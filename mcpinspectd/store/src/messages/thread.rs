//! The thread that writes: records from a queue, in batches.
//!
//! The pipeline never waits for it. What the queue could not hold was counted there, what the disk does
//! not take is counted here, and both are reported. A crash of the daemon costs what was not committed,
//! at most [`GATHER`] of records.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::Record;
use mcpinspect_engine::event::Event;
use mcpinspect_engine::event::body::{StoreNotice, StoreTrouble};
use mcpinspect_engine::retention::RetentionRules;
use mcpinspect_runtime::priority::Priority;
use mcpinspect_runtime::queue::{Arrival, Bounds, Dropped, Received, Receiver};
use rusqlite::Connection;

use super::open::{self, Unusable};
use super::retention::Round;
use super::write::BatchWriter;

/// For how long records are gathered after the first.
const GATHER: Duration = Duration::from_millis(250);

/// Records of one batch, and their bytes.
const MAX_BATCH: Bounds = Bounds {
    items: 4096,
    bytes: 4 << 20,
};

/// After so long without a record, the memory that the file's pages take is given back: the kernel caches them too.
const QUIET: Duration = Duration::from_secs(5);

/// How long the disk is left alone after it failed.
const REST: Duration = Duration::from_secs(5);

/// Between two rounds of retention.
const RETAIN_EVERY: Duration = Duration::from_secs(60);

/// Between two reports of losses.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What the store keeps, and where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// Bytes that it may take; above, the oldest messages go.
    pub max_size: u64,
    /// What of which messages is kept, and for how long.
    pub rules: RetentionRules,
}

/// The thread at work. Dropping it waits until everything is written.
#[derive(Debug)]
pub struct Recorder {
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts the thread; it ends when the queue is closed and empty. `tell` receives events about losses
    /// and damage.
    ///
    /// # Errors
    /// There is no thread to be had. A file that cannot be opened is reported, and tried again.
    pub fn start(
        settings: Settings,
        records: Receiver<Record>,
        tell: impl Fn(Event) + Send + 'static,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name("messages".to_owned())
            .spawn(move || {
                Priority::Recording.claim();
                Writing::new(settings, tell).run(records);
            })?;
        Ok(Self {
            thread: Some(thread),
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes the message store panicked");
        }
    }
}

struct Writing<T> {
    settings: Settings,
    tell: T,
    store: Option<Store>,
    /// The disk failed, and is tried again at this time.
    resting: Option<Instant>,
    /// A newer version's file is left alone.
    given_up: bool,
    /// The round of retention under way, and when the last one ended.
    round: Option<Round>,
    retained: Option<Instant>,
    /// Bytes that were written since then.
    written: u64,
    /// What was lost since that was last reported, and when it was.
    lost: Dropped,
    reported: Option<Instant>,
}

struct Store {
    connection: Connection,
    writer: BatchWriter,
    /// Whether it wrote since it last gave back its cache of pages.
    has_cache: bool,
}

impl Store {
    /// Gives back the cache of the file's pages.
    fn shrink(&mut self) {
        self.has_cache = false;
        if let Err(error) = self.connection.execute_batch("PRAGMA shrink_memory") {
            tracing::debug!(%error, "cannot release the cache of the message store");
        }
    }
}

impl<T: Fn(Event)> Writing<T> {
    fn new(settings: Settings, tell: T) -> Self {
        Self {
            settings,
            tell,
            store: None,
            resting: None,
            given_up: false,
            round: None,
            retained: None,
            written: 0,
            lost: Dropped::default(),
            reported: None,
        }
    }

    fn run(mut self, mut records: Receiver<Record>) {
        self.open();
        loop {
            let has_cache = self.store.as_ref().is_some_and(|store| store.has_cache);
            let wait = match self.round {
                Some(_) => Duration::ZERO,
                None if has_cache => QUIET,
                None => RETAIN_EVERY,
            };
            let mut batch = Vec::new();
            let mut bytes = 0;
            let mut until = Instant::now() + wait;
            let mut closed = false;
            while batch.len() < MAX_BATCH.items && bytes < MAX_BATCH.bytes {
                match records.recv_until(until) {
                    Arrival::Received(Received::Item(record)) => {
                        if batch.is_empty() {
                            records.gather(MAX_BATCH, Instant::now() + GATHER);
                            // What is there by now.
                            until = Instant::now();
                        }
                        bytes += record.size();
                        batch.push(record);
                    }
                    Arrival::Received(Received::Dropped(dropped)) => self.lose(dropped),
                    Arrival::Received(Received::Woken) => {}
                    Arrival::Late => break,
                    Arrival::Closed => {
                        closed = true;
                        break;
                    }
                }
            }
            if !batch.is_empty() {
                self.write(&batch, bytes);
            } else if has_cache
                && self.round.is_none()
                && let Some(store) = &mut self.store
            {
                store.shrink();
            }
            if !closed {
                self.retain();
            }
            self.report(closed);
            if closed {
                return;
            }
        }
    }

    fn open(&mut self) {
        let path = self.settings.path.clone();
        let opened = prepare(&path, &self.settings.rules);
        match opened {
            Ok(store) => {
                self.store = Some(store);
                self.retained = None;
            }
            Err(Unusable::Damaged(detail)) => self.set_aside(&path, &detail),
            Err(error @ Unusable::Newer(_)) => {
                self.given_up = true;
                self.notice(StoreTrouble::Newer, Some(error.to_string()));
            }
            Err(Unusable::Failed(error)) => self.failed(&error),
        }
    }

    /// Goes on with a new file, and the damaged one beside it.
    fn set_aside(&mut self, path: &Path, detail: &str) {
        self.store = None;
        match open::set_aside(path) {
            Ok(aside) => {
                let detail = format!(
                    "{detail}; the damaged file was renamed to {}",
                    aside.display()
                );
                self.notice(StoreTrouble::SetAside, Some(detail));
                match prepare(path, &self.settings.rules) {
                    Ok(store) => self.store = Some(store),
                    Err(Unusable::Failed(error)) => self.failed(&error),
                    Err(error) => self.rest(error.to_string()),
                }
            }
            Err(error) => self.rest(format!(
                "damaged ({detail}), and cannot be renamed: {error}"
            )),
        }
    }

    fn failed(&mut self, error: &rusqlite::Error) {
        self.rest(error.to_string());
    }

    fn rest(&mut self, detail: String) {
        if self.resting.is_none() {
            self.notice(StoreTrouble::Failing, Some(detail));
        }
        self.resting = Some(Instant::now() + REST);
    }

    fn write(&mut self, batch: &[Record], bytes: usize) {
        let lost = Dropped {
            items: batch.len() as u64,
            bytes: bytes as u64,
        };
        if self.given_up || self.resting.is_some_and(|until| Instant::now() < until) {
            return self.lose(lost);
        }
        if self.store.is_none() {
            self.open();
        }
        let Some(store) = &mut self.store else {
            return self.lose(lost);
        };
        store.has_cache = true;
        match store.writer.write(&mut store.connection, batch) {
            Ok(()) => {
                self.written += bytes as u64;
                if self.resting.take().is_some() {
                    self.notice(StoreTrouble::Recovered, None);
                }
            }
            Err(error) if open::is_damage(&error) => {
                let path = self.settings.path.clone();
                self.set_aside(&path, &error.to_string());
                let again = self.store.as_mut().map(|store| {
                    let Store {
                        connection, writer, ..
                    } = store;
                    writer.write(connection, batch)
                });
                if !matches!(again, Some(Ok(()))) {
                    self.lose(lost);
                }
            }
            Err(error) => {
                self.failed(&error);
                self.lose(lost);
            }
        }
    }

    /// Removes some of what is too old or too much: every minute, and when much was written.
    fn retain(&mut self) {
        let Settings {
            max_size, rules, ..
        } = &self.settings;
        let is_due = self
            .retained
            .is_none_or(|last| last.elapsed() >= RETAIN_EVERY || self.written > max_size / 8);
        let Some(store) = self.store.as_mut() else {
            return;
        };
        if self.round.is_none() && !is_due {
            return;
        }
        let round = self.round.get_or_insert_default();
        let step = round.step(&mut store.connection, rules, *max_size, Timestamp::now());
        if matches!(step, Ok(false)) {
            return;
        }
        self.round = None;
        self.retained = Some(Instant::now());
        self.written = 0;
        match step {
            Err(error) if open::is_damage(&error) => {
                let path = self.settings.path.clone();
                self.set_aside(&path, &error.to_string());
            }
            Err(error) => tracing::warn!(%error, "cannot remove old messages from the store"),
            Ok(_) => {}
        }
    }

    fn lose(&mut self, dropped: Dropped) {
        self.lost.items += dropped.items;
        self.lost.bytes += dropped.bytes;
    }

    /// Reports what was lost, at once the first time and then now and then.
    fn report(&mut self, at_once: bool) {
        let is_due = at_once || self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if self.lost.items > 0 && is_due {
            self.reported = Some(Instant::now());
            self.notice(StoreTrouble::Dropped, None);
        }
    }

    fn notice(&mut self, trouble: StoreTrouble, detail: Option<String>) {
        let lost = std::mem::take(&mut self.lost);
        tracing::warn!(
            trouble = trouble.as_str(),
            detail,
            lost = lost.items,
            "message store"
        );
        let body = StoreNotice {
            trouble,
            path: self.settings.path.display().to_string(),
            dropped: lost.items,
            dropped_bytes: lost.bytes,
            detail,
        };
        (self.tell)(Event::of_daemon(Timestamp::now(), body));
    }
}

fn prepare(path: &Path, rules: &RetentionRules) -> Result<Store, Unusable> {
    let connection = open::create(path)?;
    // Sessions that an earlier run left open ended with it.
    connection.execute(
        "UPDATE session SET ended = last, end_reason = 'monitoring_stopped', in_flight = 0
         WHERE ended IS NULL AND imported = 0",
        [],
    )?;
    let writer = BatchWriter::new(rules.clone(), false)
        .map_err(|error| Unusable::Failed(rusqlite::Error::ToSqlConversionFailure(error.into())))?;
    Ok(Store {
        connection,
        writer,
        has_cache: false,
    })
}
