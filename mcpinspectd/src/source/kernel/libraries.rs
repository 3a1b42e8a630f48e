//! TLS libraries: finding them as processes map them, and attaching probes to them.
//!
//! A library is a file, whatever its path, container or mount namespace: probes are attached to the inode. So
//! the files that a process has mapped are reached through its own root. Those in the usual places are
//! attached to at the start, because the first connection may follow soon after a program begins; the others
//! when the probes tell that a process has mapped one or opened an internet socket.
//!
//! It happens on a thread of its own, which is the only one that keeps the right to attach. A file may be
//! as large or as damaged as its owner likes: bounds apply to what is read of it, and to how many are
//! attached to at a time.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use nix::libc;

use crate::capture::{Attached, TlsProbes, tls_functions, tls_places};
use crate::model::Pid;
use crate::priority::Priority;
use crate::privileges;
use crate::process::Mapped;

/// Processes that wait to be looked at.
const WAITING: usize = 1024;
/// Files that are attached to at a time. Each takes up to 28 descriptors.
const ATTACHED_MAX: usize = 32;
/// Files that are remembered as not being TLS libraries.
const OTHERS_MAX: usize = 65_536;
/// How often files are detached from that nobody can map any more.
const CLEANING: Duration = Duration::from_secs(60);
/// How long the start waits for the usual places.
const PATIENCE: Duration = Duration::from_secs(3);

/// A file, by device and inode number.
type FileKey = (u64, u64);

/// The thread, as its user sees it. It ends when this value is dropped, and detaches everything.
pub struct Libraries {
    processes: SyncSender<(Pid, bool)>,
    unseen: Receiver<u32>,
}

impl Libraries {
    /// Starts the thread, and waits until the usual places are attached to. To be called by a thread that
    /// may attach.
    pub(super) fn start(probes: TlsProbes) -> std::io::Result<Self> {
        let (processes, queue) = sync_channel(WAITING);
        let (ready, is_ready) = sync_channel(1);
        let (found, unseen) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("libraries".into())
            .spawn(move || {
                if let Err(error) = privileges::keep_attaching() {
                    tracing::warn!(%error, "cannot give up privileges; TLS is not looked into");
                    return;
                }
                Priority::Background.claim();
                let mut attacher = Attacher::new(probes);
                for place in tls_places() {
                    attacher.look_at_path(&place);
                }
                let _ = ready.send(());
                attacher.look_at_all();
                attacher.serve(&queue, &found);
            })?;
        let _ = is_ready.recv_timeout(PATIENCE);
        Ok(Self { processes, unseen })
    }

    /// Has a process looked at soon. Where too many wait, its next library is the next occasion.
    pub(super) fn look_at(&self, pid: Pid, greets: bool) {
        if self.processes.try_send((pid, greets)).is_err() {
            tracing::debug!(%pid, "not looked at for TLS libraries");
        }
    }

    /// Processes that have begun a TLS connection without a library that is attached to.
    pub(super) fn unseen(&self) -> Vec<u32> {
        self.unseen.try_iter().collect()
    }
}

/// A file that is attached to.
struct Library {
    path: PathBuf,
    file: File,
    _probes: Attached,
}

struct Attacher {
    probes: TlsProbes,
    attached: HashMap<FileKey, Library>,
    others: HashSet<FileKey>,
    is_full: bool,
}

impl Attacher {
    fn new(probes: TlsProbes) -> Self {
        Self {
            probes,
            attached: HashMap::new(),
            others: HashSet::new(),
            is_full: false,
        }
    }

    fn serve(&mut self, queue: &Receiver<(Pid, bool)>, unseen: &SyncSender<u32>) {
        loop {
            match queue.recv_timeout(CLEANING) {
                Ok((pid, greets)) => {
                    let is_attached = self.look_at_process(pid);
                    if greets && !is_attached {
                        // Where nobody takes them, they are not asked for.
                        let _ = unseen.try_send(pid.0);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.detach_removed();
        }
    }

    /// Looks at all processes that there are.
    fn look_at_all(&mut self) {
        let Ok(processes) = fs::read_dir("/proc") else {
            return;
        };
        for entry in processes.flatten() {
            if let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            {
                self.look_at_process(Pid(pid));
            }
        }
    }

    /// Returns whether it has a library that is attached to, or is gone.
    fn look_at_process(&mut self, pid: Pid) -> bool {
        let files = Mapped::of(pid);
        let mut is_attached = files.is_empty();
        for mapped in files {
            let key = (mapped.dev, mapped.ino);
            if !self.attached.contains_key(&key) && !self.others.contains(&key) {
                match open(&mapped.path, Some(mapped.ino)) {
                    Some(file) => self.look_at(key, file, &mapped.path),
                    None => self.note_other(key),
                }
            }
            is_attached |= self.attached.contains_key(&key);
        }
        is_attached
    }

    fn look_at_path(&mut self, path: &Path) {
        let Some(file) = open(path, None) else { return };
        let Ok(about) = file.metadata() else { return };
        let key = (about.dev(), about.ino());
        if !self.attached.contains_key(&key) && !self.others.contains(&key) {
            self.look_at(key, file, path);
        }
    }

    fn look_at(&mut self, key: FileKey, file: File, path: &Path) {
        let functions = tls_functions(&file);
        if functions.is_empty() {
            return self.note_other(key);
        }
        if self.attached.len() >= ATTACHED_MAX {
            self.make_room();
        }
        if self.attached.len() >= ATTACHED_MAX {
            if !self.is_full {
                tracing::warn!(path = %path.display(), "too many TLS libraries; some are not looked into");
            }
            self.is_full = true;
            return;
        }
        match self
            .probes
            .attach(&file, |name| functions.get(name).copied())
        {
            Ok(probes) => {
                tracing::debug!(path = %path.display(), functions = functions.len(), "attached to a TLS library");
                let library = Library {
                    path: path.to_owned(),
                    file,
                    _probes: probes,
                };
                self.attached.insert(key, library);
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot attach to a TLS library");
                self.note_other(key);
            }
        }
    }

    fn note_other(&mut self, key: FileKey) {
        if self.others.len() >= OTHERS_MAX {
            self.others.clear();
        }
        self.others.insert(key);
    }

    /// Detaches from files that were removed, once nobody has them mapped: an update replaces a library.
    fn detach_removed(&mut self) {
        let is_removed = |library: &Library| {
            let about = library.file.metadata();
            about.map_or(true, |about| about.nlink() == 0)
        };
        if self.attached.values().any(is_removed) {
            let mapped = mapped_now();
            self.attached
                .retain(|key, library| !is_removed(library) || mapped.contains(key));
        }
    }

    /// Detaches from files that nobody has mapped.
    fn make_room(&mut self) {
        let mapped = mapped_now();
        self.attached.retain(|key, library| {
            let is_used = mapped.contains(key);
            if !is_used {
                tracing::debug!(path = %library.path.display(), "detached from a TLS library");
            }
            is_used
        });
        self.is_full = false;
    }
}

/// All files that processes have mapped.
fn mapped_now() -> HashSet<FileKey> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .flat_map(|pid| Mapped::of(Pid(pid)))
        .map(|mapped| (mapped.dev, mapped.ino))
        .collect()
}

/// Opens a regular file, which has the inode number `ino` if that is known. Its path may lead to anything by
/// now, so it is not opened before that is clear.
fn open(path: &Path, ino: Option<u64>) -> Option<File> {
    let place = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)
        .ok()?;
    let about = place.metadata().ok()?;
    if !about.is_file() || ino.is_some_and(|ino| ino != about.ino()) {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()
}
