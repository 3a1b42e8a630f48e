//! The table of processes, shared with the probes as memory: which ones are tracked.
//!
//! The probes capture calls of tracked processes only. They set marks at any time. Clearing a mark
//! must not clear one that was set after the daemon looked, so it is a compare-and-swap on the time
//! stamp that serves as the mark; a map update cannot do that.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpinspect_common::{TRACKED_SLOTS, tracked_slot};

use super::mapped::MappedWords;

/// Words of a process's slot. The first is the mark.
const WORDS: u32 = 2;

/// The mapped table.
pub struct TrackedProcesses(MappedWords);

impl TrackedProcesses {
    /// Maps the table behind `map`.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub fn new(map: impl AsFd) -> nix::Result<Self> {
        MappedWords::new(map, TRACKED_SLOTS * WORDS).map(Self)
    }

    fn slot(&self, tgid: u32) -> &AtomicU64 {
        // `tracked_slot` is below the number of slots.
        &self.0.all()[(tracked_slot(tgid) * WORDS) as usize]
    }

    /// When `tgid` was marked; 0 if it is not tracked.
    pub fn stamp(&self, tgid: u32) -> u64 {
        self.slot(tgid).load(Ordering::Acquire)
    }

    /// Marks `tgid`.
    pub fn mark(&self, tgid: u32) {
        // Any value but 0 is a mark; a probe's later mark replaces it.
        let _ = self
            .slot(tgid)
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Clears the mark of `tgid`, if it is still `seen`.
    pub fn clear(&self, tgid: u32, seen: u64) {
        let _ = self
            .slot(tgid)
            .compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The marked slots with their stamps.
    pub fn marked(&self) -> Vec<(u32, u64)> {
        (0..TRACKED_SLOTS)
            .filter_map(|slot| match self.stamp(slot) {
                0 => None,
                stamp => Some((slot, stamp)),
            })
            .collect()
    }
}
