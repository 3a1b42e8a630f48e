//! Texts with their secrets masked.

use std::borrow::Cow;

use super::hit::{SecretHit, placeholder};
use super::scanner::Scanner;

/// The secrets in `text`, in order and without overlaps.
pub fn find(text: &str) -> Vec<SecretHit> {
    Scanner::new(text).scan()
}

/// `text` with every secret replaced by `«redacted:KIND»`; borrowed if there is none. Applying it twice
/// changes nothing more.
pub fn secrets(text: &str) -> Cow<'_, str> {
    let hits = find(text);
    if hits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for SecretHit { kind, start, end } in hits {
        out.push_str(&text[done..start]);
        out.push_str(&placeholder(kind));
        done = end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}
