//! Which processes hold which stream.
//!
//! A stream is a kernel object; descriptors only refer to it. When the daemon starts, servers are
//! already running, blocked in a read. Only a search through the descriptor tables of all processes
//! finds out which of them hold the two ends of their pipes. It takes two system calls per descriptor
//! (the link's text tells kind and inode, the link's mode the direction), and one more per socket.
//!
//! Nothing here waits for a file system: the only inodes examined are those of named pipes,
//! without synchronising with a file server that may not answer.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mcpinspect_core::model::{InodeKey, Pid};
use nix::libc;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::procfs::{Proc, ProcDir};

/// Most descriptors to examine per process. A process with more is not an MCP server, and
/// must not make the daemon walk millions.
pub const MAX_FDS_PER_PROCESS: usize = 65_536;

/// Threads of a process to compare another thread with.
const TABLES_MAX: usize = 16;

/// The type of such an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// An anonymous pipe.
    Pipe,
    /// A named pipe.
    Fifo,
    /// A Unix socket; each end of a pair has its own inode.
    UnixSocket,
    /// Anything else: a file, a terminal, a network socket.
    Other,
}

/// The access that a descriptor permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both, as on sockets.
    Both,
}

impl Access {
    /// Whether bytes can be read through it.
    pub fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Both)
    }

    /// Whether bytes can be written through it.
    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }

    /// The access given by the mode of a link in `/proc/pid/fd`: the owner's bits stand for the
    /// descriptor's. `None` for a descriptor that permits neither (`O_PATH`).
    fn from_link_mode(mode: u16) -> Option<Self> {
        match (mode & 0o400 != 0, mode & 0o200 != 0) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::Read),
            (false, true) => Some(Self::Write),
            (false, false) => None,
        }
    }
}

/// What a descriptor refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdTarget {
    /// The object.
    pub key: InodeKey,
    /// Its type.
    pub kind: StreamKind,
    /// What the descriptor permits.
    pub access: Access,
}

/// A descriptor that refers to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: Pid,
    /// Its descriptor's number.
    pub fd: u32,
    /// What the descriptor permits.
    pub access: Access,
    /// The stream's type; the same for all holders of a stream.
    pub kind: StreamKind,
}

/// Every stream on the machine with all of its holders.
pub type Holders = HashMap<InodeKey, Vec<Holder>>;

/// The targets of standard input, output and error of a process. An inner `None` is a closed descriptor;
/// the outer one means that the process is gone or inaccessible.
pub fn stdio(pid: Pid) -> Option<[Option<FdTarget>; 3]> {
    let dir = Proc::system().ok()?.open(pid).ok()?;
    let fds = dir.subdirectory("fd").ok()?;
    let target = |fd| DescriptorReader::default().target(fds.as_fd(), fd);
    Some([target(0), target(1), target(2)])
}

/// The target of one descriptor of a process; `None` if it is closed or the process is gone.
pub fn target(pid: Pid, fd: u32) -> Option<FdTarget> {
    let dir = Proc::system().ok()?.open(pid).ok()?;
    let fds = dir.subdirectory("fd").ok()?;
    DescriptorReader::default().target(fds.as_fd(), fd)
}

/// All pipes, named pipes and Unix sockets that any process holds now, with their holders. Processes
/// that start or end meanwhile may or may not be included; none makes it fail. Threads' own descriptor tables
/// are included.
pub fn holders_snapshot() -> Holders {
    let mut walk = HoldersWalk::default();
    walk.look();
    walk.holders
}

/// A walk through the process table that can be continued with processes started since.
#[derive(Default)]
pub struct HoldersWalk {
    holders: Holders,
    reader: DescriptorReader,
    seen: HashSet<Pid>,
}

impl HoldersWalk {
    /// Looks at the processes that earlier looks did not see, the youngest first. Returns how many there
    /// were.
    pub fn look(&mut self) -> usize {
        let Ok(proc) = Proc::system() else {
            return 0;
        };
        let mut new = proc.pids().unwrap_or_default();
        new.retain(|pid| self.seen.insert(*pid));
        for pid in new.iter().rev() {
            if let Ok(dir) = proc.open(*pid) {
                // One that is gone by now holds nothing.
                let _ = self.reader.process(*pid, &dir, &mut self.holders);
            }
        }
        new.len()
    }

