//! How a tool's current definition relates to its pin.

use serde::Serialize;
use serde_json::Value;

/// One field that differs between the pinned and the current definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Path of the field, such as `description`.
    pub field: String,
    /// Its pinned value; `null` if it was absent.
    pub previous: Value,
    /// Its current value; `null` if it is gone.
    pub new: Value,
}

impl FieldChange {
    /// Roughly how many bytes of memory it takes.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.field.len() + tree_size(&self.previous) + tree_size(&self.new)
    }
}

/// Roughly how many bytes of memory a value takes besides itself. Values come from a parser that bounds
/// their depth.
fn tree_size(value: &Value) -> usize {
    /// An object's node of this size holds eleven members.
    const NODE: usize = 11 * size_of::<(String, Value)>();
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => {
            size_of_val(values.as_slice()) + values.iter().map(tree_size).sum::<usize>()
        }
        Value::Object(members) => {
            let inside = members
                .iter()
                .map(|(key, value)| key.len() + tree_size(value));
            NODE * members.len().div_ceil(6) + inside.sum::<usize>()
        }
        _ => 0,
    }
}

/// How a tool compares with its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// Seen for the first time, and pinned now.
    New,
    /// As pinned.
    Unchanged,
    /// Not as pinned.
    Changed,
    /// Pinned, and no longer offered.
    Removed,
}

impl ToolStatus {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}
