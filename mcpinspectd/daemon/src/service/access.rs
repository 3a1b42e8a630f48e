//! Who may ask: decided by the credentials that the bus vouches for, never by anything in the call.
//!
//! Events tell of people's tool calls. Root and the members of the `mcpinspect` group read all of
//! them; anyone else reads what concerns servers that run as themselves, and learns nothing of the
//! rest. Names of servers and tools are less than that: signals carry them to everyone, and the
//! person at the machine may list them.

use mcpinspect_core::model::Pid;
use nix::unistd::{Gid, Group, User, getgrouplist};
use tokio::task::spawn_blocking;
use zbus::Connection;
use zbus::fdo::{self, ConnectionCredentials, DBusProxy};
use zbus::message::Header;
use zbus::names::BusName;

use super::polkit;
use crate::control::Caller;

/// The group whose members read everything.
pub const GROUP: &str = "mcpinspect";

/// Whose events a caller may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone's.
    All {
        /// The caller.
        uid: u32,
    },
    /// Those of servers that run as this user.
    Own {
        /// The caller.
        uid: u32,
    },
}

impl Access {
    /// The caller's user id.
    pub fn uid(self) -> u32 {
        match self {
            Self::All { uid } | Self::Own { uid } => uid,
        }
    }

    /// The caller, as far as decisions go.
    pub fn caller(self) -> Caller {
        Caller {
            uid: self.uid(),
            reads_all: matches!(self, Self::All { .. }),
        }
    }

    /// Whether the caller may read about a server that runs as `owner`.
    pub fn covers(self, owner: Option<u32>) -> bool {
        match self {
            Self::All { .. } => true,
            Self::Own { uid } => owner == Some(uid),
        }
    }

    /// Whose servers' and tools' *names* the sender of this call may read: everyone's also where
    /// polkit lets the person at the machine.
    ///
    /// # Errors
    /// `AccessDenied` where the bus cannot say who the sender is.
    pub async fn to_names(connection: &Connection, header: &Header<'_>) -> fdo::Result<Self> {
        match Self::of_sender(connection, header).await? {
            Self::Own { uid } if polkit::is_allowed(connection, header, polkit::LIST).await => {
                Ok(Self::All { uid })
            }
            access => Ok(access),
        }
    }

    /// What the sender of this call may read.
    ///
    /// # Errors
    /// `AccessDenied` where the bus cannot say who the sender is.
    pub async fn of_sender(connection: &Connection, header: &Header<'_>) -> fdo::Result<Self> {
        let credentials = credentials(connection, header).await?;
        let uid = uid(&credentials)?;
        if uid == 0 {
            return Ok(Self::All { uid });
        }
        let groups = credentials.into_unix_group_ids();
        let member = spawn_blocking(move || is_member(uid, groups))
            .await
            .map_err(|error| fdo::Error::Failed(error.to_string()))?;
        Ok(if member {
            Self::All { uid }
        } else {
            Self::Own { uid }
        })
    }
}

/// The process that sent a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its id, where the bus knows it.
    pub pid: Option<Pid>,
}

impl Peer {
    /// Who sent this call.
    ///
    /// # Errors
    /// `AccessDenied` where the bus cannot say who the sender is.
    pub async fn of_sender(connection: &Connection, header: &Header<'_>) -> fdo::Result<Self> {
        let credentials = credentials(connection, header).await?;
        Ok(Self {
            uid: uid(&credentials)?,
            pid: credentials.process_id().map(Pid),
        })
    }
}

fn denied(why: &str) -> fdo::Error {
    fdo::Error::AccessDenied(why.to_owned())
}

fn uid(credentials: &ConnectionCredentials) -> fdo::Result<u32> {
    let uid = credentials.unix_user_id();
    uid.ok_or_else(|| denied("the bus did not identify the caller"))
}

async fn credentials(
    connection: &Connection,
    header: &Header<'_>,
) -> fdo::Result<ConnectionCredentials> {
    let sender = header
        .sender()
        .ok_or_else(|| denied("a call without a sender"))?;
    let bus = DBusProxy::new(connection).await?;
    let name = BusName::from(sender.clone());
    bus.get_connection_credentials(name)
        .await
        .map_err(|_| denied("the bus did not identify the caller"))
}

/// Whether the user belongs to [`GROUP`]: by the groups of the process where the bus knows them, by
/// the user database where it does not.
fn is_member(uid: u32, groups: Option<Vec<u32>>) -> bool {
    let Ok(Some(group)) = Group::from_name(GROUP) else {
        return false;
    };
    match groups {
        Some(groups) => groups.contains(&group.gid.as_raw()),
        None => groups_of(uid).contains(&group.gid),
    }
}

fn groups_of(uid: u32) -> Vec<Gid> {
    let Ok(Some(user)) = User::from_uid(uid.into()) else {
        return Vec::new();
    };
    let Ok(name) = std::ffi::CString::new(user.name) else {
        return Vec::new();
    };
    getgrouplist(&name, user.gid).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_reads_all_and_others_their_own() {
        assert!(Access::All { uid: 0 }.covers(None));
        assert!(Access::All { uid: 5 }.covers(Some(7)));
        assert!(Access::Own { uid: 7 }.covers(Some(7)));
        assert!(!Access::Own { uid: 7 }.covers(Some(8)));
        assert!(
            !Access::Own { uid: 7 }.covers(None),
            "an unknown owner is not the caller"
        );
    }

    #[test]
    fn a_user_without_the_group_is_no_member() {
        assert!(!is_member(65534, Some(vec![65534])));
        assert!(!is_member(4_000_000_000, None));
    }
}
