//! What is pinned.

use serde::{Serialize, Serializer};

/// The kind of thing that is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemKind {
    /// A tool, by its name.
    Tool,
    /// What a server tells the model about itself. Its name is empty.
    Instructions,
    /// Who a server claims to be. Its name is empty.
    ServerInfo,
    /// What runs behind a server. Its name is empty.
    Program,
}

impl ItemKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Tool,
        Self::Instructions,
        Self::ServerInfo,
        Self::Program,
    ];

    /// The word used in the database and externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Instructions => "instructions",
            Self::ServerInfo => "server_info",
            Self::Program => "program",
        }
    }

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

impl Serialize for ItemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
