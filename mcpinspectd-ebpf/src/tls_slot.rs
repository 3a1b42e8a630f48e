//! Slots for what is too large for the stack, in programs that the kernel may preempt: each belongs to the
//! program that has taken it.
//!
//! Minimum kernel version: 5.12 (atomic operations that return the previous value).

use core::intrinsics::{AtomicOrdering, atomic_cxchg};

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, macros::map, maps::Array};
use mcpinspect_common::EndpointKey;

use crate::connection_entry::Scratch;

/// A power of two.
const SLOTS: u32 = 64;
/// Slots to try. A program that is preempted keeps its slot for a while.
const ATTEMPTS: u32 = 8;

/// A slot.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ScratchSlot {
    /// 1 while a program has taken it.
    taken: u64,
    pub scratch: Scratch,
    pub buffer: Buffer,
}

/// The part of a buffer still to be shipped.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Buffer {
    pub key: EndpointKey,
    pub end: u64,
    pub position: u64,
    pub address: u64,
    pub left: u64,
}

#[map]
static TLS_SLOTS: Array<ScratchSlot> = Array::with_max_entries(SLOTS, 0);

/// Takes a free slot, if there is one.
#[inline(always)]
pub fn take() -> Option<u32> {
    const ORDER: AtomicOrdering = AtomicOrdering::SeqCst;
    let first = bpf_get_current_pid_tgid() as u32;
    for attempt in 0..ATTEMPTS {
        let index = first.wrapping_add(attempt) & (SLOTS - 1);
        let slot = TLS_SLOTS.get_ptr_mut(index)?;
        // SAFETY: an aligned word of an array's value.
        let (found, _) = unsafe { atomic_cxchg::<u64, ORDER, ORDER>(&raw mut (*slot).taken, 0, 1) };
        if found == 0 {
            return Some(index);
        }
    }
    None
}

/// The slot of this number.
#[inline(always)]
pub fn at(index: u32) -> Option<*mut ScratchSlot> {
    TLS_SLOTS.get_ptr_mut(index)
}

/// Releases a slot.
#[inline(always)]
pub fn release(index: u32) {
    if let Some(slot) = at(index) {
        // SAFETY: an aligned word of an array's value.
        unsafe { (&raw mut (*slot).taken).write_volatile(0) };
    }
}
