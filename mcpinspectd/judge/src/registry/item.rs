//! What the registry keeps: items, the hashes of their definitions, and what was decided about them.

use std::fmt;
use std::sync::Arc;

use mcpinspect_core::model::{DefinitionHash, FieldChange, ItemKind, Timestamp};

use super::owner::Owner;

/// Names an item of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// What it is.
    pub kind: ItemKind,
    /// Its name; empty for a kind of which a server has only one.
    pub name: Box<str>,
}

impl ItemKey {
    /// The key of a tool.
    pub fn tool(name: &str) -> Self {
        Self {
            kind: ItemKind::Tool,
            name: name.into(),
        }
    }

    /// The key of the only item of a kind.
    pub fn only(kind: ItemKind) -> Self {
        Self {
            kind,
            name: "".into(),
        }
    }
}

/// How a definition relates to its item's pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinStatus {
    /// The item was never seen before; this definition is now its pin.
    New,
    /// The definition is the pinned one, or one that a signed list approves.
    AsPinned,
    /// The definition is not the pinned one.
    Changed {
        /// The pinned hash.
        pinned: DefinitionHash,
    },
    /// The item was never seen before, and the registry is full. It is not pinned.
    NoRoom,
}

/// How a known item relates to what was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is what a person, the configuration or a signed list decided on.
    Accepted,
    /// No decision was made: it is what was seen first.
    FirstUse,
    /// It is not what is pinned.
    Changed,
}

/// An item as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemView {
    /// Whose it is.
    pub owner: Owner,
    /// The server's stable name.
    pub server: String,
    /// The item.
    pub key: ItemKey,
    /// The accepted definition; `None` after `unpin`.
    pub pinned: Option<DefinitionHash>,
    /// When it was accepted.
    pub pinned_at: Option<Timestamp>,
    /// Who accepted it; `None` for first use.
    pub pinned_by: Option<DecidedBy>,
    /// The definition seen last.
    pub current: DefinitionHash,
    /// When a complete listing lacked the item; `None` while it is offered.
    pub removed_at: Option<Timestamp>,
    /// When a definition of it was first seen.
    pub first_seen: Timestamp,
    /// When `current` was last seen, to the day.
    pub last_seen: Timestamp,
    /// The last decision on it.
    pub last_decision: Option<Decision>,
    /// Which list approves `current`, and why; `None` if none does.
    pub listed: Option<String>,
}

impl ItemView {
    /// Whether the definition seen last is not an accepted one.
    pub fn is_changed(&self) -> bool {
        self.listed.is_none() && self.pinned.is_some_and(|pinned| pinned != self.current)
    }
}

/// A definition that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionVersion {
    /// Its hash.
    pub hash: DefinitionHash,
    /// Its text as sent; JSON.
    pub definition: Arc<str>,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// The session in which it was first seen.
    pub first_session: String,
    /// When it was last seen, to the day.
    pub last_seen: Timestamp,
}

/// What was decided about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionKind {
    /// Accept a definition.
    Approve,
    /// Refuse a definition: the pin stays, and the item stays changed.
    Reject,
    /// Hold the item to a chosen definition.
    Pin,
    /// Remove the pin: the next definition seen becomes the pin.
    Unpin,
    /// Remove the item with its pin and its definitions: when seen again, it is new.
    Forget,
    /// Withdraw the approval of a list: the pin stays where it is.
    Revoke,
}

impl DecisionKind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Approve,
        Self::Reject,
        Self::Pin,
        Self::Unpin,
        Self::Forget,
        Self::Revoke,
    ];

    /// The word used in the database and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Forget => "forget",
            Self::Revoke => "revoke",
        }
    }

    /// The kind that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy {
    /// A person, by user id.
    Person(u32),
    /// The configuration, which a person wrote earlier.
    Policy,
    /// A signed list, which a person wrote elsewhere. The reason says who.
    List,
}

impl DecidedBy {
    /// The person's user id.
    pub fn uid(self) -> Option<u32> {
        match self {
            Self::Person(uid) => Some(uid),
            Self::Policy | Self::List => None,
        }
    }

    /// The word used in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person(_) => "person",
            Self::Policy => "policy",
            Self::List => "list",
        }
    }
}

impl fmt::Display for DecidedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(uid) => write!(f, "uid {uid}"),
            Self::Policy | Self::List => f.write_str(self.as_str()),
        }
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub kind: DecisionKind,
    /// The definition that it concerns.
    pub hash: Option<DefinitionHash>,
    /// Who decided.
    pub by: DecidedBy,
    /// When.
    pub time: Timestamp,
    /// Why, in that person's words; for a policy, the condition that was met; for a list, who and why.
    pub reason: String,
}

/// What the registry stores about one server of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUsage {
    /// Whose.
    pub owner: Owner,
    /// The server's stable name.
    pub server: String,
    /// Items.
    pub items: u64,
    /// Items that a person or the policy decided on; they are never evicted.
    pub decided: u64,
    /// Definitions, old ones included.
    pub versions: u64,
    /// Bytes of those definitions' texts.
    pub definition_bytes: u64,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// When it was last seen, to the day.
    pub last_seen: Timestamp,
}

/// A decision with the item that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemDecision {
    /// Whose item it is.
    pub owner: Owner,
    /// The server's stable name.
    pub server: String,
    /// The item.
    pub key: ItemKey,
    /// The decision.
    pub decision: Decision,
}

/// Two definitions of an item and the differences between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The older side.
    pub previous: DefinitionHash,
    /// The newer side.
    pub new: DefinitionHash,
    /// The differences field by field, in full and as sent: neither escaped nor redacted.
    pub changes: Vec<FieldChange>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_its_kind() {
        for kind in DecisionKind::ALL {
            assert_eq!(DecisionKind::from_word(kind.as_str()), Some(kind));
        }
    }
}
