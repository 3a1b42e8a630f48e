//! A program as the kernel saw it start.

use std::fmt;

use super::Pid;

/// Nanoseconds per clock tick: the unit of start times in `/proc`. `USER_HZ` is 100 on every
/// architecture that the probes support.
const TICK: u64 = 10_000_000;

/// What the kernel knew of a program when a process started it. All text is raw: neither escaped nor
/// redacted.
#[derive(Clone, PartialEq, Eq)]
pub struct Executed {
    /// When the process started, in clock ticks since boot.
    pub start_time: u64,
    /// Its real user id.
    pub uid: u32,
    /// Its short name (`comm`).
    pub name: String,
    /// The path of the executable: in the directory that the caller named, under its name there, with
    /// links resolved.
    pub executable: String,
    /// The executable's inode number.
    pub executable_ino: u64,
    /// The working directory's inode number.
    pub directory_ino: u64,
    /// Its arguments, each followed by a zero; `None` if the kernel could not read them. What does not
    /// fit into a record is cut off. **Secret.**
    pub arguments: Option<Box<[u8]>>,
    /// From the parent upwards; at most [`mcpinspect_common::EXEC_ANCESTORS`].
    pub ancestors: Vec<ExecutedBy>,
}

/// An ancestor of a process that started a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedBy {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
    /// Its real user id.
    pub uid: u32,
    /// Its short name, which it may have chosen itself.
    pub name: String,
}

impl fmt::Debug for Executed {
    /// Leaves the arguments out: logs have other readers than the process' owner.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executed")
            .field("start_time", &self.start_time)
            .field("uid", &self.uid)
            .field("executable", &self.executable)
            .field("ancestors", &self.ancestors)
            .finish_non_exhaustive()
    }
}

/// Converts nanoseconds since boot to the clock ticks that `/proc` counts start times in.
pub fn ticks(nanoseconds: u64) -> u64 {
    nanoseconds / TICK
}
