//! Ids as keys.
//!
//! A response repeats the id of its request, but not always byte by byte: `1` may come back as `1.0`,
//! a string with different escapes, a number as a string. And an id may be megabytes long, so the part
//! that is kept is bounded.

use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::mcp::string;
use crate::mcp::string::{Piece, Pieces};
use crate::mcp::{Id, json};

/// Ids up to this many bytes are kept verbatim, longer ones as a digest.
const MAX_TEXT: usize = 64;

/// An id, in a form in which equal ids compare equal; also any other token that one side issues and the
/// other sends back, such as a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IdKey {
    /// A whole number.
    Number(i64),
    /// A string.
    Text(Arc<str>),
    /// Any other number, as written.
    OtherNumber(Arc<str>),
    /// Half of the SHA-256 of a long one.
    Digest([u8; 16]),
}

impl IdKey {
    /// The key of `id`.
    pub fn new(id: Id<'_>) -> Self {
        if let Ok(number) = id.0.parse() {
            return Self::Number(number);
        }
        if !id.0.starts_with('"') {
            return Self::other_number(id.0);
        }
        let inner = id.0.strip_prefix('"').and_then(|id| id.strip_suffix('"'));
        Self::of_pieces(Pieces::of(inner.unwrap_or(id.0)))
    }

    /// The key of the string `raw`, if it is one.
    pub fn of_string(raw: &RawValue) -> Option<Self> {
        json::pieces(raw).map(Self::of_pieces)
    }

    /// The key of a string decoded piece by piece: it may be as long as its message.
    fn of_pieces(pieces: Pieces<'_>) -> Self {
        let mut beginning = String::new();
        string::decode(pieces.rest(), MAX_TEXT + 1, &mut beginning);
        if beginning.len() <= MAX_TEXT {
            return Self::Text(beginning.into());
        }
        let mut digest = Sha256::new();
        for piece in pieces {
            let mut letters = [0; 4];
            digest.update(match piece {
                Piece::Text(text) => text,
                Piece::Escaped(character) => character.encode_utf8(&mut letters),
                Piece::LoneSurrogate(_) => char::REPLACEMENT_CHARACTER.encode_utf8(&mut letters),
            });
        }
        Self::half(digest)
    }

    /// The key of a string.
    pub fn of_text(text: &str) -> Self {
        if text.len() <= MAX_TEXT {
            Self::Text(text.into())
        } else {
            Self::digest(text)
        }
    }

    fn other_number(text: &str) -> Self {
        /// Whole numbers up to this one are exact as doubles.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        match text.parse::<f64>() {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
            Ok(number) if number.abs() <= EXACT && number.fract() == 0.0 => {
                Self::Number(number as i64)
            }
            _ if text.len() <= MAX_TEXT => Self::OtherNumber(text.into()),
            _ => Self::digest(text),
        }
    }

    fn digest(text: &str) -> Self {
        Self::half(Sha256::new_with_prefix(text))
    }

    fn half(digest: Sha256) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&digest.finalize()[..16]);
        Self::Digest(half)
    }

    /// Bytes of its text.
    pub(super) fn text(&self) -> usize {
        match self {
            Self::Text(text) | Self::OtherNumber(text) => text.len(),
            Self::Number(_) | Self::Digest(_) => 0,
        }
    }

    /// The other id that a peer may mean: clients of the TypeScript SDK take `"1"` for `1`.
    pub fn lookalike(&self) -> Option<Self> {
        match self {
            Self::Number(number) => Some(Self::Text(number.to_string().into())),
            Self::Text(text) => text.parse().ok().map(Self::Number),
            Self::OtherNumber(_) | Self::Digest(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> IdKey {
        IdKey::new(Id(text))
    }

    #[test]
    fn equal_ids_compare_equal_in_any_spelling() {
        assert_eq!(key("1"), key("1.0"));
        assert_eq!(key("100"), key("1e2"));
        assert_eq!(key("-0"), key("0"));
        assert_eq!(key(r#""aA""#), key(r#""\u0061A""#));
        let long = "x".repeat(65);
        assert_eq!(
            key(&format!("\"{long}\"")),
            key(&format!("\"\\u0078{}\"", &long[1..]))
        );
    }

    #[test]
    fn different_ids_are_different() {
        let long = "9".repeat(100);
        let texts = [
            "0",
            "1",
            "\"1\"",
            "1.5",
            "\"1.5\"",
            "\"\"",
            "18446744073709551616",
            "18446744073709551617",
            &long,
        ];
        for (index, one) in texts.iter().enumerate() {
            for other in &texts[index + 1..] {
                assert_ne!(key(one), key(other), "{one} {other}");
            }
        }
        assert_eq!(key("9223372036854775807"), IdKey::Number(i64::MAX));
    }

    #[test]
    fn lookalikes() {
        assert_eq!(key("7").lookalike(), Some(key("\"7\"")));
        assert_eq!(key("\"7\"").lookalike(), Some(key("7")));
        assert_eq!(key("\"x\"").lookalike(), None);
    }
}
