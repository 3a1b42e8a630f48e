//! The table of tracked processes, shared with the probes as memory.
//!
//! The probes capture calls of tracked processes only. They set marks at any time. Clearing a mark
//! must not clear one that was set after the daemon looked, so it is a compare-and-swap on the time
//! stamp that is the mark; a map update cannot do that.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpinspect_common::{TRACKED_SLOTS, tracked_slot};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

const BYTES: NonZeroUsize =
    NonZeroUsize::new(TRACKED_SLOTS as usize * size_of::<u64>()).expect("not zero");

/// The mapped table.
pub struct TrackedProcesses {
    base: NonNull<AtomicU64>,
}

// SAFETY: the memory is shared with the kernel anyway, and every access is atomic.
unsafe impl Send for TrackedProcesses {}

impl TrackedProcesses {
    /// Maps the table behind `map`.
    ///
    /// # Errors
    /// The kernel refuses the mapping.
    pub fn new(map: impl AsFd) -> nix::Result<Self> {
        // SAFETY: a new mapping of the map's whole value area, which lives until it is unmapped.
        let base = unsafe {
            mmap(
                None,
                BYTES,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                map,
                0,
            )?
        };
        Ok(Self { base: base.cast() })
    }

    fn slot(&self, tgid: u32) -> &AtomicU64 {
        // SAFETY: `tracked_slot` is below the number of slots, all of which are mapped and aligned.
        unsafe { self.base.add(tracked_slot(tgid) as usize).as_ref() }
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

impl Drop for TrackedProcesses {
    fn drop(&mut self) {
        // SAFETY: unmaps the memory that `new` mapped; nothing borrows it any more.
        if let Err(error) = unsafe { munmap(self.base.cast(), BYTES.get()) } {
            tracing::debug!(%error, "cannot unmap the table of tracked processes");
        }
    }
}
