//! Tracked processes: those that may hold a watched stream.
//!
//! The probes mark a process when it starts with a pipe or socket as standard input or output, when
//! a tracked process forks it, when it receives a descriptor, and when the descriptor iterator finds
//! a candidate in its table. User space takes marks back.
//!
//! Cost to other processes: one array look-up for each call that carries bytes. A process whose id
//! equals a tracked one's modulo the table's size shares its slot and pays like a tracked process.
//!
//! Minimum kernel version: 5.5 (arrays that user space can map).

use aya_ebpf::helpers::bpf_ktime_get_ns;
use mcpinspect_common::tracked_slot;

use crate::{maps::TRACKED, offsets::OWN_TGID};

/// Whether `tgid` may hold a watched stream.
#[inline(always)]
pub fn is_tracked(tgid: u32) -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    TRACKED
        .get_ptr(tracked_slot(tgid))
        .is_some_and(|words| unsafe { (&raw const (*words)[0]).read_volatile() } != 0)
}

/// Marks `tgid`, unless it is the daemon.
#[inline(always)]
pub fn mark(tgid: u32) {
    if tgid == OWN_TGID.load() {
        return;
    }
    if let Some(words) = TRACKED.get_ptr_mut(tracked_slot(tgid)) {
        // The lowest bit keeps the stamp from being 0, whatever the clock returns.
        // SAFETY: the helper takes no arguments; an aligned word is stored whole.
        unsafe { (&raw mut (*words)[0]).write_volatile(bpf_ktime_get_ns() | 1) };
    }
}
