//! How function exits take over from the tracepoint, with no call seen by neither or by both.
//!
//! A call that was under way when the function exits were attached is seen ending by the tracepoint
//! alone: a server waits in one for its next request, perhaps for hours. So the tracepoint stays until
//! no thread is in such a call any more. The probes note each thread of a tracked process that has
//! ended a call since; who is not noted, and is in a call on a watched stream, may still be in an old
//! one. In the meantime each call is looked at through one of the hooks; the probes see to that.

use std::collections::HashSet;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};

use super::operations;
use super::probes::{ProbeError, map};
use super::tracked::TrackedProcesses;
use crate::model::Pid;
use crate::process::{self, calls, fds};

/// Nanoseconds between two looks at the threads, at first and at most: each goes through all of the
/// machine's tracked processes.
const PAUSE: u64 = Duration::from_secs(1).as_nanos() as u64;
const PAUSE_MAX: u64 = Duration::from_secs(30).as_nanos() as u64;

/// A handing over that is under way.
pub(super) struct Handover {
    under_way: Array<MapData, u32>,
    /// Threads that have ended a call since it began, by process and thread.
    threads: HashMap<MapData, u64, u8>,
    next_look: u64,
    pause: u64,
}

impl Handover {
    /// The probes' side of it.
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        Ok(Self {
            under_way: map(ebpf, "HANDING_OVER")?,
            threads: map(ebpf, "THREADS")?,
            next_look: 0,
            pause: PAUSE,
        })
    }

    /// Has the hooks part the calls among them, or not any more.
    pub(super) fn set(&mut self, under_way: bool) -> Result<(), ProbeError> {
        self.under_way
            .set(0, u32::from(under_way), 0)
            .map_err(|error| ProbeError::Map {
                map: "HANDING_OVER",
                error,
            })
    }

    /// Whether it is time to look at the threads again.
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next_look;
        if due {
            self.next_look = now.saturating_add(self.pause);
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        due
    }

    /// Whether a thread may still be in a call on one of the `watched` streams (device and inode) that
    /// began before.
    pub(super) fn is_awaited(
        &self,
        tracked: &TrackedProcesses,
        watched: &HashSet<(u64, u64)>,
    ) -> bool {
        let numbers: HashSet<u64> = operations::table()
            .map(|(number, _)| u64::from(number))
            .collect();
        process::pids()
            .into_iter()
            .filter(|pid| tracked.stamp(pid.0) != 0)
            .any(|pid| self.is_process_awaited(pid, &numbers, watched))
    }

    fn is_process_awaited(
        &self,
        pid: Pid,
        numbers: &HashSet<u64>,
        watched: &HashSet<(u64, u64)>,
    ) -> bool {
        calls::threads(pid).into_iter().any(|(thread, doing)| {
            // What it is doing was read before: a call that it has ended since is noted by now.
            !self.is_noted(pid, thread)
                && match doing {
                    calls::Doing::Elsewhere => false,
                    calls::Doing::Unknown => true,
                    calls::Doing::Call { number, first } => {
                        numbers.contains(&number) && is_on(pid, first, watched)
                    }
                }
        })
    }

    fn is_noted(&self, pid: Pid, thread: u32) -> bool {
        let key = u64::from(pid.0) << 32 | u64::from(thread);
        !matches!(self.threads.get(&key, 0), Err(MapError::KeyNotFound))
    }
}

/// Whether a process' descriptor leads to one of the `watched` streams.
fn is_on(pid: Pid, descriptor: u64, watched: &HashSet<(u64, u64)>) -> bool {
    u32::try_from(descriptor)
        .ok()
        .and_then(|descriptor| fds::target(pid, descriptor))
        .is_some_and(|target| watched.contains(&(target.key.dev, target.key.ino)))
}