    /// Who held what when they were examined.
    pub fn holders(&self) -> &Holders {
        &self.holders
    }
}

/// The pipes, named pipes and Unix sockets that one process holds.
pub fn of_process(pid: Pid) -> Vec<(u32, FdTarget)> {
    let mut holders = Holders::new();
    let gone = Proc::system()
        .and_then(|proc| proc.open(pid))
        .and_then(|dir| DescriptorReader::default().process(pid, &dir, &mut holders));
    if gone.is_err() {
        return Vec::new();
    }
    let mut found: Vec<_> = holders
        .into_iter()
        .flat_map(|(key, holders)| {
            holders.into_iter().map(move |holder| {
                let Holder {
                    pid: _,
                    fd,
                    access,
                    kind,
                } = holder;
                (fd, FdTarget { key, kind, access })
            })
        })
        .collect();
    found.sort_unstable_by_key(|&(fd, _)| fd);
    found
}

/// Looks up descriptors and caches what does not change: the devices of the file systems that contain
/// pipes and sockets, and which sockets are Unix sockets.
#[derive(Default)]
struct DescriptorReader {
    pipe_dev: Option<u64>,
    socket_dev: Option<u64>,
    sockets: HashMap<u64, StreamKind>,
}

/// What a link's text tells.
enum Link {
    Pipe(u64),
    Socket(u64),
    /// A path, which may be that of a named pipe.
    Path,
    Other,
}

impl Link {
    /// Paths start with `/`, so no file name can pass for a pipe.
    fn parse(text: &[u8]) -> Self {
        let inode = |prefix: &[u8]| -> Option<u64> {
            let digits = text.strip_prefix(prefix)?.strip_suffix(b"]")?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        };
        if let Some(ino) = inode(b"pipe:[") {
            Self::Pipe(ino)
        } else if let Some(ino) = inode(b"socket:[") {
            Self::Socket(ino)
        } else if text.first() == Some(&b'/') && !text.starts_with(b"/dev/") {
            Self::Path
        } else {
            Self::Other
        }
    }
}

impl DescriptorReader {
    fn process(&mut self, pid: Pid, dir: &ProcDir, holders: &mut Holders) -> Result<(), Errno> {
        self.table(pid, &dir.subdirectory("fd")?, holders)?;
        // Threads may have tables of their own, and the table of a main thread that has exited is
        // gone. Each table is read once, for the first thread that has it.
        let threads = dir.threads()?;
        for (index, thread) in threads.iter().enumerate().filter(|(_, id)| **id != pid) {
            let mut known = [&pid].into_iter().chain(&threads[..index]).take(TABLES_MAX);
            if known.any(|known| share_a_table(*known, *thread)) {
                continue;
            }
            if let Ok(fds) = dir.subdirectory(&format!("task/{thread}/fd")) {
                let _ = self.table(pid, &fds, holders);
            }
        }
        Ok(())
    }

    /// Takes in the descriptors that a directory lists.
    fn table(&mut self, pid: Pid, fds: &OwnedFd, holders: &mut Holders) -> Result<(), Errno> {
        let mut count = 0;
        for entry in Dir::read_from(fds)? {
            let entry = entry?;
            let Some(fd) = entry.file_name().to_str().ok().and_then(|n| n.parse().ok()) else {
                continue;
            };
            count += 1;
            if count > MAX_FDS_PER_PROCESS {
                break;
            }
            if let Some(FdTarget { key, kind, access }) = self.stream(fds.as_fd(), fd) {
                holders.entry(key).or_default().push(Holder {
                    pid,
                    fd,
                    access,
                    kind,
                });
            }
        }
        Ok(())
    }

