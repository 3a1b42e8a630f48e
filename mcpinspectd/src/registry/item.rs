//! What the registry keeps: items, their definitions' hashes, and what became of them.

use std::fmt;

use crate::model::{DefinitionHash, FieldChange, ItemKind, Timestamp};

/// Names an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemKey {
    /// What it is.
    pub kind: ItemKind,
    /// Its name; empty for what a server has only one of.
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

    /// The key of something that a server has only one of.
    pub fn only(kind: ItemKind) -> Self {
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
    use crate::model::NotAHash;

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
        for kind in ItemKind::ALL {
            assert_eq!(ItemKind::from_word(kind.as_str()), Some(kind));
        }
        for verb in Verb::ALL {
            assert_eq!(Verb::from_word(verb.as_str()), Some(verb));
        }
    }
}
