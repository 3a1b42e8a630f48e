//! From inputs to rows, in bounded memory and on all cores.
//!
//! Some threads read inputs and cut them into chunks, and as many others parse the chunks and gather
//! rows. A full gatherer is emptied into the one table of all rows, in a temporary file or in that of the
//! state. What fits in memory never touches the disk.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use thiserror::Error;

use super::framing::{self, Chunk, Unfinished};
use super::gather::Gatherer;
use super::journal::{self, Extent, Header, JournalError, Verify};
use super::origin;
use super::state::{Positions, StateDirectory, StateError};
use super::table::RowTable;

/// The start of a file compressed by zstd.
const ZSTD: &[u8; 4] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Largest window of a compressed file, as a power of two: 32 MiB, which every level of zstd up to 20
/// keeps to, and for which each core has room.
const ZSTD_WINDOW: u32 = 25;

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file: `journalctl -o json` or `-o export`, compressed by zstd or not.
    File(PathBuf),
    /// A file in the journal's own format.
    Journal(PathBuf),
    /// Standard input, as a file.
    Standard,
}

impl Input {
    /// What is at `path`: a file, or a directory with journals.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn at(path: &Path) -> io::Result<Vec<Self>> {
        if path.is_dir() {
            let files = journal::files(path)?;
            return Ok(files.into_iter().map(Self::Journal).collect());
        }
        let mut begin = Vec::new();
        if path.is_file() {
            let file = File::open(path)?;
            file.take(journal::MAGIC.len() as u64)
                .read_to_end(&mut begin)?;
        }
        Ok(vec![if begin == journal::MAGIC {
            Self::Journal(path.to_owned())
        } else {
            Self::File(path.to_owned())
        }])
    }

    fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Journal(path) => path,
            Self::Standard => Path::new("standard input"),
        }
    }
}

/// How to collect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes for rows in memory: half of them for gathering, half for the table.
    pub memory: usize,
    /// Where to put what does not fit.
    pub temporary: PathBuf,
    /// Threads that parse entries.
    pub threads: usize,
    /// The start of the journal entries to read, as journalctl understands it.
    pub since: Option<String>,
    /// When to stop reading journals.
    pub deadline: Option<Instant>,
    /// Whether each event is also a row of its own.
    pub events: bool,
    /// Whether journal files are named after their senders' certificates.
    pub certified: bool,
    /// Whether to verify journal files before reading them, and with which key.
    pub verify: Option<Verify>,
}

impl Default for Options {
    /// Uses every core, and 144 MiB for rows: in total, less than 256 MiB.
    fn default() -> Self {
        Self {
            memory: 144 << 20,
            temporary: std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from),
            threads: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            since: None,
            deadline: None,
            events: false,
            certified: false,
            verify: None,
        }
    }
}

/// Progress, for people who wait.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub read: AtomicU64,
    /// Total bytes, where known.
    pub total: AtomicU64,
    /// Entries taken in.
    pub entries: AtomicU64,
}

