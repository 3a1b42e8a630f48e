//! Excerpts of untrusted text that are fit for an event: bounded, and nothing in them is invisible.

use super::document::is_ignorable;

/// At most `limit` characters of `text`, with everything that a person would not see written out.
pub fn excerpt(text: &str, limit: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count >= limit {
            out.push('…');
            break;
        }
        if (c.is_control() && !matches!(c, '\n' | '\t')) || is_ignorable(c) {
            out.push_str(&format!("\\u{{{:x}}}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}
