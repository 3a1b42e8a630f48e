//! Which processes are tracked: the one look-up that everybody else pays.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use mcpinspect_common::tracked_slot;

use crate::{maps::TRACKED, offsets::OWN_TGID};

/// Whether `tgid` may hold a watched stream.
#[inline(always)]
pub fn is_tracked(tgid: u32) -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    TRACKED
        .get_ptr(tracked_slot(tgid))
        .is_some_and(|stamp| unsafe { stamp.read_volatile() } != 0)
}

/// Marks `tgid`, unless it is the daemon.
#[inline(always)]
pub fn mark(tgid: u32) {
    if tgid == OWN_TGID.load() {
        return;
    }
    if let Some(stamp) = TRACKED.get_ptr_mut(tracked_slot(tgid)) {
        // Never zero, whatever the clock says.
        // SAFETY: no arguments to the helper; an aligned word is stored whole.
        unsafe { stamp.write_volatile(bpf_ktime_get_ns() | 1) };
    }
}
