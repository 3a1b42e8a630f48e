//! Which processes are involved: the one look-up that everybody else pays.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use mcpinspect_common::involved_slot;

use crate::{maps::INVOLVED, offsets::OWN_TGID};

/// Whether `tgid` may hold a watched stream.
#[inline(always)]
pub fn is_involved(tgid: u32) -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    INVOLVED
        .get_ptr(involved_slot(tgid))
        .is_some_and(|stamp| unsafe { stamp.read_volatile() } != 0)
}

/// Marks `tgid`, unless it is the daemon.
#[inline(always)]
pub fn mark(tgid: u32) {
    if tgid == OWN_TGID.load() {
        return;
    }
    if let Some(stamp) = INVOLVED.get_ptr_mut(involved_slot(tgid)) {
        // Never zero, whatever the clock says.
        // SAFETY: no arguments to the helper; an aligned word is stored whole.
        unsafe { stamp.write_volatile(bpf_ktime_get_ns() | 1) };
    }
}