/// Why a collection cannot be read.
#[derive(Debug, Error)]
pub enum CollectError {
    /// An input cannot be read.
    #[error("cannot read {path}: {error}")]
    Input {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: JournalError,
    },
    /// There is no room for what does not fit in memory.
    #[error(
        "cannot write temporary files in {path}: {error}; name another directory with --temporary"
    )]
    Temporary {
        /// Which directory.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

/// What was read.
#[derive(Debug)]
pub struct Collected {
    /// All rows.
    pub rows: RowTable,
    /// Whether everything was read.
    pub extent: Extent,
    /// Journals that journalctl could not read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

struct Shared<'a> {
    options: &'a Options,
    progress: &'a Progress,
    previous: &'a Positions,
    inputs: Mutex<VecDeque<Input>>,
    positions: Mutex<Positions>,
    /// Rows beyond what one gatherer has; `None` until there are any.
    rows: Mutex<Option<RowTable>>,
    unreadable: Mutex<Vec<(PathBuf, String)>>,
    failed: Mutex<Option<CollectError>>,
    is_over: AtomicBool,
    is_cut: AtomicBool,
    state: Option<&'a StateDirectory>,
}

/// Reads inputs; continues where the state in `state` ends, if there is one.
///
/// # Errors
/// See [`CollectError`].
pub fn collect(
    inputs: Vec<Input>,
    state: Option<&StateDirectory>,
    options: &Options,
    progress: &Progress,
) -> Result<Collected, CollectError> {
    let (mut positions, mut next, mut rows) = (Positions::default(), None, None);
    if let Some(state) = state {
        let (begun, before, resumed) = state.resume()?;
        resumed
            .set_cache(options.memory / 2)
            .map_err(|error| state.failed(error))?;
        (positions, next, rows) = (before, Some(begun), Some(resumed));
    }
    let sizes = inputs.iter().map(|input| size(input.path()));
    progress.total.store(sizes.sum(), Ordering::Relaxed);
    let readers = inputs.len().clamp(1, options.threads.max(1));
    let shared = Shared {
        options,
        progress,
        previous: &positions,
        inputs: Mutex::new(inputs.into()),
        positions: Mutex::default(),
        rows: Mutex::new(rows),
        unreadable: Mutex::default(),
        failed: Mutex::default(),
        is_over: AtomicBool::new(false),
        is_cut: AtomicBool::new(false),
        state,
    };
    let (sender, receiver) = sync_channel(2);
    let receiver = Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..readers {
            let sender = sender.clone();
            scope.spawn(|| shared.read(sender));
        }
        drop(sender);
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| shared.gather(&receiver));
        }
    });
    if let Some(error) = lock(&shared.failed).take() {
        return Err(error);
    }
    let extent = match shared.is_cut.load(Ordering::Relaxed) {
        true => Extent::Cut,
        false => Extent::Whole,
    };
    let unreadable = std::mem::take(&mut *lock(&shared.unreadable));
    let new = std::mem::take(&mut *lock(&shared.positions));
    let mut rows = match lock(&shared.rows).take() {
        Some(rows) => rows,
        None => RowTable::in_memory().map_err(|error| shared.no_room(error))?,
    };
    positions.update(new);
    if let Some(next) = next {
        next.commit(&mut rows, &positions)?;
    }
    Ok(Collected {
        rows,
        extent,
        unreadable,
    })
}