    /// The target of a descriptor, if it is a stream.
    fn stream(&mut self, fds: BorrowedFd<'_>, fd: u32) -> Option<FdTarget> {
        let mut text = [0u8; 64];
        let text = link_text(fds, fd, &mut text)?;
        let (key, kind) = match Link::parse(text) {
            Link::Other => return None,
            Link::Path => {
                let stat = look(fds, fd)?;
                if file_type(&stat) != FileType::Fifo {
                    return None;
                }
                (inode_key(&stat), StreamKind::Fifo)
            }
            Link::Pipe(ino) => {
                let dev = match self.pipe_dev {
                    Some(dev) => dev,
                    None => *self.pipe_dev.insert(inode_key(&look(fds, fd)?).dev),
                };
                (InodeKey { dev, ino }, StreamKind::Pipe)
            }
            Link::Socket(ino) => {
                let kind = match self.sockets.entry(ino) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(unknown) => *unknown.insert(socket_kind(fds, fd)),
                };
                if kind != StreamKind::UnixSocket {
                    return None;
                }
                let dev = match self.socket_dev {
                    Some(dev) => dev,
                    None => *self.socket_dev.insert(inode_key(&look(fds, fd)?).dev),
                };
                (InodeKey { dev, ino }, kind)
            }
        };
        let access = link_access(fds, fd)?;
        Some(FdTarget { key, kind, access })
    }

    /// The target of a descriptor, whatever its type.
    fn target(&mut self, fds: BorrowedFd<'_>, fd: u32) -> Option<FdTarget> {
        if let Some(stream) = self.stream(fds, fd) {
            return Some(stream);
        }
        Some(FdTarget {
            key: inode_key(&look(fds, fd)?),
            kind: StreamKind::Other,
            access: link_access(fds, fd)?,
        })
    }
}

/// Whether two threads share a descriptor table. If the kernel does not tell (`CONFIG_KCMP`), assumes
/// that they do, as nearly all threads do.
fn share_a_table(one: Pid, other: Pid) -> bool {
    const KCMP_FILES: libc::c_long = 2;
    // SAFETY: compares two tasks by their numbers, and takes no pointers.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_FILES, 0, 0) };
    !matches!(order, 1..=3)
}

/// The text of a descriptor's link, cut to the length of `buffer`. Only paths are longer.
fn link_text<'b>(fds: BorrowedFd<'_>, fd: u32, buffer: &'b mut [u8; 64]) -> Option<&'b [u8]> {
    let length = rustix::fs::readlinkat_raw(fds, fd.to_string(), &mut buffer[..]).ok()?;
    buffer.get(..length)
}

/// The object that a descriptor refers to, where that is known without asking a file server: a hanging network
/// file system must not hang the daemon.
fn look(fds: BorrowedFd<'_>, fd: u32) -> Option<Statx> {
    let mask = StatxFlags::TYPE | StatxFlags::INO;
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(fds, fd.to_string(), flags, mask).ok()
}

fn link_access(fds: BorrowedFd<'_>, fd: u32) -> Option<Access> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let link = statx(fds, fd.to_string(), flags, StatxFlags::MODE).ok()?;
    Access::from_link_mode(link.stx_mode)
}

/// The protocol family of a socket. The socket file system reports it in an attribute, which unlike
/// `/proc/net/unix` covers sockets of other network namespaces.
fn socket_kind(fds: BorrowedFd<'_>, fd: u32) -> StreamKind {
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}/{fd}", fds.as_raw_fd());
    let mut name = [0u8; 32];
    match rustix::fs::getxattr(path, "system.sockprotoname", &mut name[..]) {
        Ok(length) if name[..length].starts_with(b"UNIX") => StreamKind::UnixSocket,
        _ => StreamKind::Other,
    }
}

fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

fn inode_key(stat: &Statx) -> InodeKey {
    InodeKey {
        dev: (u64::from(stat.stx_dev_major) << 20) | u64::from(stat.stx_dev_minor),
        ino: stat.stx_ino,
    }
}

/// The key of the target of one of this process' own descriptors, by which the daemon recognises its own
/// streams.
pub fn key_of(fd: impl AsFd) -> Option<InodeKey> {
    let stat = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO).ok()?;
    Some(inode_key(&stat))
}

