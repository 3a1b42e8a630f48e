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

/// The next mark that the daemon sets. Odd and far below the nanoseconds that the probes use, so that it
/// is neither 0 nor one of theirs; each is new, so that clearing an older one leaves it alone.
static NEXT_MARK: AtomicU64 = AtomicU64::new(1);

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
        let mark = NEXT_MARK.fetch_add(2, Ordering::Relaxed);
        self.slot(tgid).store(mark, Ordering::Release);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_that_was_set_after_a_survey_began_survives_it() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(u64::from(TRACKED_SLOTS * WORDS) * 8).unwrap();
        let tracked = TrackedProcesses::new(&file).unwrap();
        tracked.mark(7);
        let marked = tracked.marked();
        tracked.mark(7);
        for (slot, stamp) in marked {
            tracked.clear(slot, stamp);
        }
        assert_ne!(tracked.stamp(7), 0);
        for (slot, stamp) in tracked.marked() {
            tracked.clear(slot, stamp);
        }
        assert_eq!(tracked.marked(), []);
    }
}
