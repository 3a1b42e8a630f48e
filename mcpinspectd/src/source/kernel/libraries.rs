//! TLS libraries: finding them as processes map them, and attaching probes to them.
//!
//! A library is a file, whatever its path, container or mount namespace: probes are attached to the inode. So
//! the files that a process has mapped are reached through its own root. Probes are attached for one process
//! at a time ([`super::watched`]), or, where the configuration says so, for every process that maps the file.
//! The occasion is that the probes tell of a process: it has mapped a library, runs a program that has one
//! inside, opens its first internet socket, or begins a TLS connection.
//!
//! It happens on a thread of its own, which is the only one that keeps the right to attach where that takes
//! one. A file may be as large or as damaged as its owner likes: bounds apply to what is read of it, and to
//! how many are known at a time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::tls_files::{FileKey, TlsFiles};
use super::uncovered::uncovered;
use super::watched::{Occasion, Watched};
use crate::bell::Bell;
use crate::capture::{Attached, TlsChoice, TlsLoader, TlsProbes, tls_places};
use crate::discover::UnseenLibrary;
use crate::model::Pid;
use crate::priority::Priority;
use crate::privileges;
use crate::process::Mapped;

/// Processes that wait to be looked at.
const WAITING: usize = 1024;
/// Files that are attached to at a time for every process.
const ATTACHED_MAX: usize = 32;
/// How often processes that are gone are detached from, and rests end.
const SWEEP: Duration = Duration::from_secs(2);
/// How often files are given up that nobody can map any more.
const CLEANING: Duration = Duration::from_secs(60);

/// What is asked of the thread.
enum Request {
    /// A process may have a library. `greets`: it has begun a TLS connection.
    LookAt { pid: Pid, greets: bool },
    /// Probes cost a process too much.
    Leave(Pid),
    /// A process speaks MCP, so it is looked into whatever it costs.
    Want(Pid),
}

/// The thread, as its user sees it. It ends when this value is dropped, and detaches everything.
pub struct Libraries {
    /// There until this value is dropped.
    requests: Option<SyncSender<Request>>,
    unseen: Receiver<UnseenLibrary>,
    is_ready: Receiver<()>,
    /// Whether the thread has loaded the probes, and answers.
    serves: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Libraries {
    fn drop(&mut self) {
        self.requests = None;
        let Some(thread) = self.thread.take() else {
            return;
        };
        // What the end of the process detaches, it detaches one by one. A thread that still loads has nothing to detach.
        if self.serves.load(Ordering::Acquire) && thread.join().is_err() {
            tracing::error!("the thread that attaches to TLS libraries has panicked");
        }
    }
}

impl Libraries {
    /// Starts the thread. To be called by a thread that may load programs and attach them. It takes some seconds
    /// until the thread has looked at all processes, as it then says in the log, and with `bell`.
    pub(super) fn start(loader: TlsLoader, choice: TlsChoice, bell: Bell) -> std::io::Result<Self> {
        let (requests, queue) = sync_channel(WAITING);
        let (ready, is_ready) = sync_channel(1);
        let (found, unseen) = sync_channel(WAITING);
        let serves = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&serves);
        let thread = std::thread::Builder::new()
            .name("libraries".into())
            .spawn(move || {
                let probes = match loader.load() {
                    Ok(probes) => probes,
                    Err(error) => {
                        let advice = error.advice();
                        tracing::error!(%error, "TLS is not looked into; {advice}");
                        return;
                    }
                };
                if let Err(error) = privileges::keep_attaching(probes.is_privileged()) {
                    tracing::error!(%error, "cannot give up privileges; TLS is not looked into");
                    return;
                }
                // A program that connects soon after its start is attached to before, or not seen.
                Priority::Pipeline.claim();
                let mut attacher = Attacher::new(probes, choice);
                begins.store(true, Ordering::Release);
                for place in tls_places() {
                    attacher.look_at_path(&place);
                }
                attacher.look_at_known();
                attacher.look_at_all(&queue, &found);
                tracing::info!("looking into TLS from now on");
                let _ = ready.send(());
                bell.ring();
                attacher.serve(&queue, &found);
            })?;
        Ok(Self {
            requests: Some(requests),
            unseen,
            is_ready,
            serves,
            thread: Some(thread),
        })
    }

    /// Whether all processes have been looked at, or the thread has given up. Either is told once.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.is_ready.try_recv(), Err(TryRecvError::Empty))
    }

    /// Has a process looked at soon.
    pub(super) fn look_at(&self, pid: Pid, greets: bool) {
        self.ask(Request::LookAt { pid, greets });
    }

    /// Has a process left alone for a while, which pays too much for the probes.
    pub(super) fn leave(&self, pid: Pid) {
        self.ask(Request::Leave(pid));
    }

    /// Ends a process's rest: it speaks MCP.
    pub(super) fn want(&self, pid: Pid) {
        self.ask(Request::Want(pid));
    }

    /// Where too many requests wait, the process's next news are the next occasion.
    fn ask(&self, request: Request) {
        let requests = self.requests.as_ref();
        if requests.is_some_and(|requests| requests.try_send(request).is_err()) {
            tracing::debug!("too many processes have news of TLS libraries");
        }
    }

    /// Processes that have begun a TLS connection without a library that is attached to.
    pub(super) fn unseen(&self) -> Vec<UnseenLibrary> {
        self.unseen.try_iter().collect()
    }
}

