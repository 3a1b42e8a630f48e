//! Ids as keys.
//!
//! A response repeats the id of its request, but not always byte by byte: `1` may come back as `1.0`,
//! a string with other escapes, a number as a string. And an id may be megabytes long, so the part that
//! is kept is bounded.

use std::sync::Arc;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::mcp::{Id, json};

/// Ids up to this many bytes are kept as they are, longer ones as a digest.
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
        let text = serde_json::from_str::<&RawValue>(id.0)
            .ok()
            .and_then(json::string);
        Self::of_text(text.as_deref().unwrap_or(id.0))
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
        let mut half = [0; 16];
        half.copy_from_slice(&Sha256::digest(text)[..16]);
        Self::Digest(half)
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
