//! Which definitions are kept as text.
//!
//! A definition is pinned by its hash. Its text only serves to show what changed, and texts take up most of
//! the room.

use std::sync::Arc;

use mcpinspect_core::model::DefinitionHash;

/// A kept definition text: the start of its hash, and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptText {
    hash: u64,
    bytes: u32,
}

impl KeptText {
    /// A text of this many bytes.
    pub fn new(hash: DefinitionHash, bytes: usize) -> Self {
        Self {
            hash: beginning(hash),
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        }
    }

    /// Whether it is the text of the definition with this hash.
    pub(super) fn is_of(self, hash: DefinitionHash) -> bool {
        self.hash == beginning(hash)
    }

    /// Its bytes.
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.bytes)
    }
}

/// Stands in for a definition whose text is not kept.
pub(super) fn not_kept(bytes: usize) -> Arc<str> {
    let note = format!("definition of {bytes} bytes, not kept");
    serde_json::Value::from(note).to_string().into()
}

/// A hash's first eight bytes, which distinguish the texts of one item.
fn beginning(hash: DefinitionHash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
