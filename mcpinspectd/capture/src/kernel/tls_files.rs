//! Which files are TLS libraries, and where their functions are. Each file is examined once.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use mcpinspect_core::model::Pid;
use mcpinspect_process::Mapped;
use nix::libc;

use crate::capture::{Attached, ProbeError, TlsFunctions, TlsProbes, tls_functions};

/// Most libraries to know at a time. Each takes a descriptor.
const LIBRARIES_MAX: usize = 128;
/// Most files to remember as not being one.
const OTHERS_MAX: usize = 65_536;

/// A file, by device and inode number.
pub(super) type FileKey = (u64, u64);

struct Library {
    file: File,
    functions: TlsFunctions,
}

/// What is known about files.
#[derive(Default)]
pub(super) struct TlsFiles {
    libraries: HashMap<FileKey, Library>,
    others: HashSet<FileKey>,
    is_full: bool,
}

impl TlsFiles {
    /// Whether a file is known to be a library.
    pub(super) fn knows(&self, key: FileKey) -> bool {
        self.libraries.contains_key(&key)
    }

    /// The known libraries among the files that a process has mapped, in the order of attaching: what makes objects
    /// comes after what moves their bytes.
    pub(super) fn known_of(&self, mapped: &[Mapped]) -> Vec<FileKey> {
        let keys = mapped.iter().map(|file| (file.dev, file.ino));
        let known = keys.filter_map(|key| Some((key, &self.libraries.get(&key)?.functions)));
        let (nspr, others): (Vec<_>, Vec<_>) = known.partition(|(_, known)| known.is_nspr());
        let has_nss = others.iter().any(|(_, functions)| functions.is_nss());
        let nspr = nspr.into_iter().filter(|_| has_nss);
        nspr.chain(others).map(|(key, _)| key).collect()
    }

    /// Whether the file that is mapped at `path` is a library.
    pub(super) fn is_library(&mut self, key: FileKey, path: &Path, probes: &mut TlsProbes) -> bool {
        if !self.libraries.contains_key(&key) && !self.others.contains(&key) {
            match open(path, Some(key.1)) {
                Some(file) => self.look_at(key, file, probes),
                None => self.give_up(key),
            }
        }
        self.libraries.contains_key(&key)
    }

    /// The library at `path`, if there is one.
    pub(super) fn at(&mut self, path: &Path, probes: &mut TlsProbes) -> Option<FileKey> {
        let file = open(path, None)?;
        let about = file.metadata().ok()?;
        let key = (about.dev(), about.ino());
        if !self.libraries.contains_key(&key) && !self.others.contains(&key) {
            self.look_at(key, file, probes);
        }
        self.libraries.contains_key(&key).then_some(key)
    }

    fn look_at(&mut self, key: FileKey, file: File, probes: &mut TlsProbes) {
        let functions = tls_functions(&file);
        if functions.is_empty() {
            return self.give_up(key);
        }
        if self.libraries.len() >= LIBRARIES_MAX {
            if !self.is_full {
                tracing::warn!("too many different TLS libraries; some are not watched");
            }
            self.is_full = true;
            return;
        }
        tracing::debug!(ino = key.1, ?functions, "found a TLS library");
        // For those that are programs; a library is not executed.
        probes.tell_of(key.1);
        self.libraries.insert(key, Library { file, functions });
    }

    /// Attaches to a library; `None` if it is unknown.
    pub(super) fn attach(
        &self,
        key: FileKey,
        process: Option<Pid>,
        probes: &TlsProbes,
    ) -> Option<Result<Attached, ProbeError>> {
        let library = self.libraries.get(&key)?;
        Some(probes.attach(&library.file, process, &library.functions))
    }

    /// Remembers that a file cannot be used.
    pub(super) fn give_up(&mut self, key: FileKey) {
        self.libraries.remove(&key);
        if self.others.len() >= OTHERS_MAX {
            self.others.clear();
        }
        self.others.insert(key);
    }

    /// Whether a library was removed.
    pub(super) fn has_removed(&self) -> bool {
        self.libraries.values().any(Library::is_removed)
    }

    /// Forgets libraries that were removed and that no process has mapped. Returns which.
    pub(super) fn forget_removed(&mut self, mapped: &HashSet<FileKey>) -> Vec<FileKey> {
        let removed = self
            .libraries
            .extract_if(|key, library| library.is_removed() && !mapped.contains(key));
        let removed: Vec<FileKey> = removed.map(|(key, _)| key).collect();
        self.is_full &= removed.is_empty();
        removed
    }
}

impl Library {
    fn is_removed(&self) -> bool {
        let about = self.file.metadata();
        about.map_or(true, |about| about.nlink() == 0)
    }
}

/// Opens a regular file, with the inode number `ino` if that is known. Its path may lead anywhere by
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
