//! A handle to exactly one process, for signalling it.
//!
//! The handle is the process' directory in `/proc`. Reads and signals through it always reach that
//! process, or none once it is gone, even if another process has its number by then. This also holds
//! where `/proc` numbers processes differently than this process' pid namespace, as in a container that
//! monitors its host; there the kernel refuses to signal processes outside the namespace.
//!
//! Minimum kernel version: 5.1 (`pidfd_send_signal`).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use mcpinspect_core::model::Pid;
use nix::errno::Errno;
use nix::libc;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::procfs::Stat;

/// A process that can be signalled.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens the process that has this number now; `None` if there is none.
    ///
    /// # Errors
    /// If this process is not permitted to look at it.
    pub fn open(pid: Pid) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()) {
            Ok(directory) => Ok(Some(Self(directory))),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(Errno::from_raw(error.raw_os_error())),
        }
    }

    /// When it started, in clock ticks since boot; `None` if it is gone.
    pub fn start_time(&self) -> Option<u64> {
        self.start().map(|(start_time, _)| start_time)
    }

    /// When it started, in clock ticks since boot, and its parent now; `None` if it is gone.
    pub fn start(&self) -> Option<(u64, Pid)> {
        use std::io::Read as _;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let stat = openat(&self.0, "stat", flags, Mode::empty()).ok()?;
        let mut line = Vec::new();
        let mut stat = std::fs::File::from(stat).take(4096);
        stat.read_to_end(&mut line).ok()?;
        let stat = Stat::parse(&line)?;
        Some((stat.start_time, stat.parent))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// `ESRCH` if it is gone, `EPERM` if it must not be signalled, `EINVAL` if it is not visible in this
    /// pid namespace.
    pub fn signal(&self, signal: libc::c_int) -> Result<(), Errno> {
        let fd = self.0.as_fd().as_raw_fd();
        let nothing: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: the descriptor is open, and with a null `siginfo` the kernel fills it in as kill(2) does.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, nothing, 0) };
        Errno::result(result).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate as process;

    #[test]
    fn signals_reach_the_process_and_never_its_successor() {
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid(child.id());
        let held = ProcessHandle::open(pid).unwrap().unwrap();
        assert_eq!(held.start_time(), process::start_time(pid));
        held.signal(0).unwrap();
        held.signal(libc::SIGKILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert_eq!(held.signal(0), Err(Errno::ESRCH));
        assert_eq!(held.start_time(), None);
        assert!(ProcessHandle::open(Pid(u32::MAX)).unwrap().is_none());
    }
}
