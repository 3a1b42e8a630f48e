//! A hold on exactly one process, by which it can be signalled.
//!
//! The hold is its directory in `/proc`: what is read through it and what is signalled through it
//! are the same process, or nobody once it is gone, whoever has its number by then. That is true
//! also where the number means another process to us than to `/proc`, as in a container that
//! monitors its host; there the kernel refuses what is out of our reach.
//!
//! Minimum kernel version: 5.1 (`pidfd_send_signal`).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::procfs::Stat;
use crate::model::Pid;

/// See the module's text.
#[derive(Debug)]
pub struct Handle(OwnedFd);

impl Handle {
    /// Takes hold of the process that has this number now; `None` where there is none.
    ///
    /// # Errors
    /// It may not be looked at.
    pub fn open(pid: Pid) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()) {
            Ok(directory) => Ok(Some(Self(directory))),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::SRCH) => Ok(None),
            Err(error) => Err(Errno::from_raw(error.raw_os_error())),
        }
    }

    /// When it started, in clock ticks since boot; `None` where it is gone.
    pub fn start_time(&self) -> Option<u64> {
        use std::io::Read as _;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let stat = openat(&self.0, "stat", flags, Mode::empty()).ok()?;
        let mut line = Vec::new();
        let mut stat = std::fs::File::from(stat).take(4096);
        stat.read_to_end(&mut line).ok()?;
        Some(Stat::parse(&line)?.start_time)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// `ESRCH` where it is gone, `EPERM` where it is not ours to signal, `EINVAL` where it is in
    /// none of our pid namespaces.
    pub fn signal(&self, signal: libc::c_int) -> Result<(), Errno> {
        let fd = self.0.as_fd().as_raw_fd();
        let nothing: *const libc::siginfo_t = std::ptr::null();
        // SAFETY: the descriptor is open, and a null `siginfo` asks for what kill(2) would give.
        let result = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, signal, nothing, 0) };
        Errno::result(result).map(drop)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::process;

    #[test]
    fn what_is_held_is_signalled_and_nobody_after_it() {
        let mut child = Command::new("sleep")
            .arg("1000")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid(child.id());
        let held = Handle::open(pid).unwrap().unwrap();
        assert_eq!(held.start_time(), process::start_time(pid));
        held.signal(0).unwrap();
        held.signal(libc::SIGKILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert_eq!(held.signal(0), Err(Errno::ESRCH));
        assert_eq!(held.start_time(), None);
        assert!(Handle::open(Pid(u32::MAX)).unwrap().is_none());
    }
}
