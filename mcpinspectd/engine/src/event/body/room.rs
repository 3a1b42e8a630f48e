//! Room for pins that is used up.

use mcpinspect_core::model::Severity;
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, Sentence};

/// There was no room to pin definitions, or to keep their texts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RegistryFull {
    /// What was used up: `server_items`, `user_items`, `all_items` or `bytes`; `disk` where the disk fails
    /// and what waits for it is too much.
    pub limit: &'static str,
    /// Whose share is used up; `null` where it is nobody's in particular.
    pub uid: Option<u32>,
    /// How many definitions are not pinned.
    pub not_pinned: u64,
    /// How many are pinned by their hash, without their text.
    pub without_text: u64,
}

impl Describe for RegistryFull {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Medium)
    }

    fn title(&self, server: &str) -> String {
        match self.not_pinned {
            0 => format!("No room for {} definitions of {server}", self.without_text),
            count => format!("No room to pin {count} definitions of {server}"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(format!("limit {}", self.limit));
        if let Some(uid) = self.uid {
            sentence.add(format!("uid {uid}"));
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_LIMIT", self.limit);
        details.add("MCPINSPECT_NOT_PINNED", &self.not_pinned.to_string());
        details.add("MCPINSPECT_WITHOUT_TEXT", &self.without_text.to_string());
    }
}
