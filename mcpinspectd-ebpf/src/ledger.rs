//! The ledger: how many bytes crossed each end of a stream, and how many of them were lost.
//!
//! Positions advance for every byte of a watched stream, whether or not its payload is shipped and
//! whether or not shipping succeeds. So a full ring loses payload, never the knowledge that it was
//! lost.
//!
//! Cost to other processes: none. Only calls on a watched stream get this far.
//!
//! Minimum kernel version: 5.12 (atomic operations that return the previous value).

use core::intrinsics::{AtomicOrdering, atomic_cxchg, atomic_xadd};

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, NOT_JSON_BUDGET, REGISTERING, SHIP_REGARDLESS,
};

use crate::{kernel::user, maps::COUNTERS, watch};

/// A run of bytes to ship.
#[derive(Clone, Copy)]
pub struct Extent {
    pub position: u64,
    pub bytes: u64,
}

/// Advances the position of `end` by `total`, and returns the part to ship.
#[inline(always)]
pub fn account(key: &EndpointKey, end: usize, total: u64) -> Extent {
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return Extent {
            position: 0,
            bytes: 0,
        };
    };
    let position = advance(counters, end, total);
    if position & REGISTERING != 0 {
        return Extent {
            position: 0,
            bytes: 0,
        };
    }
    let mut limit = watch::ship_limit(key, end);
    // SAFETY: as in `advance`.
    let not_json = unsafe { (&raw const (*counters).not_json[end & 1]).read_volatile() } != 0;
    if not_json && limit < SHIP_REGARDLESS && limit > NOT_JSON_BUDGET {
        limit = NOT_JSON_BUDGET;
    }
    let wanted = (limit & !SHIP_REGARDLESS).saturating_sub(position);
    Extent {
        position,
        bytes: if total < wanted { total } else { wanted },
    }
}

/// Accounts for `total` bytes that crossed `end` and cannot be shipped.
#[inline(always)]
pub fn account_uncopied(key: EndpointKey, end: End, total: u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(key) {
        advance(counters, end as usize, total);
        add_lost(counters, end as usize, total);
    }
}

/// Counts `bytes` at `end` as lost: they should have been shipped and were not.
#[inline(always)]
pub fn lost(key: &EndpointKey, end: usize, bytes: u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(key) {
        add_lost(counters, end, bytes);
    }
}

/// If `address` holds the stream's first byte: notes whether it can begin JSON.
#[inline(always)]
pub fn note_first_byte(key: &EndpointKey, end: usize, address: u64) {
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return;
    };
    // SAFETY: aligned words of a map entry that stays allocated while the program runs.
    unsafe {
        if (&raw const (*counters).position[end & 1]).read_volatile() == 0
            && !matches!(
                user::<u8>(address),
                Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef)
            )
        {
            (&raw mut (*counters).not_json[end & 1]).write_volatile(1);
        }
    }
}

/// Notes the length of the first write after a registration that found unread bytes: those may
/// already include it, see [`EndpointCounters::first_write`]. `again` is set if the same call has
/// written before (`sendmmsg`). Returns whether this is that call.
#[inline(always)]
pub fn note_first_write(
    key: &EndpointKey,
    end: usize,
    position: u64,
    total: u64,
    again: bool,
) -> bool {
    if end != End::Writer as usize || position == 0 {
        return false;
    }
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return false;
    };
    // SAFETY: as in `advance`.
    unsafe {
        let unread = (&raw const (*counters).unread).read_volatile();
        if position != unread && !again {
            return false;
        }
        let before = (&raw const (*counters).first_write).read_volatile();
        (&raw mut (*counters).first_write).write_volatile(before + total);
    }
    true
}

/// Advances a position and returns the previous one.
#[inline(always)]
fn advance(counters: *mut EndpointCounters, end: usize, total: u64) -> u64 {
    // SAFETY: map memory that stays allocated while the program runs; an aligned word is stored.
    unsafe {
        let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
        (&raw mut (*counters).last_tgid[end & 1]).write_volatile(tgid);
        add(&raw mut (*counters).position[end & 1], total)
    }
}

#[inline(always)]
fn add_lost(counters: *mut EndpointCounters, end: usize, bytes: u64) {
    // SAFETY: as in `advance`.
    unsafe {
        add(&raw mut (*counters).lost[end & 1], bytes);
    }
}

/// Adds atomically and returns the previous value. The target has the instructions for this and for
/// [`exchange`], but core does not offer its atomics. A relaxed ordering would be enough, but with it
/// LLVM 22 emits the older instruction, which returns nothing.
#[inline(always)]
pub unsafe fn add(word: *mut u64, amount: u64) -> u64 {
    // SAFETY: the caller passes an aligned word that outlives the call.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word, amount) }
}

/// Replaces `expected` with `value` atomically. Returns whether the word was as expected.
#[inline(always)]
pub unsafe fn exchange(word: *mut u64, expected: u64, value: u64) -> bool {
    const SEQUENTIAL: AtomicOrdering = AtomicOrdering::SeqCst;
    // SAFETY: as in `add`.
    let (found, _) = unsafe { atomic_cxchg::<u64, SEQUENTIAL, SEQUENTIAL>(word, expected, value) };
    found == expected
}
