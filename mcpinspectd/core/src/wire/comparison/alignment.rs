//! Finds the offset from which one end goes on like the other.
//!
//! Much of a message may be one byte or a few, repeated: padding, zeros, blanks. A repetition looks the same from
//! every offset in it, so it tells no offset.

use std::cmp::Reverse;

use memchr::memmem;

/// Bytes by which an offset is looked for.
const NEEDLE: usize = 32;
/// The fewest that will do.
const NEEDLE_MIN: usize = 16;
/// Most candidates to look at closely.
const CANDIDATES_MAX: usize = 16;

/// Bytes to find at another end.
pub(super) struct Pattern<'a> {
    bytes: &'a [u8],
    needle: &'a [u8],
}

impl<'a> Pattern<'a> {
    /// Looks for `bytes`, if they are distinctive.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let needle = needle(bytes)?;
        Some(Self { bytes, needle })
    }

    /// Where `other` goes on like these for longest, after at least `after` bytes.
    pub(super) fn offset_in(&self, other: &[u8], after: usize) -> Option<usize> {
        let candidates = memmem::find_iter(other.get(after..)?, self.needle).map(|at| at + after);
        let alike = |at: &usize| {
            let both = other[*at..].iter().zip(self.bytes);
            both.take_while(|(one, other)| one == other).count()
        };
        candidates
            .take(CANDIDATES_MAX)
            .min_by_key(|at| Reverse(alike(at)))
    }
}

/// Whether bytes are more than a repetition.
pub(super) fn is_distinctive(bytes: &[u8]) -> bool {
    end_of_repetition(bytes) < bytes.len()
}

/// The first bytes, if they are enough to find their offset: all of a repetition that they begin with, and what
/// ends it.
fn needle(bytes: &[u8]) -> Option<&[u8]> {
    let repeated = end_of_repetition(bytes);
    let enough = NEEDLE.min(bytes.len()).max(repeated + 1);
    (bytes.len() >= NEEDLE_MIN).then(|| bytes.get(..enough))?
}

/// Where the repetition ends that the first bytes are; 0 if they are none.
fn end_of_repetition(bytes: &[u8]) -> usize {
    let first = &bytes[..bytes.len().min(NEEDLE)];
    let repeats = |period: &usize| first[*period..] == first[..first.len() - period];
    let Some(period) = (1..=first.len() / 2).find(repeats) else {
        return 0;
    };
    let goes_on = |at: &usize| bytes[*at] == bytes[at - period];
    first.len() + (first.len()..bytes.len()).take_while(goes_on).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(sought: &str, other: &str, after: usize) -> Option<usize> {
        Pattern::new(sought.as_bytes())?.offset_in(other.as_bytes(), after)
    }

    #[test]
    fn a_repetition_tells_no_offset() {
        let end = "\"}}\n{\"jsonrpc\":\"2.0\",\"id\":7}\n";
        let padding = |length| "x".repeat(length);
        let written = padding(100) + end;
        assert_eq!(offset(&padding(40), &written, 1), None);
        assert_eq!(offset(&(padding(40) + end), &written, 1), Some(60));
        let zeros = "0,".repeat(40);
        assert_eq!(offset(&zeros, &format!("[{zeros}{zeros}"), 1), None);
        assert!(!is_distinctive(zeros.as_bytes()) && is_distinctive((zeros + "]").as_bytes()));
        assert!(is_distinctive(b"x") && is_distinctive(b"{\"") && !is_distinctive(b"xx"));
    }

    #[test]
    fn the_offset_is_the_one_that_goes_on_alike_for_longest() {
        let message =
            |id: u32| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":{id}}}\n");
        let read: String = (1..9).map(message).collect();
        assert_eq!(offset(&message(3), &read, 1), Some(message(1).len() * 2));
        assert_eq!(offset(&message(1), &read, 0), Some(0));
        let other = message(3) + "something else";
        assert_eq!(offset(&other, &read, 1), Some(message(1).len() * 2));
        assert_eq!(offset("short", "a short one", 0), None);
    }
}
