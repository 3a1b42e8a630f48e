//! Returning unused memory to the system.
//!
//! Messages range from a few bytes to many megabytes, and they are handed from thread to thread.
//! By default glibc raises its thresholds with the largest block that it has seen, and gives every
//! thread a heap of its own: after one large message a daemon that idles for the rest of the day
//! would keep tens of megabytes that it does not use.

use std::time::{Duration, Instant};

/// From this size on, a block is a separate mapping, returned to the kernel when freed: a message of some length,
/// and not the many small things that stay.
#[cfg(target_env = "gnu")]
const MAPPED_FROM: nix::libc::c_int = 64 << 10;
/// This much may be unused at the end of the heap.
#[cfg(target_env = "gnu")]
const UNUSED_MAX: nix::libc::c_int = 128 << 10;

/// Fixes the thresholds, and keeps all threads on one heap. Call this before any thread
/// is started.
#[cfg(target_env = "gnu")]
pub fn return_promptly() {
    use nix::libc::{M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, mallopt};

    for (parameter, value) in [
        (M_MMAP_THRESHOLD, MAPPED_FROM),
        (M_TRIM_THRESHOLD, UNUSED_MAX),
        (M_ARENA_MAX, 1),
    ] {
        // SAFETY: no other thread runs yet that could allocate meanwhile. A refusal changes nothing.
        unsafe {
            mallopt(parameter, value);
        }
    }
}

/// Other libraries do this by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn return_promptly() {}

/// Returns unused memory between blocks in use to the system: while there is much to do, whenever the daemon has
/// grown, because half of that may be unused; and after work, because what a burst of messages took would stay with
/// the daemon for as long as an event behind it is kept.
#[derive(Debug)]
pub struct HeapTrim {
    next_look: Instant,
    /// Resident memory after the last time, in bytes; the least since then, if it has shrunk.
    settled: u64,
    next: Instant,
    /// The work done when it was last worth it.
    work: u64,
    /// How many times are left: what the work took is given up some seconds after it.
    times: u8,
}

/// How often it is looked whether the daemon has grown.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// By how much it may grow in between, in bytes.
const GROWTH: u64 = 8 << 20;
/// Until the last thing that a process left behind has been given up.
const TIMES: u8 = 3;
/// How long it takes depends on the heap's size: about a millisecond for 10 MiB.
const TRIM_EVERY: Duration = Duration::from_secs(5);

impl HeapTrim {
    /// Bytes taken in after which trimming is worth it: a machine on which a program starts now and then
    /// leaves nothing to give back.
    pub const WORTH: u64 = 256 << 10;

    /// From now on.
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            next_look: now + LOOK_EVERY,
            settled: resident().unwrap_or(0),
            next: now + TRIM_EVERY,
            work: 0,
            times: 0,
        }
    }

    /// Trims the heap, if it is time to and work was done recently. `work` counts the bytes taken in;
    /// it is asked for only then.
    pub fn attend(&mut self, work: impl FnOnce() -> u64) {
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            let resident = resident().unwrap_or(0);
            if resident > self.settled.saturating_add(GROWTH) {
                self.trim();
            }
            self.settled = self.settled.min(resident);
        }
        if now < self.next {
            return;
        }
        self.next = now + TRIM_EVERY;
        let work = work();
        if work.saturating_sub(self.work) >= Self::WORTH {
            self.work = work;
            self.times = TIMES;
        }
        if self.times > 0 {
            self.times -= 1;
            self.trim();
        }
    }

    fn trim(&mut self) {
        trim();
        self.settled = resident().unwrap_or(0);
    }
}

/// This process's resident memory in bytes (proc_pid_statm(5)); `None` if the kernel does not say.
fn resident() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = sizes.split(' ').nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    pages.checked_mul(page.try_into().ok()?)
}

#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: no pointers; it takes the heap's lock, as an allocation does.
    unsafe {
        nix::libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_resident() {
        assert!(
            resident().is_some_and(|bytes| bytes > 1 << 20),
            "{:?}",
            resident()
        );
    }
}
