//! How a tool's current definition relates to its pin.

use serde::Serialize;
use serde_json::Value;

/// One field that differs between the pinned and the current definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Path of the field, such as `description`.
    pub field: String,
    /// Its pinned value; `null` where it was absent.
    pub previous: Value,
    /// Its current value; `null` where it is gone.
    pub new: Value,
}

/// How a tool stands to its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolStatus {
    /// First sight; pinned now.
    New,
    /// As pinned.
    Unchanged,
    /// Not as pinned.
    Changed,
    /// Pinned, and no longer offered.
    Removed,
}

impl ToolStatus {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}
