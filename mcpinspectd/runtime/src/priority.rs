//! The priorities of the daemon's threads, which keep it ahead of the processes that it watches.
//!
//! Watched processes fill the kernel's ring as fast as they get processor time. The thread that
//! empties it must run before them, or bytes are lost; next come the threads that turn bytes into
//! events and deliver those.
//!
//! Raising a thread's priority takes `CAP_SYS_NICE`, which the daemon drops, or a resource limit that
//! takes `CAP_SYS_RESOURCE`, which containers often lack. Lowering it takes nothing. So the process
//! claims the highest priority once, at its start, or inherits it from the service manager; each
//! thread then lowers its own.

use rustix::process::setpriority_process;

/// A priority, as a nice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Priority {
    /// The thread that empties the ring.
    Ring = -15,
    /// The pipeline and the delivery of events: an event that waits its turn is late.
    Pipeline = -10,
    /// Writing recorded messages to the disk: whatever waits for it is lost in a crash.
    Recording = -9,
    /// Work that no event waits for, at the priority of an ordinary process.
    Background = 0,
    /// Work that gives way to every process: a stranger's question.
    Idle = 15,
}

impl Priority {
    /// The highest, for the process to start with.
    pub const HIGHEST: Self = Self::Ring;

    /// Sets the calling thread's priority. A thread that is not allowed to have it keeps its current one; only
    /// speed depends on it.
    pub fn claim(self) {
        // On Linux this concerns the calling thread alone: see NOTES in setpriority(2).
        if let Err(error) = setpriority_process(None, self as i32) {
            tracing::debug!(priority = ?self, %error, "cannot set the priority");
        }
    }
}