impl Shared<'_> {
    fn fail(&self, error: CollectError) {
        lock(&self.failed).get_or_insert(error);
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Reads inputs until there are none.
    fn read(&self, sender: SyncSender<Chunk>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(input) = lock(&self.inputs).pop_front() else {
                return;
            };
            let mut send = |chunk| match self.is_over.load(Ordering::Relaxed) {
                true => Err(over()),
                false => sender.send(chunk).map_err(|_| over()),
            };
            let outcome = match &input {
                Input::Standard => {
                    framing::chunks(io::stdin().lock(), Unfinished::Counted, &mut 0, &mut send)
                        .map_err(JournalError::Io)
                }
                Input::File(path) => self.file(path, &mut send).map_err(JournalError::Io),
                Input::Journal(path) => self.journal(path, &mut send),
            };
            if let Err(error) = outcome {
                let path = input.path().to_owned();
                self.fail(CollectError::Input { path, error });
            }
        }
    }

    fn file(&self, path: &Path, send: &mut impl FnMut(Chunk) -> io::Result<()>) -> io::Result<()> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return framing::chunks(file, Unfinished::Counted, &mut 0, send);
        }
        let mut begin = [0; ZSTD.len()];
        let is_compressed = file.read_exact(&mut begin).is_ok() && begin == *ZSTD;
        let mut offset = self.previous.offset(&file)?;
        file.seek(io::SeekFrom::Start(offset))?;
        let counted = CountingReader(&file, &self.progress.read);
        self.progress.read.fetch_add(offset, Ordering::Relaxed);
        if is_compressed {
            // Up to its end a compressed file is complete, and another may be appended.
            let end = file.metadata()?.len();
            if offset < end {
                let mut plain = zstd::stream::read::Decoder::new(counted.take(end - offset))?;
                plain.window_log_max(ZSTD_WINDOW)?;
                framing::chunks(plain, Unfinished::Counted, &mut 0, send)?;
            }
            offset = end;
        } else {
            let unfinished = match self.state.is_some() {
                true => Unfinished::Left,
                false => Unfinished::Counted,
            };
            framing::chunks(counted, unfinished, &mut offset, send)?;
        }
        if self.state.is_some() {
            lock(&self.positions).set_offset(path, &file, offset)?;
        }
        Ok(())
    }

    fn journal(
        &self,
        path: &Path,
        send: &mut impl FnMut(Chunk) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        let is_late = self
            .options
            .deadline
            .is_some_and(|end| end <= Instant::now());
        if is_late {
            self.is_cut.store(true, Ordering::Relaxed);
            return Ok(());
        }
        let header = Header::of(path)?;
        let (cursor, entries) = match &header {
            Some(header) => self.previous.cursor(&header.id),
            None => (None, None),
        };
        self.progress.read.fetch_add(size(path), Ordering::Relaxed);
        let mut last = cursor.map(str::to_owned);
        if let Some(header) = &header
            && entries == Some(header.entries)
        {
            // It may have another name now.
            lock(&self.positions).set_cursor(path, &header.id, last, entries);
            return Ok(());
        }
        let options = self.options;
        if let Some(verify) = &options.verify {
            match journal::verify(path, verify, options.deadline) {
                Ok(Extent::Whole) => {}
                Ok(Extent::Cut) => {
                    self.is_cut.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Err(JournalError::Tool { stderr, .. }) => {
                    let reason = format!("is damaged or was modified: {stderr}");
                    lock(&self.unreadable).push((path.to_owned(), reason));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let origin = options.certified.then(|| origin::of_file(path)).flatten();
        let origin: Option<Arc<str>> = origin.map(Into::into);
        let mut send = |mut chunk: Chunk| {
            chunk.set_origin(origin.clone());
            send(chunk)
        };
        let read = journal::read(
            path,
            cursor,
            options.since.as_deref(),
            options.deadline,
            &mut |chunk: Chunk| {
                let cursor = self.state.is_some().then(|| chunk.last_cursor()).flatten();
                send(chunk)?;
                last = cursor.or(last.take());
                Ok(())
            },
        );
        let read = match read {
            Ok(Extent::Whole) => journal::last_words(path, options.deadline, &mut send),
            other => other,
        };
        let mut entries = header.as_ref().map(|header| header.entries);
        match read {
            Ok(Extent::Whole) => {}
            Ok(Extent::Cut) => {
                self.is_cut.store(true, Ordering::Relaxed);
                entries = None;
            }
            Err(JournalError::Tool { status, stderr }) => {
                let reason = JournalError::Tool { status, stderr }.to_string();
                lock(&self.unreadable).push((path.to_owned(), reason));
                entries = None;
            }
            Err(error) => return Err(error),
        }
        if let Some(header) = header.filter(|_| self.state.is_some()) {
            lock(&self.positions).set_cursor(path, &header.id, last, entries);
        }
        Ok(())
    }

    /// Gathers rows until there are no more chunks.
    fn gather(&self, chunks: &Mutex<Receiver<Chunk>>) {
        let mut rows = Gatherer::new(
            self.options.memory / 2 / self.options.threads.max(1),
            self.options.events,
        );
        loop {
            // One thread waits at the queue, the others for the lock.
            let Ok(chunk) = lock(chunks).recv() else {
                break;
            };
            if self.is_over.load(Ordering::Relaxed) {
                continue;
            }
            let mut taken = 0;
            chunk.entries(&mut |fields| {
                rows.take(fields, chunk.origin());
                taken += 1;
                if rows.is_full() && !self.is_over.load(Ordering::Relaxed) {
                    self.empty(&mut rows, || {
                        RowTable::in_directory(&self.options.temporary)
                    });
                }
            });
            self.progress.entries.fetch_add(taken, Ordering::Relaxed);
        }
        self.empty(&mut rows, RowTable::in_memory);
    }

    fn no_room(&self, error: io::Error) -> CollectError {
        match self.state {
            Some(state) => state.failed(error).into(),
            None => CollectError::Temporary {
                path: self.options.temporary.clone(),
                error,
            },
        }
    }

    /// Empties a gatherer into the table, which `create` creates if there is none.
    fn empty(&self, gatherer: &mut Gatherer, create: impl FnOnce() -> io::Result<RowTable>) {
        let sorted = gatherer.sorted();
        let mut rows = lock(&self.rows);
        // A table that another thread could not write to is damaged.
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let merged = match &mut *rows {
            Some(rows) => rows.merge(sorted),
            none => create().and_then(|created| {
                created.set_cache(self.options.memory / 2)?;
                none.insert(created).merge(sorted)
            }),
        };
        match merged {
            Ok(()) => gatherer.clear(),
            Err(error) => self.fail(self.no_room(error)),
        }
    }
}

/// Counts what is read from a file.
struct CountingReader<'a>(&'a File, &'a AtomicU64);

impl Read for CountingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn over() -> io::Error {
    io::Error::other("another input cannot be read")
}

/// A poisoned lock still guards consistent values: nothing here stops half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
