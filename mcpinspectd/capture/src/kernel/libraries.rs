//! TLS libraries: finding them as processes map them, and attaching probes to them.
//!
//! A library is a file, whatever its path, container or mount namespace: probes are attached to the inode. So
//! files that a process has mapped are reached through its own root. Probes are attached for one process
//! at a time ([`super::watched`]) or, if the configuration says so, for every process that maps the file.
//! This happens when the probes report a process: it has mapped a library, runs a program that contains one,
//! opens its first internet socket, or begins a TLS connection.
//!
//! All of it runs on a separate thread, the only one that keeps the right to attach where attaching
//! takes one. A file may be as large or as damaged as its owner likes, so there are bounds on how much of it is
//! read, and on how many are known at a time.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mcpinspect_core::model::Pid;
use mcpinspect_core::model::TlsChoice;
use mcpinspect_process::Mapped;
use mcpinspect_process::identity::Examiner;
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::priority::Priority;
use mcpinspect_runtime::privileges;

use super::tls_files::{FileKey, TlsFiles};
use super::uncovered::uncovered;
use super::watched::{Occasion, Watched};
use crate::capture::{Attached, TlsLoader, TlsProbes, tls_places};
use crate::discover::UnseenLibrary;

/// Processes that wait to be examined.
const WAITING: usize = 1024;
/// Files that may be attached to for every process at one time.
const ATTACHED_MAX: usize = 32;
/// How often to detach from processes that are gone and to end rests.
const SWEEP: Duration = Duration::from_secs(2);
/// How often to give up files that nothing can map any more.
const CLEANING: Duration = Duration::from_secs(60);

/// What the thread is asked to do.
enum Request {
    /// A process may have a library. `greets`: it has begun a TLS connection.
    LookAt { pid: Pid, greets: bool },
    /// The probes cost a process too much.
    Leave(Pid),
    /// A process speaks MCP, so it gets probes whatever they cost.
    Want(Pid),
}

/// The thread, as its user sees it. It ends when this value is dropped, and detaches everything.
pub struct Libraries {
    /// There until this value is dropped.
    requests: Option<SyncSender<Request>>,
    unseen: Receiver<UnseenLibrary>,
    is_ready: Receiver<()>,
    /// Whether the thread has loaded the probes and answers.
    serves: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Libraries {
    fn drop(&mut self) {
        self.requests = None;
        let Some(thread) = self.thread.take() else {
            return;
        };
        // What is left when the process ends is detached one by one. A thread that still loads has nothing attached.
        if self.serves.load(Ordering::Acquire) && thread.join().is_err() {
            tracing::error!("the thread that attaches to TLS libraries has panicked");
        }
    }
}

impl Libraries {
    /// Starts the thread. Call it on a thread that may load programs and attach them. It takes some seconds until
    /// the new thread has examined all processes, which it then reports in the log and with `notifier`.
    pub(super) fn start(
        loader: TlsLoader,
        choice: TlsChoice,
        notifier: Notifier,
    ) -> std::io::Result<Self> {
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
                        tracing::error!(%error, "cannot load the TLS probes, so TLS is not decrypted; {advice}");
                        return;
                    }
                };
                if let Err(error) = privileges::keep_attaching(probes.is_privileged()) {
                    tracing::error!(%error, "cannot drop privileges; TLS is not decrypted");
                    return;
                }
                // A program that connects soon after it starts is attached to before that, or missed.
                Priority::Pipeline.claim();
                let mut attacher = Attacher::new(probes, choice);
                begins.store(true, Ordering::Release);
                for place in tls_places() {
                    attacher.look_at_path(&place);
                }
                attacher.look_at_known();
                attacher.look_at_all(&queue, &found);
                tracing::info!("TLS is decrypted from now on");
                let _ = ready.send(());
                notifier.notify();
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

    /// Whether all processes have been examined or the thread has given up. It reports either once.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.is_ready.try_recv(), Err(TryRecvError::Empty))
    }

    /// Has a process examined soon.
    pub(super) fn look_at(&self, pid: Pid, greets: bool) {
        self.ask(Request::LookAt { pid, greets });
    }

    /// Leaves a process alone for a while because the probes cost it too much.
    pub(super) fn leave(&self, pid: Pid) {
        self.ask(Request::Leave(pid));
    }

    /// Ends a process's rest: it speaks MCP.
    pub(super) fn want(&self, pid: Pid) {
        self.ask(Request::Want(pid));
    }

    /// If too many requests wait, the next report about the process is the next chance.
    fn ask(&self, request: Request) {
        let requests = self.requests.as_ref();
        if requests.is_some_and(|requests| requests.try_send(request).is_err()) {
            tracing::debug!("too many processes with changed TLS libraries are waiting");
        }
    }

    /// Processes that began a TLS connection without a library to attach to.
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
    examiner: Examiner,
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
            examiner: Examiner::default(),
        }
    }

    fn serve(&mut self, queue: &Receiver<Request>, unseen: &SyncSender<UnseenLibrary>) {
        let mut cleaned = Instant::now();
        let mut swept = Instant::now();
        loop {
            let pause = if self.watched.is_empty() {
                CLEANING
            } else {
                SWEEP
            };
            match queue.recv_timeout(pause) {
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
                    self.tell(pid, unseen);
                }
            }
            Request::Leave(pid) => self.watched.rest(pid, &mut self.probes),
            Request::Want(pid) => {
                self.watched.wake(pid);
                self.look_at_process(pid, Occasion::Speaks);
            }
        }
    }

    /// Tells of a process that has begun a TLS connection without a library to attach to.
    fn tell(&mut self, pid: Pid, unseen: &SyncSender<UnseenLibrary>) {
        if let Some(found) = uncovered(pid, &mut self.examiner) {
            if !found.servers.is_empty() {
                self.probes.seek_greetings(pid);
            }
            // If the receiver is gone, they are not asked for.
            let _ = unseen.try_send(found);
        }
    }

    /// Attaches for all processes that have a known library.
    fn look_at_known(&mut self) {
        for pid in processes() {
            self.attach_known(pid, Occasion::HasLibrary, &Mapped::of(pid));
        }
    }

    /// Examines all running processes. Those just reported come first.
    fn look_at_all(&mut self, queue: &Receiver<Request>, unseen: &SyncSender<UnseenLibrary>) {
        for pid in processes() {
            while let Ok(request) = queue.try_recv() {
                self.answer(request, unseen);
            }
            self.look_at_process(pid, Occasion::HasLibrary);
        }
    }

    /// Returns whether it has a library of a supported kind, or is gone.
    fn look_at_process(&mut self, pid: Pid, occasion: Occasion) -> bool {
        let mapped = Mapped::of(pid);
        // A known library takes no time, and a connection may follow soon; examining a large file takes longer.
        let is_known = self.attach_known(pid, occasion, &mapped) || mapped.is_empty();
        let mut is_new = false;
        for file in &mapped {
            let key = (file.dev, file.ino);
            is_new |=
                !self.files.knows(key) && self.files.is_library(key, &file.path, &mut self.probes);
        }
        (is_new && self.attach_known(pid, occasion, &mapped)) || is_known
    }

    /// Returns whether a process has a known library.
    fn attach_known(&mut self, pid: Pid, occasion: Occasion, mapped: &[Mapped]) -> bool {
        let known = self.files.known_of(mapped);
        for key in &known {
            self.attach(*key, pid, occasion);
        }
        !known.is_empty()
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
                tracing::warn!("too many TLS libraries; some are not watched");
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

    /// Gives up removed files once no process has them mapped: an update replaces a library.
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
