//! What can be done to a server's processes.

use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContainmentAction {
    /// Stop all of its processes until it is thawed.
    Freeze,
    /// Let all of its processes run again.
    Thaw,
    /// End all of its processes.
    Kill,
}

impl ContainmentAction {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::Kill => "kill",
        }
    }

    /// What is true of a server afterwards.
    pub fn done(self) -> &'static str {
        match self {
            Self::Freeze => "frozen",
            Self::Thaw => "thawed",
            Self::Kill => "killed",
        }
    }
}
