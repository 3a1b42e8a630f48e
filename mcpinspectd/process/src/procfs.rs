//! One process' directory in `/proc`, held open.
//!
//! The kernel reuses a pid once its process is gone. A directory descriptor stays
//! with its process: after that has ended, every look-up through the descriptor fails. So a process is
//! looked up by number once, and everything about it is read through the descriptor.
//!
//! The process controls most of the contents: names, arguments and paths may contain any bytes and be
//! megabytes long. Reads are bounded, and bytes that are not UTF-8 are replaced.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use mcpinspect_core::model::Pid;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, readlinkat, statx};
use rustix::io::Errno;

/// A directory laid out like `/proc`; tests use their own.
#[derive(Debug)]
pub(super) struct Proc {
    root: OwnedFd,
}

/// A process' directory.
#[derive(Debug)]
pub(super) struct ProcDir {
    dir: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Proc {
    /// The kernel's own.
    pub(super) fn system() -> Result<Self, Errno> {
        Self::at(Path::new("/proc"))
    }

    /// Another directory.
    pub(super) fn at(path: &Path) -> Result<Self, Errno> {
        // Read access, because processes are listed through it.
        let root = openat(
            CWD,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(Self { root })
    }

    /// The process that has this number now.
    pub(super) fn open(&self, pid: Pid) -> Result<ProcDir, Errno> {
        let dir = openat(&self.root, pid.to_string(), DIRECTORY, Mode::empty())?;
        Ok(ProcDir { dir })
    }

    /// All processes that exist now.
    pub(super) fn pids(&self) -> Result<Vec<Pid>, Errno> {
        let entries = rustix::fs::Dir::read_from(&self.root)?;
        Ok(entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok().map(Pid))
            .collect())
    }
}

impl ProcDir {
    /// The first `max` bytes of a file.
    pub(super) fn read(&self, name: &str, max: usize) -> Result<Vec<u8>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let fd = openat(&self.dir, name, flags, Mode::empty())?;
        let mut bytes = Vec::new();
        std::fs::File::from(fd)
            .take(max as u64)
            .read_to_end(&mut bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(bytes)
    }

    /// Where a link points, as the kernel spells it.
    pub(super) fn link(&self, name: &str) -> Result<PathBuf, Errno> {
        let target: CString = readlinkat(&self.dir, name, Vec::with_capacity(256))?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(
            target.into_bytes(),
        )))
    }

    /// The inode number of what a link points to. A file system is not asked for anything that it has not told
    /// before, so that one that never answers delays nothing.
    pub(super) fn inode(&self, name: &str) -> Result<u64, Errno> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        Ok(statx(&self.dir, name, flags, StatxFlags::INO)?.stx_ino)
    }

    /// Its threads.
    pub(super) fn threads(&self) -> Result<Vec<Pid>, Errno> {
        let entries = rustix::fs::Dir::read_from(self.subdirectory("task")?)?;
        Ok(entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok().map(Pid))
            .collect())
    }

    /// A directory inside it, opened for listing.
    pub(super) fn subdirectory(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&self.dir, name, flags, Mode::empty())
    }
}

/// The fields of `/proc/pid/stat` that this module uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// The name that the process last gave itself, or its executable's: 15 bytes at most.
    pub(super) comm: String,
    /// One letter.
    pub(super) state: char,
    pub(super) parent: Pid,
    /// How many threads it has, including its main thread even if that has exited.
    pub(super) threads: u64,
    /// In clock ticks since boot.
    pub(super) start_time: u64,
}

impl Stat {
    /// Parses the line. The name is in parentheses and may itself contain blanks and parentheses, so the
    /// last closing one counts.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let open = memchr::memchr(b'(', line)?;
        let close = memchr::memrchr(b')', line)?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = Pid(fields.next()?.parse().ok()?);
        // Fields are numbered from 1: the state is the third, the parent the fourth.
        let threads = fields.nth(20 - 5)?.parse().ok()?;
        let start_time = fields.nth(22 - 21)?.parse().ok()?;
        Some(Self {
            comm,
            state,
            parent,
            threads,
            start_time,
        })
    }
}

/// The real user id from `/proc/pid/status`.
pub(super) fn real_uid(status: &[u8]) -> Option<u32> {
    // The kernel escapes the name in the first line, so no line can be forged.
    status
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(b"Uid:"))
        .and_then(|ids| std::str::from_utf8(ids).ok())
        .and_then(|ids| ids.split_ascii_whitespace().next()?.parse().ok())
}