/// The key of the file at a path; links are followed.
pub fn key_of_path(path: &std::path::Path) -> Option<InodeKey> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    key_of(openat(CWD, path, flags, Mode::empty()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    fn me() -> Pid {
        Pid(std::process::id())
    }

    fn mine(holders: &Holders, key: InodeKey) -> Vec<(u32, Access, StreamKind)> {
        let mut found: Vec<_> = holders
            .get(&key)
            .into_iter()
            .flatten()
            .filter(|holder| holder.pid == me())
            .map(|holder| (holder.fd, holder.access, holder.kind))
            .collect();
        found.sort_unstable_by_key(|&(fd, ..)| fd);
        found
    }

    fn number(fd: &impl AsRawFd) -> u32 {
        u32::try_from(fd.as_raw_fd()).unwrap()
    }

    #[test]
    fn pipes_sockets_and_fifos_of_this_process_are_found() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pipe:[1]");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let fifo = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();

        let holders = holders_snapshot();
        let pipe = key_of(&reader).unwrap();
        assert_eq!(pipe, key_of(&writer).unwrap());
        assert_eq!(
            mine(&holders, pipe),
            [
                (number(&reader), Access::Read, StreamKind::Pipe),
                (number(&writer), Access::Write, StreamKind::Pipe)
            ]
        );
        for socket in [&one, &two] {
            assert_eq!(
                mine(&holders, key_of(socket).unwrap()),
                [(number(socket), Access::Both, StreamKind::UnixSocket)]
            );
        }
        assert_ne!(key_of(&one), key_of(&two));
        assert_eq!(
            mine(&holders, key_of(&fifo).unwrap()),
            [(number(&fifo), Access::Both, StreamKind::Fifo)]
        );
        assert_eq!(key_of(&fifo), key_of_path(&path));
        assert_eq!(holders.get(&key_of(&tcp).unwrap()), None);

        let held = of_process(me());
        assert!(
            held.iter()
                .any(|(fd, target)| *fd == number(&writer) && target.key == pipe)
        );
        assert_eq!(target(me(), number(&tcp)).unwrap().kind, StreamKind::Other);
    }

    #[test]
    fn the_standard_streams_of_a_child_are_found() {
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid(child.id());
        let [input, output, error] = stdio(pid).unwrap();
        let (input, output) = (input.unwrap(), output.unwrap());
        assert_eq!(input.key, key_of(child.stdin.as_ref().unwrap()).unwrap());
        assert_eq!((input.kind, input.access), (StreamKind::Pipe, Access::Read));
        assert_eq!(
            (output.kind, output.access),
            (StreamKind::Pipe, Access::Write)
        );
        assert_eq!(error.unwrap().kind, StreamKind::Other);
        let snapshot = holders_snapshot();
        assert!(
            snapshot[&input.key]
                .iter()
                .any(|h| h.pid == pid && h.fd == 0)
        );
        assert!(
            snapshot[&input.key]
                .iter()
                .any(|h| h.pid == me() && h.access == Access::Write)
        );
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stdio(pid), None);
        assert_eq!(of_process(pid), []);
        assert_eq!(target(pid, 0), None);
    }

    #[test]
    fn paths_do_not_pass_for_pipes() {
        assert!(matches!(Link::parse(b"/tmp/pipe:[1]"), Link::Path));
        assert!(matches!(Link::parse(b"pipe:[x]"), Link::Other));
        assert!(matches!(Link::parse(b"pipe:[1"), Link::Other));
        assert!(matches!(Link::parse(b"anon_inode:[eventfd]"), Link::Other));
        assert!(matches!(Link::parse(b"/dev/pts/1"), Link::Other));
        assert!(matches!(Link::parse(b""), Link::Other));
        assert!(matches!(Link::parse(b"pipe:[12]"), Link::Pipe(12)));
        assert!(matches!(Link::parse(b"socket:[7]"), Link::Socket(7)));
    }

    #[test]
    fn a_snapshot_is_quick() {
        let files: Vec<_> = (0..500).map(|_| std::io::pipe().unwrap()).collect();
        let start = Instant::now();
        let holders = holders_snapshot();
        let took = start.elapsed();
        assert!(
            files
                .iter()
                .all(|(reader, _)| mine(&holders, key_of(reader).unwrap()).len() == 2)
        );
        // It takes microseconds per descriptor; the limit leaves room for a busy machine.
        assert!(took.as_millis() < 1000, "{took:?}");
        eprintln!("{} streams in {took:?}", holders.len());
    }
}
