//! The switchover from the tracepoint to function exits: no call is missed, and none is captured twice.
//!
//! A call that was in progress when the function exits were attached ends only at the tracepoint, and
//! a server may wait hours in one until its next request comes. So the tracepoint stays until no
//! thread is in such a call. The probes note each thread of a tracked process that has ended a call
//! since then; a thread that is not noted, and is in a call on a watched stream, may still be in an
//! old one. Meanwhile the probes ensure that exactly one of the two hooks handles each call.

use std::collections::HashSet;
use std::time::Duration;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError};
use mcpinspect_core::model::{BootTime, Pid};
use mcpinspect_process as process;
use mcpinspect_process::{calls, fds};

use super::error::ProbeError;
use super::object::map;
use super::operations;
use super::tracked::TrackedProcesses;

/// Time between two scans of the threads, at first and at most: each scan visits all tracked
/// processes on the machine.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A switchover in progress.
pub(super) struct Switchover {
    under_way: Array<MapData, u32>,
    /// Threads that have ended a call since it began, by process and thread.
    threads: HashMap<MapData, u64, u8>,
    next_scan: BootTime,
    pause: Duration,
}

impl Switchover {
    /// Takes the maps that the probes use for it.
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<Self, ProbeError> {
        Ok(Self {
            under_way: map(ebpf, "SWITCHING_OVER")?,
            threads: map(ebpf, "THREADS_SEEN")?,
            next_scan: BootTime::default(),
            pause: PAUSE,
        })
    }

    /// Tells the probes whether two hooks share the calls.
    pub(super) fn set(&mut self, under_way: bool) -> Result<(), ProbeError> {
        self.under_way
            .set(0, u32::from(under_way), 0)
            .map_err(|error| ProbeError::Map {
                map: "SWITCHING_OVER",
                error,
            })
    }

    /// Whether it is time for the next scan.
    pub(super) fn is_due(&mut self, now: BootTime) -> bool {
        let due = now >= self.next_scan;
        if due {
            self.next_scan = now + self.pause;
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        due
    }

    /// Whether any thread may still be in a call on one of the `watched` streams (device and inode)
    /// that began before the switchover.
    pub(super) fn is_awaiting_calls(
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
            .any(|pid| self.is_awaiting(pid, &numbers, watched))
    }

    fn is_awaiting(&self, pid: Pid, numbers: &HashSet<u64>, watched: &HashSet<(u64, u64)>) -> bool {
        calls::threads(pid).into_iter().any(|(thread, state)| {
            // The thread's call was read first: if it has ended since, the thread is already noted.
            !self.is_noted(pid, thread)
                && match state {
                    calls::ThreadState::Elsewhere => false,
                    calls::ThreadState::Unknown => true,
                    calls::ThreadState::Call { number, first } => {
                        numbers.contains(&number) && leads_to(pid, first, watched)
                    }
                }
        })
    }

    fn is_noted(&self, pid: Pid, thread: u32) -> bool {
        let key = u64::from(pid.0) << 32 | u64::from(thread);
        !matches!(self.threads.get(&key, 0), Err(MapError::KeyNotFound))
    }
}

/// Whether a process's descriptor refers to one of the `watched` streams.
fn leads_to(pid: Pid, descriptor: u64, watched: &HashSet<(u64, u64)>) -> bool {
    u32::try_from(descriptor)
        .ok()
        .and_then(|descriptor| fds::target(pid, descriptor))
        .is_some_and(|target| watched.contains(&(target.key.dev, target.key.ino)))
}
