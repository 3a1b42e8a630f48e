//! Shares the ring among users: the one who fills it is the first to lose records.
//!
//! A user's record is admitted while fewer of that user's bytes wait than [`RING_SHARE_FACTOR`] times the
//! free ones. One user alone can fill four fifths, two can fill four ninths each, and some room is left
//! for the next user ("dynamic thresholds": A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length
//! Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6, 1998).
//!
//! Cost to other processes: none. A watched process pays for a look at the ring, one look-up and one
//! atomic addition per record.
//!
//! Minimum kernel version: 5.12 (atomic operations).

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_RING_SIZE},
    helpers::bpf_get_current_uid_gid,
};
use mcpinspect_common::{RING_SHARE_FACTOR, RING_SHARED_ABOVE, RecordHeader, ring_share_slot};

use crate::ledger::add;
use crate::maps::{RECORDS, RING_READ, RING_WRITTEN};

/// The running user's share, which has room for a record.
pub struct Share {
    slot: u8,
    written: *mut u64,
}

/// Admits a record of the running user. `None`: it must be dropped, and counted as lost.
#[inline(always)]
pub fn admit() -> Option<Share> {
    let slot = ring_share_slot(bpf_get_current_uid_gid() as u32);
    let written = RING_WRITTEN.get_ptr_mut(u32::from(slot))?;
    let waiting = RECORDS.query(u64::from(BPF_RB_AVAIL_DATA));
    if waiting > RING_SHARED_ABOVE {
        let size = RECORDS.query(u64::from(BPF_RB_RING_SIZE));
        let read = RING_READ.get_ptr(u32::from(slot))?;
        // SAFETY: values of arrays, which stay; both only ever grow, by atomic additions.
        let theirs = unsafe { written.read_volatile().wrapping_sub(read.read_volatile()) };
        if theirs >= size.saturating_sub(waiting) * RING_SHARE_FACTOR {
            return None;
        }
    }
    Some(Share { slot, written })
}

impl Share {
    /// Counts a record that was reserved, with its `size` in bytes, and marks it as this user's: the
    /// reader uses the mark to count it as read.
    #[inline(always)]
    pub fn charge(self, header: &mut RecordHeader, size: usize) {
        header.share = self.slot;
        // SAFETY: a value of an array, which stays.
        unsafe { add(self.written, size as u64) };
    }
}
