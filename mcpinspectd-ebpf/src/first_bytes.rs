//! How HTTP begins.
//!
//! The first eight bytes distinguish requests and answers from everything else; a shorter piece counts as what
//! it may become.

use crate::{
    http_head::{self, Piece},
    kernel::user,
};

/// The first eight bytes of a piece, padded with zeroes; 0 if they cannot be read.
#[inline(always)]
pub fn first_word(piece: Piece) -> u64 {
    let word = user::<u64>(piece.address).unwrap_or(0);
    if piece.length < 8 {
        word & ((1 << (piece.length * 8)) - 1)
    } else {
        word
    }
}

/// Whether the first `length` bytes are those of `text` or the beginning of them.
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

/// Whether it is how an HTTP/2 client or server begins: a message may follow at once, of any length.
#[inline(always)]
pub fn is_http_2(word: u64, length: u64) -> bool {
    is_preface(word, length) || is_settings(word, length)
}

/// Whether it is how an HTTP/2 client begins.
#[inline(always)]
fn is_preface(word: u64, length: u64) -> bool {
    begins(word, length, b"PRI * HT")
}

/// Whether it begins an answer.
#[inline(always)]
pub fn is_response(word: u64, length: u64) -> bool {
    begins(word, length, b"HTTP/1.")
}

/// Whether it is how an HTTP/2 server begins: with its settings, which need not wait for the client's.
#[inline(always)]
pub fn is_settings(word: u64, length: u64) -> bool {
    /// From a frame's head: its type, no flags, and the greater part of the number 0.
    const SETTINGS: u64 = 4;
    length >= 9 && word & 0xff == 0 && word >> 24 == SETTINGS
}

/// A request that MCP does not use, or uses only for events.
#[inline(always)]
pub fn is_page_request(word: u64, length: u64) -> bool {
    begins(word, length, b"GET ")
        || begins(word, length, b"OPTIONS ")
        || begins(word, length, b"HEAD ")
        || begins(word, length, b"PUT ")
        || begins(word, length, b"PATCH ")
}

/// Whether a piece is a request that MCP does not use.
#[inline(always)]
pub fn is_page(word: u64, piece: Piece) -> bool {
    // From fewer bytes, the method may be unclear.
    piece.length >= 8
        && is_page_request(word, piece.length)
        && !http_head::may_ask_for_events(piece)
}
