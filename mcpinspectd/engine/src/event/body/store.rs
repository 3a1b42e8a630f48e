//! The message store: what it cannot record.

use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape::printable;
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, Sentence};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreTrouble {
    /// Messages came faster than they could be written.
    Dropped,
    /// The file cannot be written.
    Failing,
    /// It can be written again.
    Recovered,
    /// The file was damaged. It was moved aside, and a new one begun.
    SetAside,
    /// A newer version of the daemon wrote the file. It is left alone.
    Newer,
}

impl StoreTrouble {
    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dropped => "dropped",
            Self::Failing => "failing",
            Self::Recovered => "recovered",
            Self::SetAside => "set_aside",
            Self::Newer => "newer",
        }
    }
}

/// Messages are not recorded, or are again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreNotice {
    /// What is wrong.
    pub trouble: StoreTrouble,
    /// The file.
    pub path: String,
    /// Records that were lost since the last such event, and their bytes.
    pub dropped: u64,
    /// Bytes of those.
    pub dropped_bytes: u64,
    /// What the system says.
    pub detail: Option<String>,
}

impl Describe for StoreNotice {
    fn severity(&self) -> Option<Severity> {
        match self.trouble {
            StoreTrouble::Recovered if self.dropped == 0 => None,
            _ => Some(Severity::Medium),
        }
    }

    fn title(&self, _server: &str) -> String {
        match self.trouble {
            StoreTrouble::Dropped => format!("{} messages were not recorded", self.dropped),
            StoreTrouble::Failing => "Messages cannot be recorded".to_owned(),
            StoreTrouble::Recovered => "Messages are recorded again".to_owned(),
            StoreTrouble::SetAside => {
                "The message store was damaged and has been replaced by an empty one".to_owned()
            }
            StoreTrouble::Newer => {
                "Messages are not recorded: the store was written by a newer version".to_owned()
            }
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        sentence.add(printable(&self.path, 256));
        if let Some(detail) = &self.detail {
            sentence.add(printable(detail, 256));
        }
        if self.dropped > 0 {
            let Self {
                dropped,
                dropped_bytes,
                ..
            } = self;
            sentence.add(format!("{dropped} records of {dropped_bytes} bytes lost"));
        }
    }

    fn details(&self, details: &mut Details) {
        details.add("MCPINSPECT_TROUBLE", self.trouble.as_str());
        details.add("MCPINSPECT_DROPPED", &self.dropped.to_string());
    }
}
