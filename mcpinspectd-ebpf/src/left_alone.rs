//! Connections that carried something other than MCP, and when to examine them again.
//!
//! Each may begin to carry MCP later. So the requests that cross it are counted, and it is examined again at
//! the second, the fourth, the eighth…

use mcpinspect_common::{LOOK_AT_BOTH, LeftAlone};

use crate::{
    first_bytes::{first_word, is_page_request, is_post},
    http_head::Piece,
    maps::LEFT_ALONE,
};

/// Whether what crosses `end` may cause a connection that was left alone to be examined again.
#[inline(always)]
pub fn is_for(left: *const LeftAlone, end: u32) -> bool {
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    let at = unsafe { (&raw const (*left).requests_at).read_volatile() };
    at == end || at == LOOK_AT_BOTH
}

/// Counts what crosses a connection that was left alone. Returns the number of the request, if the connection
/// must be examined again because of it.
#[inline(always)]
pub fn next_request(
    left: *mut LeftAlone,
    end: u32,
    piece: Piece,
    may_ask_for_events: impl FnOnce(Piece) -> bool,
) -> Option<u32> {
    if !is_for(left, end) {
        return None;
    }
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    unsafe {
        let word = first_word(piece);
        if !is_post(word, piece.length) {
            if !is_page_request(word, piece.length) {
                return None;
            }
            next_of(&raw mut (*left).pages)?;
            if !may_ask_for_events(piece) {
                return None;
            }
        }
        next_of(&raw mut (*left).requests)
    }
}

/// Counts, and returns the number if it is a power of two.
///
/// # Safety
/// `counter` is an aligned word of a map entry.
#[inline(always)]
unsafe fn next_of(counter: *mut u32) -> Option<u32> {
    // SAFETY: the caller vouches for it.
    let number = unsafe { counter.read_volatile() }.wrapping_add(1);
    // SAFETY: the caller vouches for it.
    unsafe { counter.write_volatile(number) };
    (number & number.wrapping_sub(1) == 0).then_some(number)
}

#[inline(always)]
pub fn leave(key: u64, requests_at: u32, requests: u32) {
    let left = LeftAlone {
        requests_at,
        requests,
        pages: 0,
    };
    // If there is no room, it is examined again.
    let _ = LEFT_ALONE.insert(key, left, 0);
}
