//! Whose pins they are.
//!
//! Anyone can start a server with another user's command line, and it gets the same name. If pins
//! went by names alone, its user would read in his own events how *her* pinned definitions differ from
//! his, pin poison before she does, and inherit what she approved. So each user has pins of their own,
//! by the real user id of the server's process, which a user cannot choose. Only the administrator of
//! the machine can let users share theirs.
//!
//! Pins recorded before pins had owners belong to no one. They are taken over one by one, by
//! the user whose server shows exactly what was pinned; see [`Registry::observe`](super::Registry::observe).

use std::collections::BTreeSet;
use std::fmt;

/// Whose pins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The user whose servers run under this real user id.
    User(u32),
    /// All users that share their pins.
    Shared,
    /// The unknown users of servers whose process is unknown. No user is told about those.
    Unknown,
    /// No owner: recorded before pins had owners. Nothing is added to these.
    Earlier,
}

impl Owner {
    /// The user, if it is one.
    pub fn uid(self) -> Option<u32> {
        match self {
            Self::User(uid) => Some(uid),
            Self::Shared | Self::Unknown | Self::Earlier => None,
        }
    }

    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Shared => "shared",
            Self::Unknown => "unknown",
            Self::Earlier => "earlier",
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(f, "uid {uid}"),
            other => f.write_str(other.as_str()),
        }
    }
}

/// Which users share one set of pins: by default none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// Whether all of them do.
    pub everyone: bool,
    /// The users who do.
    pub users: BTreeSet<u32>,
}

impl Sharing {
    /// Whether a user shares.
    pub fn covers(&self, uid: u32) -> bool {
        self.everyone || self.users.contains(&uid)
    }

    /// Who owns the pins of servers that run as `uid`; `None` if that is unknown.
    pub fn owner(&self, uid: Option<u32>) -> Owner {
        match uid {
            Some(uid) if self.covers(uid) => Owner::Shared,
            Some(uid) => Owner::User(uid),
            None => Owner::Unknown,
        }
    }
}

/// The pins of one server that belong to one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOf<'a> {
    /// Whose.
    pub owner: Owner,
    /// The server's stable name.
    pub server: &'a str,
}

impl<'a> ServerOf<'a> {
    /// The server called `server` as `owner` has it.
    pub fn new(owner: Owner, server: &'a str) -> Self {
        Self { owner, server }
    }

    /// The same server with another owner.
    pub(super) fn of(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_are_named_share() {
        let none = Sharing::default();
        assert_eq!(none.owner(Some(0)), Owner::User(0));
        assert_eq!(none.owner(None), Owner::Unknown);
        let some = Sharing {
            users: BTreeSet::from([7]),
            ..Sharing::default()
        };
        assert_eq!(some.owner(Some(7)), Owner::Shared);
        assert_eq!(some.owner(Some(8)), Owner::User(8));
        let all = Sharing {
            everyone: true,
            ..Sharing::default()
        };
        assert_eq!(all.owner(Some(8)), Owner::Shared);
        assert_eq!(all.owner(None), Owner::Unknown, "not one of the users");
    }
}
