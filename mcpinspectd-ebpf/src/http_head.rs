//! The head of a request: whether it asks for a stream of events.
//!
//! Requests without a body are most of a machine's web traffic, and MCP uses them only to ask for
//! events, as its specification requires. The kernel can tell, so that all others cost user space
//! nothing.
//!
//! Cost: a copy of the head, and two comparisons for each of its bytes.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::{
    helpers::generated::{bpf_loop, bpf_probe_read_user},
    macros::map,
    maps::PerCpuArray,
};

use crate::kernel::user;

/// Longer heads are not searched.
const LONGEST: usize = 4096;
/// Bytes that one step of the search examines.
const STEP: usize = 32;
/// The media type of a stream of events, as much of it as a search by words needs.
const EVENTS: &[u8; 15] = b"text/event-stre";
/// Sets the bit that distinguishes lower case from upper case. A slash and a hyphen have it anyway.
const LOWER: u64 = 0x2020_2020_2020_2020;

/// A head, followed by zeroes.
type Head = [u8; LONGEST + STEP];

#[map]
static HEAD: PerCpuArray<Head> = PerCpuArray::with_max_entries(1, 0);

/// Bytes in the memory of the running process.
#[derive(Clone, Copy)]
pub struct Piece {
    pub address: u64,
    pub length: u64,
}

/// Whether the request that `piece` is, or begins with, may ask for events. An incomplete one may.
#[inline(always)]
pub fn may_ask_for_events(piece: Piece) -> bool {
    if piece.length > LONGEST as u64 || piece.length < 4 {
        return true;
    }
    match search(piece) {
        Some(found) => found || !ends(piece.length as usize),
        None => true,
    }
}

/// The same for a program that the kernel may preempt, and which therefore reads the head step by step from
/// the process's memory.
#[inline(always)]
pub fn may_ask_for_events_preempted(piece: Piece) -> bool {
    if piece.length > LONGEST as u64 || piece.length < 4 {
        return true;
    }
    let end = piece.address + piece.length - 4;
    if user::<[u8; 4]>(end) != Some(*b"\r\n\r\n") {
        return true;
    }
    let mut search = UserSearch {
        address: piece.address,
        length: piece.length,
        found: 0,
    };
    // SAFETY: `user_step` has the signature of a loop callback, and `search` outlives the loop.
    unsafe {
        bpf_loop(
            (LONGEST / STEP) as u32,
            user_step as *mut c_void,
            (&raw mut search).cast(),
            0,
        );
    }
    search.found != 0
}

/// A search in the process's memory.
#[repr(C)]
struct UserSearch {
    address: u64,
    length: u64,
    found: u64,
}

unsafe extern "C" fn user_step(index: u32, search: *mut c_void) -> i64 {
    // SAFETY: what `may_ask_for_events_preempted` passes to the loop.
    let search = unsafe { &mut *search.cast::<UserSearch>() };
    let at = u64::from(index) * STEP as u64;
    if at + 8 > search.length {
        return 1;
    }
    for word in 0..STEP / 8 {
        let at = at + word as u64 * 8;
        // What follows the head is not part of it, and does no harm: it is examined once more.
        let Some(word) = user::<u64>(search.address + at) else {
            continue;
        };
        if is_part(word | LOWER) {
            search.found = 1;
            return 1;
        }
    }
    0
}

/// Searches for the media type in at most [`LONGEST`] bytes. `None` if they cannot be read.
#[inline(always)]
fn search(piece: Piece) -> Option<bool> {
    let head = HEAD.get_ptr_mut(0)?;
    let length = (piece.length as usize).min(LONGEST);
    // SAFETY: this CPU's slot, which has room for that many bytes; no other program uses it meanwhile.
    unsafe {
        if bpf_probe_read_user(head.cast(), length as u32, piece.address as *const _) != 0 {
            return None;
        }
        // A step may reach past the end, where an earlier head may have been.
        let behind = head.cast::<u8>().add(length);
        for at in 0..STEP {
            behind.add(at).write(0);
        }
    }
    let mut found = 0_u64;
    let steps = length.div_ceil(STEP) as u32;
    // SAFETY: `step` has the signature of a loop callback, and `found` outlives the loop.
    unsafe {
        bpf_loop(steps, step as *mut c_void, (&raw mut found).cast(), 0);
    }
    Some(found != 0)
}

/// Whether the head that was copied last, of `length` bytes, is complete.
#[inline(always)]
fn ends(length: usize) -> bool {
    let Some(head) = HEAD.get_ptr(0) else {
        return false;
    };
    let at = length.wrapping_sub(4) & (LONGEST - 1);
    // SAFETY: within this CPU's slot.
    unsafe { head.cast::<u8>().add(at).cast::<[u8; 4]>().read() == *b"\r\n\r\n" }
}

unsafe extern "C" fn step(index: u32, found: *mut c_void) -> i64 {
    let at = index as usize * STEP;
    let Some(head) = HEAD.get_ptr(0) else {
        return 1;
    };
    if at >= LONGEST {
        return 1;
    }
    for word in 0..STEP / 8 {
        // SAFETY: aligned, and within this CPU's slot.
        let word = unsafe { head.cast::<u8>().add(at + word * 8).cast::<u64>().read() } | LOWER;
        // Fifteen bytes in a row contain a whole aligned word, one of eight possible ones.
        if is_part(word) {
            // SAFETY: what `search` passes to the loop.
            unsafe { found.cast::<u64>().write(1) };
            return 1;
        }
    }
    0
}

#[inline(always)]
fn is_part(word: u64) -> bool {
    const PARTS: [u64; 8] = parts();
    word == PARTS[0]
        || word == PARTS[1]
        || word == PARTS[2]
        || word == PARTS[3]
        || word == PARTS[4]
        || word == PARTS[5]
        || word == PARTS[6]
        || word == PARTS[7]
}

/// The eight words of [`EVENTS`], as they are in memory.
const fn parts() -> [u64; 8] {
    let mut parts = [0; 8];
    let mut at = 0;
    while at < parts.len() {
        let mut byte = 0;
        while byte < 8 {
            parts[at] |= (EVENTS[at + byte] as u64) << (byte * 8);
            byte += 1;
        }
        at += 1;
    }
    parts
}
