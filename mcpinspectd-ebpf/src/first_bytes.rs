//! What HTTP begins with.
//!
//! The first eight bytes tell requests and answers from all else; a piece that is shorter counts as what it may
//! become.

use crate::{
    http_head::{self, Piece},
    kernel::user,
};

/// The first eight bytes of a piece, zeroes behind its end; 0 if they cannot be read.
#[inline(always)]
pub fn first_word(piece: Piece) -> u64 {
    let word = user::<u64>(piece.address).unwrap_or(0);
    if piece.length < 8 {
        word & ((1 << (piece.length * 8)) - 1)
    } else {
        word
    }
}

/// Whether the first bytes, of which there are `length`, are those of `text` or the beginning of them.
#[inline(always)]
fn begins<const N: usize>(word: u64, length: u64, text: &[u8; N]) -> bool {
    let mut wanted = 0;
    let mut mask = 0;
    for (at, byte) in text.iter().enumerate() {
        wanted |= u64::from(*byte) << (at * 8);
        mask |= 0xff << (at * 8);
    }
    if length < N as u64 {
        mask &= (1 << (length * 8)) - 1;
    }
    word & mask == wanted & mask
}

/// Whether it begins a request with a body: a message, or what may be one.
#[inline(always)]
pub fn is_post(word: u64, length: u64) -> bool {
    begins(word, length, b"POST ")
}

/// Whether it begins any other request.
#[inline(always)]
pub fn is_request(word: u64, length: u64) -> bool {
    is_page_request(word, length) || begins(word, length, b"DELETE ") || is_preface(word, length)
}

/// Whether a client of HTTP/2 begins like this.
#[inline(always)]
pub fn is_preface(word: u64, length: u64) -> bool {
    begins(word, length, b"PRI * HT")
}

/// Whether it begins an answer.
#[inline(always)]
pub fn is_response(word: u64, length: u64) -> bool {
    begins(word, length, b"HTTP/1.")
}

/// Whether a server of HTTP/2 begins like this: with its settings, which need not wait for the client's.
#[inline(always)]
pub fn is_settings(word: u64, length: u64) -> bool {
    /// Of a frame's head: its type, no flags, and the better part of the number 0.
    const SETTINGS: u64 = 4;
    length >= 9 && word & 0xff == 0 && word >> 24 == SETTINGS
}

/// A request that MCP does not know, or only for events.
#[inline(always)]
pub fn is_page_request(word: u64, length: u64) -> bool {
    begins(word, length, b"GET ")
        || begins(word, length, b"OPTIONS ")
        || begins(word, length, b"HEAD ")
        || begins(word, length, b"PUT ")
        || begins(word, length, b"PATCH ")
}

/// Whether a piece is a request that is none of MCP.
#[inline(always)]
pub fn is_page(word: u64, piece: Piece) -> bool {
    // Of less, the method may not be known.
    piece.length >= 8
        && is_page_request(word, piece.length)
        && !http_head::may_ask_for_events(piece)
}