/// The process that debugs this one, from `/proc/pid/status`.
pub(super) fn tracer(status: &[u8]) -> Option<Pid> {
    let line = status
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(b"TracerPid:"))?;
    let pid: u32 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    (pid != 0).then_some(Pid(pid))
}

/// The real group id and the supplementary groups from `/proc/pid/status`.
pub(super) fn groups(status: &[u8]) -> Vec<u32> {
    let line = |name: &[u8]| {
        let found = status
            .split(|&b| b == b'\n')
            .find_map(|line| line.strip_prefix(name));
        let text = std::str::from_utf8(found.unwrap_or_default()).unwrap_or_default();
        text.split_ascii_whitespace()
            .map_while(|id| id.parse().ok())
    };
    line(b"Gid:").take(1).chain(line(b"Groups:")).collect()
}

/// Splits `/proc/pid/cmdline`. A process that overwrote its arguments with a title (as npm does) leaves
/// one string and a tail of empty ones; the tail is dropped.
pub(super) fn split_arguments(bytes: &[u8], max: usize) -> Vec<String> {
    let bytes = match bytes.iter().rposition(|&b| b != 0) {
        Some(last) => &bytes[..=last],
        None => return Vec::new(),
    };
    bytes
        .split(|&b| b == 0)
        .take(max)
        .map(|arg| String::from_utf8_lossy(arg).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stat_with_a_hostile_name() {
        let line = b"7 (a) R 1 (b) S 42 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 31337 1 1 1\n";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat.comm, "a) R 1 (b");
        assert_eq!(stat.state, 'S');
        assert_eq!(stat.parent, Pid(42));
        assert_eq!((stat.threads, stat.start_time), (1, 31337));
        assert_eq!(Stat::parse(b"7 (a) R 1"), None);
        assert_eq!(Stat::parse(b") ("), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn own_stat_parses() {
        let proc = Proc::system().unwrap();
        let me = proc.open(Pid(std::process::id())).unwrap();
        let stat = Stat::parse(&me.read("stat", 4096).unwrap()).unwrap();
        assert_eq!(stat.parent.0, std::os::unix::process::parent_id());
        assert!(stat.start_time > 0);
        assert!(proc.pids().unwrap().contains(&Pid(std::process::id())));
    }

    #[test]
    fn arguments() {
        assert_eq!(split_arguments(b"", 9), Vec::<String>::new());
        assert_eq!(split_arguments(b"\0\0", 9), Vec::<String>::new());
        assert_eq!(split_arguments(b"a\0", 9), ["a"]);
        assert_eq!(split_arguments(b"a\0\0b\0", 9), ["a", "", "b"]);
        assert_eq!(split_arguments(b"npm exec x\0\0\0\0", 9), ["npm exec x"]);
        assert_eq!(split_arguments(b"a\0b\0c\0", 2), ["a", "b"]);
        assert_eq!(split_arguments(b"\xff\0", 9), ["\u{fffd}"]);
    }

    #[test]
    fn uid_line() {
        assert_eq!(
            real_uid(b"Name:\tx\\nUid:\t0\nUid:\t1000\t0\t0\t0\n"),
            Some(1000)
        );
        assert_eq!(real_uid(b"Name:\tx\n"), None);
        assert_eq!(real_uid(b"Uid:\tx"), None);
    }

    #[test]
    fn group_lines() {
        let status = b"Name:\tx\nGid:\t100\t0\t0\t0\nGroups:\t4 24 27 \n";
        assert_eq!(groups(status), [100, 4, 24, 27]);
        assert_eq!(groups(b"Gid:\t1\t1\t1\t1\nGroups:\t\n"), [1]);
        assert_eq!(groups(b"Name:\tx\n"), [0; 0]);
    }

    proptest! {
        #[test]
        fn parsers_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Stat::parse(&bytes);
            let _ = real_uid(&bytes);
            let _ = groups(&bytes);
            prop_assert!(split_arguments(&bytes, 5).len() <= 5);
        }

        #[test]
        fn any_name_leaves_the_fields_alone(name in prop::collection::vec(any::<u8>(), 0..16)) {
            let mut line = b"7 (".to_vec();
            line.extend(&name);
            line.extend(b") S 42 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 31337 1 1 1\n");
            let stat = Stat::parse(&line).unwrap();
            prop_assert_eq!((stat.parent, stat.start_time), (Pid(42), 31337));
        }
    }
}
