//! A regular file found at the end of a path, held so that no other can take its place.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlink};

use super::reader::{Reader, Right};

/// A regular file that may be read.
#[derive(Debug)]
pub(super) struct FoundFile {
    /// A descriptor that only refers to the file (`O_PATH`).
    handle: OwnedFd,
    stat: Stat,
}

impl FoundFile {
    /// The file that `handle` refers to, if it is a regular one.
    pub(super) fn new(handle: OwnedFd) -> Option<Self> {
        let stat = fstat(&handle).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
            .then_some(Self { handle, stat })
    }

    /// Whether a user who has reached it may read it.
    pub(super) fn is_readable_by(&self, reader: &Reader) -> bool {
        reader.may(Right::Read, &self.handle, &self.stat)
    }

    /// The user who owns the file.
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

    /// Its contents, if at most `most` bytes.
    pub(super) fn contents(&self, most: u64) -> Option<Vec<u8>> {
        if u64::try_from(self.stat.st_size).ok()? > most {
            return None;
        }
        // The size may have changed since.
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

/// The version of a file. Different contents have a different change time, which only the kernel sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileVersion {
    device: u64,
    inode: u64,
    /// The file's size in bytes.
    pub(super) size: i64,
    changed: (i64, i64),
}
