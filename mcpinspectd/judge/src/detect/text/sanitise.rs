//! Excerpts of untrusted text that are fit for an event.
//!
//! A finding quotes the text in which it was found, and that text may contain secrets, control sequences or
//! megabytes. Here secrets are masked, invisible characters are spelled out, and the length is bounded.

use mcpinspect_core::text::{escape, redact};

/// At most `limit` characters of `text`.
pub fn excerpt(text: &str, limit: usize) -> String {
    // What is cut off need not be searched: a secret at the cut is still recognised by its beginning.
    let bounded = mcpinspect_core::text::bound(text, limit.saturating_mul(8).max(1024));
    escape::printable(&redact::secrets(&bounded), limit)
}
