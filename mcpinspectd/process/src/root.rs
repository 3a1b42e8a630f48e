//! Opening the files that a process names.
//!
//! Paths come from the process' arguments and working directory, which it can rewrite. So they are
//! resolved inside its own root directory, without the kernel's magic links; only regular files and
//! directories that its user can reach and read are opened, without blocking on pipes (see
//! [`walk`](super::walk)); and reading is bounded.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use mcpinspect_core::model::Pid;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::found_file::FoundFile;
use super::reader::Reader;
use super::walk::{Budget, Entry, LastLink, walk};

/// Most entries of a folder to read.
const MAX_ENTRIES: usize = 20_000;
/// Most directories to search on the way to a file.
const MAX_STEPS: u32 = 1024;

/// The root directory of a process, and the user on whose behalf files below it are opened.
#[derive(Debug)]
pub(super) struct Root {
    pid: Pid,
    reader: Reader,
    root: OwnedFd,
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

    /// The process' executable, if its user may read it, even if its path no longer leads to it.
    pub(super) fn executable(&self) -> Option<FoundFile> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let path = format!("/proc/{}/exe", self.pid);
        let handle = openat(CWD, path, flags, Mode::empty()).ok()?;
        let found = FoundFile::new(handle)?;
        found.is_readable_by(&self.reader).then_some(found)
    }

    /// The regular file at an absolute path, if the process' user may read it.
    pub(super) fn open(&self, path: &Path) -> Option<FoundFile> {
        match self.find(path)? {
            Entry::File(file) => Some(file),
            Entry::Directory(_) | Entry::Link(_) => None,
        }
    }

    /// The contents of a file, if at most `most` bytes.
    pub(super) fn read(&self, path: &Path, most: u64) -> Option<Vec<u8>> {
        self.open(path)?.contents(most)
    }

    /// The names in a folder; only the first ones of a very large folder.
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

    /// The directory itself, only for looking up paths from it.
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
