//! Processes, in as much detail as a reader of events needs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A process id (thread group id) in the initial pid namespace. Pids are reused: code that keeps one
/// for longer also keeps its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A specific process, and not the next one with its pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

/// A process of a session, in as much detail as a reader needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// Its pid.
    pub pid: Pid,
    /// Start time in clock ticks since boot (`/proc/pid/stat` field 22): tells reused pids apart.
    pub start_time: u64,
    /// Path of its executable.
    pub exe: String,
    /// Command line, secrets masked.
    pub command: Vec<String>,
    /// Real user id.
    pub uid: u32,
    /// Its cgroup path.
    pub cgroup: String,
    /// The systemd unit or container that the cgroup names.
    pub unit: Option<String>,
    /// Its ancestors from the parent upwards, as `name(pid)`.
    pub parents: Vec<String>,
}
