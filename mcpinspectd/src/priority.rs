//! Who goes first on a busy machine: those that the daemon would otherwise fall behind.
//!
//! The processes that are watched fill the kernel's ring as fast as they get processor time. The
//! thread that empties it must get its turn before them, or bytes are lost; then come those that
//! make events of the bytes and carry them out.
//!
//! Raising a thread's priority takes `CAP_SYS_NICE`, which the daemon gives up, and the resource
//! limit that would stand for it takes `CAP_SYS_RESOURCE`, which containers often lack. Lowering it
//! takes nothing. So the process claims the highest once, at its start, or is given it by the service
//! manager; threads inherit it and step back as far as is theirs.

use rustix::process::setpriority_process;

/// A rank, by its nice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Priority {
    /// Who empties the ring.
    Ring = -15,
    /// The pipeline, and who carries events out: an event that waits for its turn is a late one.
    Pipeline = -10,
    /// Work that nobody waits for: an ordinary process's.
    Background = 0,
}

impl Priority {
    /// The highest of them, which is for the process to start with.
    pub const HIGHEST: Self = Self::Ring;

    /// Makes it the calling thread's. Only a matter of speed: a thread that may not have it runs
    /// with what it has.
    pub fn claim(self) {
        // On Linux this is of the calling thread alone, see NOTES in setpriority(2).
        if let Err(error) = setpriority_process(None, self as i32) {
            tracing::debug!(priority = ?self, %error, "cannot have the priority");
        }
    }
}
