//! Wire text made fit for events: secrets masked, lengths bounded.

use mcpinspect_core::mcp::json;
use mcpinspect_core::model::FieldChange;
use mcpinspect_core::text::{bound, escape, redact};
use serde_json::Value;

/// How much of a description an event carries, in bytes.
const MAX_DESCRIPTION: usize = 1024;

/// How much of a name an event carries, in bytes.
const MAX_NAME: usize = 256;

/// How much of an invalid message an event shows, in characters.
const MAX_EXCERPT: usize = 160;

/// How much of a changed string an event carries, in bytes.
const MAX_STRING: usize = 1024;

/// A changed value whose JSON exceeds this many bytes is shown truncated.
const MAX_VALUE: usize = 4096;

/// One that takes more memory than this as a tree, in bytes, is shown as text.
const MAX_TREE: usize = 192 << 10;

/// How many changed fields an event carries.
const MAX_CHANGES: usize = 32;

/// A description, or another text of a few sentences.
pub fn description(text: &str) -> String {
    // What is far past the cut cannot change what is before it.
    bound(
        &redact::secrets(&bound(text, 4 * MAX_DESCRIPTION)),
        MAX_DESCRIPTION,
    )
    .into_owned()
}

/// A name.
pub fn name(text: &str) -> String {
    bound(text, MAX_NAME).into_owned()
}

/// Where a server is reached.
pub fn url(text: &str) -> String {
    bound(
        &redact::url(&bound(text, 4 * MAX_DESCRIPTION)),
        MAX_DESCRIPTION,
    )
    .into_owned()
}

/// The start of a frame that is not a message.
pub fn excerpt(bytes: &[u8]) -> String {
    let beginning = &bytes[..bytes.len().min(8 * MAX_EXCERPT)];
    let text = String::from_utf8_lossy(beginning);
    let more = if beginning.len() < bytes.len() {
        "…"
    } else {
        ""
    };
    escape::printable(&format!("{}{more}", redact::secrets(&text)), MAX_EXCERPT)
}

/// What differs between two definitions.
pub fn changes(changes: Vec<FieldChange>) -> Vec<FieldChange> {
    let more = changes.len().saturating_sub(MAX_CHANGES);
    let mut shown: Vec<FieldChange> = changes
        .into_iter()
        .take(MAX_CHANGES)
        .map(|change| FieldChange {
            field: name(&change.field),
            previous: value(change.previous),
            new: value(change.new),
        })
        .collect();
    if more > 0 {
        shown.push(FieldChange {
            field: "…".to_owned(),
            previous: Value::Null,
            new: format!("{more} more fields differ").into(),
        });
    }
    shown
}

fn value(value: Value) -> Value {
    match value {
        Value::String(text) => bound(&redact::secrets(&text), MAX_STRING).into(),
        Value::Object(_) | Value::Array(_) => {
            let text = value.to_string();
            let masked = redact::secrets(&text);
            if masked.len() <= MAX_VALUE
                && json::tree_size(&masked) <= MAX_TREE
                && let Ok(value) = serde_json::from_str(&masked)
            {
                return value;
            }
            bound(&masked, MAX_VALUE).into()
        }
        scalar => scalar,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_masked_and_lengths_bounded() {
        let secret = "ghp_0123456789abcdefghijABCDEFGHIJ456789";
        let text = format!("{} token {secret} {}", "a".repeat(10), "b".repeat(5000));
        assert!(!description(&text).contains(secret));
        assert!(description(&text).len() <= MAX_DESCRIPTION);
        assert!(!excerpt(text.as_bytes()).contains(secret));
        assert!(excerpt(&[0xff, 0x1b, b'[']).contains("\\u{1b}"));
        assert!(excerpt(&vec![b'x'; 1 << 20]).chars().count() <= MAX_EXCERPT);
        let shown = value(json!({ "a": [secret] }));
        assert!(!shown.to_string().contains(secret));
        assert!(value(json!(["x".repeat(100_000)])).to_string().len() <= MAX_VALUE + 16);
        assert_eq!(value(json!({ "a": [1, "b"] })), json!({ "a": [1, "b"] }));
    }

    #[test]
    fn the_number_of_changes_is_bounded() {
        let change = |index: usize| FieldChange {
            field: index.to_string(),
            previous: 1.into(),
            new: 2.into(),
        };
        assert_eq!(changes((0..32).map(change).collect()).len(), 32);
        let shown = changes((0..1000).map(change).collect());
        assert_eq!(shown.len(), 33);
        assert_eq!(shown[32].new, "968 more fields differ");
    }
}