struct Attacher {
    probes: TlsProbes,
    files: TlsFiles,
    is_by_process: bool,
    watched: Watched,
    everywhere: HashMap<FileKey, Attached>,
    is_full: bool,
}

impl Attacher {
    fn new(probes: TlsProbes, choice: TlsChoice) -> Self {
        Self {
            probes,
            files: TlsFiles::default(),
            is_by_process: choice == TlsChoice::Processes,
            watched: Watched::default(),
            everywhere: HashMap::new(),
            is_full: false,
        }
    }

    fn serve(&mut self, queue: &Receiver<Request>, unseen: &SyncSender<UnseenLibrary>) {
        let mut cleaned = Instant::now();
        let mut swept = Instant::now();
        loop {
            match queue.recv_timeout(SWEEP) {
                Ok(request) => self.answer(request, unseen),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                for pid in self.watched.sweep(&mut self.probes) {
                    self.look_at_process(pid, Occasion::Greets);
                }
            }
            if cleaned.elapsed() >= CLEANING {
                cleaned = Instant::now();
                self.clean();
            }
        }
    }

    fn answer(&mut self, request: Request, unseen: &SyncSender<UnseenLibrary>) {
        match request {
            Request::LookAt { pid, greets } => {
                let occasion = if greets {
                    Occasion::Greets
                } else {
                    Occasion::HasLibrary
                };
                let is_known = self.look_at_process(pid, occasion);
                if greets && !is_known {
                    // Where nobody takes them, they are not asked for.
                    let _ = uncovered(pid).map(|found| unseen.try_send(found));
                }
            }
            Request::Leave(pid) => self.watched.rest(pid, &mut self.probes),
            Request::Want(pid) => {
                self.watched.wake(pid);
                self.look_at_process(pid, Occasion::Speaks);
            }
        }
    }

    /// Attaches for all processes that have a library that is known.
    fn look_at_known(&mut self) {
        for pid in processes() {
            self.attach_known(pid, Occasion::HasLibrary, &Mapped::of(pid));
        }
    }

    /// Looks at all processes that there are. Those that have news come first.
    fn look_at_all(&mut self, queue: &Receiver<Request>, unseen: &SyncSender<UnseenLibrary>) {
        for pid in processes() {
            while let Ok(request) = queue.try_recv() {
                self.answer(request, unseen);
            }
            self.look_at_process(pid, Occasion::HasLibrary);
        }
    }

    /// Returns whether it has a library of a kind that is looked into, or is gone.
    fn look_at_process(&mut self, pid: Pid, occasion: Occasion) -> bool {
        let mapped = Mapped::of(pid);
        // What is known takes no time, and a connection may follow soon; looking into a large file takes some.
        let mut is_known = self.attach_known(pid, occasion, &mapped) || mapped.is_empty();
        for file in mapped {
            let key = (file.dev, file.ino);
            if !self.files.knows(key) && self.files.is_library(key, &file.path, &mut self.probes) {
                is_known = true;
                self.attach(key, pid, occasion);
            }
        }
        is_known
    }

    /// Returns whether a process has a library that is known.
    fn attach_known(&mut self, pid: Pid, occasion: Occasion, mapped: &[Mapped]) -> bool {
        let mut is_known = false;
        for key in mapped.iter().map(|file| (file.dev, file.ino)) {
            if self.files.knows(key) {
                is_known = true;
                self.attach(key, pid, occasion);
            }
        }
        is_known
    }

    fn look_at_path(&mut self, path: &Path) {
        if let Some(key) = self.files.at(path, &mut self.probes)
            && !self.is_by_process
        {
            self.attach_everywhere(key);
        }
    }

    fn attach(&mut self, key: FileKey, pid: Pid, occasion: Occasion) {
        if self.is_by_process {
            self.watched
                .attach(key, pid, occasion, &self.files, &mut self.probes);
        } else {
            self.attach_everywhere(key);
        }
    }

    fn attach_everywhere(&mut self, key: FileKey) {
        if self.everywhere.contains_key(&key) {
            return;
        }
        if self.everywhere.len() >= ATTACHED_MAX {
            let mapped = mapped_now();
            self.everywhere.retain(|key, _| mapped.contains(key));
        }
        if self.everywhere.len() >= ATTACHED_MAX {
            if !self.is_full {
                tracing::warn!("too many TLS libraries; some are not looked into");
            }
            self.is_full = true;
            return;
        }
        self.is_full = false;
        match self.files.attach(key, None, &self.probes) {
            Some(Ok(attached)) => {
                self.everywhere.insert(key, attached);
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot attach to a TLS library");
                self.files.give_up(key);
            }
            None => {}
        }
    }

    /// Gives up files that were removed, once nobody has them mapped: an update replaces a library.
    fn clean(&mut self) {
        if self.files.has_removed() {
            let mapped = mapped_now();
            for key in self.files.forget_removed(&mapped) {
                self.everywhere.remove(&key);
            }
        }
    }
}

/// All processes.
fn processes() -> impl Iterator<Item = Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid))
}

/// All files that processes have mapped.
fn mapped_now() -> HashSet<FileKey> {
    processes()
        .flat_map(Mapped::of)
        .map(|mapped| (mapped.dev, mapped.ino))
        .collect()
}
