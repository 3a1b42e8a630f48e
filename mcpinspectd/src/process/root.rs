//! Opening the files that a process names.
//!
//! Paths come from the process' arguments and working directory, which it can rewrite. So they are
//! resolved inside its own root directory, without the kernel's magic links; only regular files and
//! directories that its user can reach and read are opened, without blocking on pipes (see
//! [`walk`](super::walk)); and reading is bounded.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlink};

use super::reader::{Reader, Right};
use super::walk::{Budget, Entry, LastLink, walk};
use crate::model::Pid;

/// Most entries of a folder that are read.
const MAX_ENTRIES: usize = 20_000;
/// Most directories that are looked into on the way to a file.
const MAX_STEPS: u32 = 1024;

/// The root directory of a process, and the user on whose behalf files below it are opened.
#[derive(Debug)]
pub(super) struct Root {
    pid: Pid,
    reader: Reader,
    root: OwnedFd,
}

/// A regular file that may be read.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// A descriptor that only refers to the file (`O_PATH`).
    handle: OwnedFd,
    stat: Stat,
}

impl Root {
    /// The root directory of a process that runs as `uid`.
    pub(super) fn of(pid: Pid, uid: u32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, format!("/proc/{pid}/root"), flags, Mode::empty()).ok()?;
        let reader = Reader::of(pid, uid);
        Some(Self { pid, reader, root })
    }

    /// A directory as the root of a process that runs as `uid`.
    #[cfg(test)]
    pub(super) fn at(root: OwnedFd, uid: u32) -> Self {
        Self {
            pid: Pid(0),
            reader: Reader::alone(uid),
            root,
        }
    }

    /// The process' executable, even if its path no longer leads to it, if its user may read it.
    pub(super) fn executable(&self) -> Option<FoundFile> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let path = format!("/proc/{}/exe", self.pid);
        let handle = openat(CWD, path, flags, Mode::empty()).ok()?;
        let found = FoundFile::new(handle)?;
        let is_readable = self.reader.may(Right::Read, &found.handle, &found.stat);
        is_readable.then_some(found)
    }

    /// The regular file at an absolute path, if the process' user may read it.
    pub(super) fn open(&self, path: &Path) -> Option<FoundFile> {
        match self.find(path)? {
            Entry::File(file) => Some(file),
            Entry::Directory(_) | Entry::Link(_) => None,
        }
    }

    /// The contents of a file, if it has at most `most` bytes.
    pub(super) fn read(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        self.open(path)?.contents(most)
    }

    /// The names in a folder; of a very large folder only the first ones.
    pub(super) fn names(&self, folder: &Path) -> Vec<String> {
        let entries = match self.find(folder) {
            Some(Entry::Directory(folder)) => {
                // The very directory that was examined, even if another one is at its path by now.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let folder = openat(folder, ".", flags, Mode::empty());
                folder.and_then(rustix::fs::Dir::read_from).ok()
            }
            _ => None,
        };
        entries
            .into_iter()
            .flatten()
            .take(MAX_ENTRIES)
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()))
            .collect()
    }

    /// The directory itself, only to look up paths from.
    pub(super) fn directory(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// The user on whose behalf files are opened.
    pub(super) fn reader(&self) -> &Reader {
        &self.reader
    }

    fn find(&self, path: &Path) -> Option<Entry> {
        let (root, path) = (self.directory(), path.to_str()?);
        let budget = Budget::new(MAX_STEPS);
        let found = walk(root, &self.reader, path, LastLink::Follow, &budget)?;
        Some(found.entry)
    }
}

impl FoundFile {
    /// The file that `handle` refers to, if it is a regular one.
    pub(super) fn new(handle: OwnedFd) -> Option<Self> {
        let stat = fstat(&handle).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            .then_some(Self { handle, stat })
    }

    /// The user whose file it is.
    pub(super) fn owner(&self) -> u32 {
        self.stat.st_uid
    }

    /// Whether only root can have written it.
    pub(super) fn is_roots_own(&self) -> bool {
        self.stat.st_uid == 0 && self.stat.st_mode & 0o022 == 0
    }

    /// Its path, with links followed.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let link = readlink(self.name(), Vec::new()).ok()?;
        Some(PathBuf::from(link.into_string().ok()?))
    }

    /// Its version: a changed file has another.
    pub(super) fn version(&self) -> FileVersion {
        let stat = &self.stat;
        #[expect(
            clippy::unnecessary_cast,
            reason = "the types of the fields differ between architectures"
        )]
        FileVersion {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as i64,
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    fn name(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }

    /// Its contents, if they have at most `most` bytes.
    pub(super) fn contents(&self, most: u64) -> Option<Vec<u8>> {
        if u64::try_from(self.stat.st_size).ok()? > most {
            return None;
        }
        // The size is that of a moment ago.
        let mut contents = Vec::new();
        self.file()?
            .take(most + 1)
            .read_to_end(&mut contents)
            .ok()?;
        (contents.len() as u64 <= most).then_some(contents)
    }

    /// Opens it for reading.
    pub(super) fn file(&self) -> Option<File> {
        // Opens the very file that was examined, even if another one is at its path by now.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = openat(CWD, self.name(), flags, Mode::empty()).ok()?;
        Some(File::from(file))
    }
}

/// The version of a file. Other contents have another time of change, which only the kernel sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileVersion {
    device: u64,
    inode: u64,
    /// The file's size in bytes.
    pub(super) size: i64,
    changed: (i64, i64),
}
