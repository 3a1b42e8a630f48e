//! What the registry keeps: items, their definitions' hashes, and what became of them.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::event::FieldChange;
use crate::model::Timestamp;

/// SHA-256 of a definition's canonical text. Printed as lower-case hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionHash(pub [u8; 32]);

impl DefinitionHash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not the 64 hex digits of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a definition's hash is 64 hexadecimal digits")]
pub struct NotAHash;

impl FromStr for DefinitionHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash).map_err(|_| NotAHash)?;
        Ok(Self(hash))
    }
}

/// What sort of thing is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// What a server tells the model about itself. Its name is empty.
    Instructions,
    /// Who a server says it is. Its name is empty.
    ServerInfo,
    /// What runs behind a server. Its name is empty.
    Program,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Tool,
        Self::Instructions,
        Self::ServerInfo,
        Self::Program,
    ];

    /// The word in the database and on the outside.
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

/// Names an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// What it is.
    pub kind: Kind,
    /// Its name; empty for what a server has only one of.
    pub name: Box<str>,
}

impl ItemKey {
    /// The key of a tool.
    pub fn tool(name: &str) -> Self {
        Self {
            kind: Kind::Tool,
            name: name.into(),
        }
    }

    /// The key of something that a server has only one of.
    pub fn only(kind: Kind) -> Self {
        Self {
            kind,
            name: "".into(),
        }
    }
}

/// How an item stands to its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Never seen before; pinned now.
    New,
    /// As pinned.
    AsPinned,
    /// Not as pinned.
    Changed {
        /// The pinned hash.
        pinned: DefinitionHash,
    },
    /// Never seen before, and there is no room for more items of this server. Not pinned.
    NoRoom,
}

/// An item as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemView {
    /// The server's stable name.
    pub server: String,
    /// What it is and its name.
    pub key: ItemKey,
    /// What was accepted; `None` after `unpin`.
    pub pinned: Option<DefinitionHash>,
    /// When it was accepted.
    pub pinned_at: Option<Timestamp>,
    /// Who accepted it; `None` for first use.
    pub pinned_by: Option<By>,
    /// What was seen last.
    pub current: DefinitionHash,
    /// When a complete listing lacked it; `None` while it is there.
    pub removed_at: Option<Timestamp>,
    /// When a definition of it was seen first.
    pub first_seen: Timestamp,
    /// When `current` was seen last, exact to a day.
    pub last_seen: Timestamp,
    /// The last decision on it, where there is one.
    pub last_decision: Option<Decision>,
}

impl ItemView {
    /// Whether what was seen last is not what was accepted.
    pub fn is_changed(&self) -> bool {
        self.pinned.is_some_and(|pinned| pinned != self.current)
    }
}

/// A definition that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its hash.
    pub hash: DefinitionHash,
    /// Its text as it was sent; JSON.
    pub definition: String,
    /// When it was seen first.
    pub first_seen: Timestamp,
    /// The session in which it was seen first.
    pub first_session: String,
    /// When it was seen last, exact to a day.
    pub last_seen: Timestamp,
}

/// What a person did about an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Accept a definition.
    Approve,
    /// Refuse a definition: the pin stays, and so does the change.
    Reject,
    /// Hold the item to a definition of one's choice.
    Pin,
    /// Forget the pin: the next definition that is seen is accepted.
    Unpin,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Approve, Self::Reject, Self::Pin, Self::Unpin];

    /// The word in the database and on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
        }
    }

    /// The verb that `word` names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.as_str() == word)
    }
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A person, by their user id.
    Person(u32),
    /// The configuration, which a person wrote before.
    Policy,
}

impl By {
    /// The person's user id.
    pub fn uid(self) -> Option<u32> {
        match self {
            Self::Person(uid) => Some(uid),
            Self::Policy => None,
        }
    }

    /// The word used on the outside.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Person(_) => "person",
            Self::Policy => "policy",
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(uid) => write!(f, "uid {uid}"),
            Self::Policy => f.write_str("policy"),
        }
    }
}

/// What was decided, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was done.
    pub verb: Verb,
    /// The definition that it was done about.
    pub hash: Option<DefinitionHash>,
    /// Who did it.
    pub by: By,
    /// When.
    pub time: Timestamp,
    /// Why, in that person's words; for a policy, what it was satisfied with.
    pub reason: String,
}

/// A decision with what it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The server's stable name.
    pub server: String,
    /// The item.
    pub key: ItemKey,
    /// What was decided.
    pub decision: Decision,
}

/// Two definitions of an item and what differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The older side.
    pub previous: DefinitionHash,
    /// The newer side.
    pub new: DefinitionHash,
    /// Field by field, in full and as it was sent: not escaped, not redacted.
    pub changes: Vec<FieldChange>,
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use super::*;

    #[test]
    fn hashes_as_text() {
        let hash = DefinitionHash::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse::<DefinitionHash>().unwrap(), hash);
        for wrong in [
            "",
            &text[1..],
            &format!("{text}0"),
            &format!("+{}", &text[1..]),
            &"é".repeat(32),
        ] {
            assert_eq!(wrong.parse::<DefinitionHash>(), Err(NotAHash));
        }
    }

    #[test]
    fn words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.as_str()), Some(kind));
        }
        for verb in Verb::ALL {
            assert_eq!(Verb::from_word(verb.as_str()), Some(verb));
        }
    }
}
