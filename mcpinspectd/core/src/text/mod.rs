//! Makes untrusted text fit for display.
//!
//! Everything that crosses an MCP wire, every command line and every name in a configuration file may have
//! been written by an attacker, and may hold a secret. [`redact`] masks secrets; [`escape`] takes away the
//! power of text over the terminal, the journal or the notification that shows it. The order is always
//! *redact, escape, bound*: half a secret no longer looks like one, and would pass.

use std::borrow::Cow;

pub mod diff;
pub mod escape;
pub mod human;
pub mod redact;

/// Cuts `text` to at most `max_bytes` bytes, at a character boundary. If it fits into the limit, a `…` of
/// three bytes marks the cut.
pub fn bound(text: &str, max_bytes: usize) -> Cow<'_, str> {
    const MORE: &str = "…";
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    if max_bytes < MORE.len() {
        return Cow::Borrowed(&text[..text.floor_char_boundary(max_bytes)]);
    }
    let kept = &text[..text.floor_char_boundary(max_bytes - MORE.len())];
    Cow::Owned(format!("{kept}{MORE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bound_keeps_what_fits_and_marks_what_does_not() {
        assert_eq!(bound("", 0), "");
        assert_eq!(bound("abc", 3), "abc");
        assert_eq!(bound("abcd", 3), "…");
        assert_eq!(bound("abcdef", 5), "ab…");
        assert_eq!(bound("ééé", 5), "é…");
        assert_eq!(bound("abc", 2), "ab");
        assert_eq!(bound("é", 1), "");
    }

    proptest! {
        #[test]
        fn bound_never_exceeds_its_limit(text in ".*", max in 0usize..64) {
            let cut = bound(&text, max);
            prop_assert!(cut.len() <= max);
            let once_more = bound(&cut, max);
            prop_assert_eq!(&once_more, &cut);
        }
    }
}
