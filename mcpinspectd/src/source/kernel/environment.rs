//! This machine as discovery sees it: the probes' maps and the process table.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointKind, EndpointWatch, tracked_slot,
};
use nix::libc;

use crate::capture::Probes;
use crate::discover::{Environment, WatchPolicy};
use crate::model::{Executed, Pid, ServerIdentity};
use crate::process::fds::{Holder, Holders, StreamKind, holders_snapshot, of_process};
use crate::process::identity::Launched;
use crate::process::{Launches, ProcessInfo, own};

/// Decides what the configuration says about a process.
pub type PolicyOf = Box<dyn Fn(&ProcessInfo) -> WatchPolicy + Send>;
/// Finds a server's stable name.
pub type IdentityOf = Box<dyn FnMut(Launched<'_>) -> ServerIdentity + Send>;

/// The probes' maps and the process table.
pub struct KernelEnvironment {
    probes: Probes,
    policy: PolicyOf,
    identity: IdentityOf,
    /// The daemon's own pipes and sockets, which are never watched.
    own: HashSet<EndpointKey>,
    /// Processes (by slot and mark) that held nothing of interest at the last look.
    idle: HashMap<u32, u64>,
}

impl KernelEnvironment {
    /// The machine that the probes run on. `policy` and `identity` answer what discovery asks about
    /// processes.
    pub fn new(probes: Probes, policy: PolicyOf, identity: IdentityOf) -> Self {
        Self {
            probes,
            policy,
            identity,
            own: HashSet::new(),
            idle: HashMap::new(),
        }
    }

    /// The probes.
    pub fn probes(&mut self) -> &mut Probes {
        &mut self.probes
    }

    /// Excludes the daemon's own pipes and sockets, so that a program which reads its output is not
    /// taken for part of a session.
    pub(super) fn exclude_own_output(&mut self) {
        for (_, target) in of_process(own()) {
            let kind = match target.kind {
                StreamKind::Pipe | StreamKind::Fifo => EndpointKind::Pipe,
                StreamKind::UnixSocket => EndpointKind::UnixSocket,
                StreamKind::Other => continue,
            };
            let Ok(dev) = u32::try_from(target.key.dev) else {
                continue;
            };
            let key = EndpointKey {
                ino: target.key.ino,
                dev,
                kind: kind as u32,
            };
            self.own.insert(key);
            self.probes.set_watch(key, EndpointWatch::default());
        }
    }
}

impl Environment for KernelEnvironment {
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        if self.own.contains(&key) {
            return;
        }
        self.probes.set_watch(key, watch);
    }

    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.probes.counters(key)
    }

    fn forget(&mut self, key: EndpointKey) {
        if !self.own.contains(&key) {
            self.probes.forget(key);
        }
    }

    fn holders(&mut self) -> Holders {
        holders_snapshot()
    }

    fn holds(&self, pid: u32, endpoint: EndpointKey, end: End) -> bool {
        of_process(Pid(pid)).iter().any(|(_, target)| {
            let same = target.key.ino == endpoint.ino && target.key.dev == u64::from(endpoint.dev);
            same && match end {
                End::Reader => target.access.reads(),
                End::Writer => target.access.writes(),
            }
        })
    }

    fn unread(&mut self, holder: &Holder) -> Option<u64> {
        let process = descriptor(libc::SYS_pidfd_open, i64::from(holder.pid.0), 0, 0)?;
        let fd = i64::from(holder.fd);
        let stream = descriptor(
            libc::SYS_pidfd_getfd,
            i64::from(process.as_fd().as_raw_fd()),
            fd,
            0,
        )?;
        let mut unread: libc::c_int = 0;
        // SAFETY: FIONREAD writes one int, for which `unread` has room, and `stream` is open.
        let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &raw mut unread) };
        if result == 0 {
            u64::try_from(unread).ok()
        } else {
            None
        }
    }

    fn mark(&mut self, pid: u32) {
        self.probes.tracked.mark(pid);
    }

    fn unmark_idle(&mut self) {
        // Marks first: one that is set from now on has another stamp and stays. Then the endpoints
        // that are watched, which the probes register before they mark. Then who holds those.
        let marked = self.probes.tracked.marked();
        if marked.is_empty() {
            return;
        }
        let watched = self.probes.watched_inodes();
        let mut busy: HashSet<u32> = HashSet::new();
        for (key, holders) in holders_snapshot() {
            if watched.contains(&(key.dev, key.ino)) {
                busy.extend(holders.iter().map(|holder| tracked_slot(holder.pid.0)));
            }
        }
        // A process that moves a descriptor while its table is being read seems to hold nothing, so
        // that has to happen twice.
        let idle = marked.into_iter().filter(|(slot, _)| !busy.contains(slot));
        let idle: HashMap<u32, u64> = idle.collect();
        for (slot, stamp) in &idle {
            if self.idle.get(slot) == Some(stamp) {
                self.probes.tracked.clear(*slot, *stamp);
            }
        }
        self.idle = idle;
    }

    fn user(&self, pid: u32) -> Option<u32> {
        let path = format!("/proc/{pid}");
        std::fs::metadata(path).ok().map(|process| process.uid())
    }

    fn describe(&mut self, pid: u32, launches: &Launches) -> Option<Arc<ProcessInfo>> {
        ProcessInfo::known(Pid(pid), launches).map(Arc::new)
    }

    fn started(&mut self, pid: u32, executed: &Executed, launches: &Launches) -> Arc<ProcessInfo> {
        Arc::new(ProcessInfo::started(Pid(pid), executed, launches))
    }

    fn policy(&mut self, process: &ProcessInfo) -> WatchPolicy {
        (self.policy)(process)
    }

    fn identify(&mut self, server: Launched<'_>) -> ServerIdentity {
        (self.identity)(server)
    }
}

/// Makes a system call that returns a descriptor and that the C library has no wrapper for.
fn descriptor(number: libc::c_long, a: i64, b: i64, c: i64) -> Option<OwnedFd> {
    // SAFETY: both calls that come here take only integers and return a new descriptor or -1.
    let result = unsafe { libc::syscall(number, a, b, c) };
    let fd = i32::try_from(result).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: just opened, and owned by nothing else.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
