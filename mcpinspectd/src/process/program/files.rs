//! Opening the files that a process names, and hashing them.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlink,
};
use sha2::{Digest, Sha256};

use crate::model::Pid;

/// Largest file that is hashed, in bytes; of a larger one only its size is told.
const LARGEST: u64 = 512 << 20;
/// Most files whose hash is remembered.
const REMEMBERED: usize = 1024;
/// Most entries of a folder that are looked at.
const ENTRIES: usize = 20_000;

/// The root directory of a process, and on whose behalf files are opened below it.
#[derive(Debug)]
pub(super) struct Root {
    pid: Pid,
    uid: u32,
    root: OwnedFd,
}

/// A regular file that may be read.
#[derive(Debug)]
pub(super) struct Found {
    /// A descriptor that only names the file.
    handle: OwnedFd,
    stat: Stat,
}

impl Root {
    /// The root directory of a process that runs as `uid`.
    pub(super) fn of(pid: Pid, uid: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
        Some(Self { pid, uid, root })
    }

    /// The process' executable, whatever became of its path.
    pub(super) fn executable(&self) -> Option<Found> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let path = format!("/proc/{}/exe", self.pid);
        let handle = openat(CWD, path, flags, Mode::empty()).ok()?;
        Found::new(handle)
    }

    /// The regular file at an absolute path, if the process' user may read it.
    pub(super) fn open(&self, path: &Path) -> Option<Found> {
        let handle = self.resolve(path, OFlags::PATH)?;
        Found::new(handle).filter(|found| found.is_readable_by(self.uid))
    }

    /// The contents of a file of at most `most` bytes.
    pub(super) fn read(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        let mut contents = Vec::new();
        self.open(path)?
            .file()?
            .take(most + 1)
            .read_to_end(&mut contents)
            .ok()?;
        (contents.len() as u64 <= most).then_some(contents)
    }

    /// The names in a folder; the first ones of a folder with very many.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let entries = self
            .resolve(folder, flags)
            .and_then(|folder| rustix::fs::Dir::read_from(folder).ok());
        entries
            .into_iter()
            .flatten()
            .take(ENTRIES)
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
            .collect()
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Option<OwnedFd> {
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        openat2(
            &self.root,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            inside,
        )
        .ok()
    }
}

impl Found {
    fn new(handle: OwnedFd) -> Option<Self> {
        let stat = fstat(&handle).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            .then_some(Self { handle, stat })
    }

    /// Whether nobody but root can have written it.
    pub(super) fn is_roots_own(&self) -> bool {
        self.stat.st_uid == 0 && self.stat.st_mode & 0o022 == 0
    }

    /// Whether reading it on behalf of a user tells nothing that the user could not read: the hash
    /// of a short secret gives it away.
    fn is_readable_by(&self, uid: u32) -> bool {
        uid == 0
            || self.stat.st_mode & 0o004 != 0
            || (self.stat.st_uid == uid && self.stat.st_mode & 0o400 != 0)
    }

    /// Where it lies, links followed.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let link = readlink(self.name(), Vec::new()).ok()?;
        Some(PathBuf::from(link.into_string().ok()?))
    }

    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    fn file(&self) -> Option<File> {
        // A second open of the very file that was looked at, whatever lies at its path by now.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(CWD, self.name(), flags, Mode::empty()).ok()?;
        Some(File::from(file))
    }
}

/// A file as it was: another content has another time of change, which only the kernel sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Version {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, i64),
}

/// Hashes of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    known: HashMap<Version, String>,
}

impl Files {
    /// SHA-256 of a file in hexadecimal digits; of one that is too large, its size in words.
    pub(super) fn hash(&mut self, found: &Found) -> Option<String> {
        let stat = &found.stat;
        #[expect(
            clippy::unnecessary_cast,
            reason = "the fields' types differ between architectures"
        )]
        let version = Version {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as i64,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        };
        if let Some(hash) = self.known.get(&version) {
            return Some(hash.clone());
        }
        if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
            return Some(format!("not hashed: {} bytes", stat.st_size));
        }
        let mut hash = Sha256::new();
        // Bounded again: it may grow while it is read.
        std::io::copy(&mut found.file()?.take(LARGEST), &mut hash).ok()?;
        let hash = crate::model::DefinitionHash(hash.finalize().into()).to_string();
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(version, hash.clone());
        Some(hash)
    }
}
