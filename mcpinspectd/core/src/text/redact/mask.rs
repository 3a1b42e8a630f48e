//! Texts with their secrets masked.

use std::borrow::Cow;

use super::hit::{SecretHit, placeholder};
use super::scanner::Scanner;

/// The secrets in `text`, in order and without overlaps.
pub fn find(text: &str) -> Vec<SecretHit> {
    Scanner::new(text).scan()
}

/// The maximum number of passes over a text.
const ROUNDS: usize = 4;

/// `text` with every secret replaced by `«redacted:KIND»`; borrowed if there is none. Applying it twice
/// changes nothing more: with a secret gone, what was next to it may look like another.
pub fn secrets(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for _ in 0..ROUNDS {
        let hits = find(&masked);
        if hits.is_empty() {
            break;
        }
        masked = Cow::Owned(replaced(&masked, &hits));
    }
    masked
}

fn replaced(text: &str, hits: &[SecretHit]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for SecretHit { kind, start, end } in hits {
        out.push_str(&text[done..*start]);
        out.push_str(&placeholder(kind));
        done = *end;
    }
    out.push_str(&text[done..]);
    out
}
