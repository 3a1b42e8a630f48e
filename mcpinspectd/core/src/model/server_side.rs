//! The server's side of a session, as the kernel saw it set up.
//!
//! Who reads and writes a session's streams now is up to the processes that hold them: a client may connect
//! its own to a process that never asked for it, and a server may pass its own on. But they no longer decide
//! which processes were *started* with both streams. Containment relies on that.

use mcpinspect_common::EndpointKey;
use serde::{Deserialize, Serialize};

use super::Process;

/// A kernel object that a descriptor refers to, as the kernel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InodeKey {
    /// `i_sb->s_dev`: major number shifted by 20, or minor.
    pub dev: u64,
    /// `i_ino`.
    pub ino: u64,
}

impl From<EndpointKey> for InodeKey {
    fn from(key: EndpointKey) -> Self {
        Self {
            dev: u64::from(key.dev),
            ino: key.ino,
        }
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSide {
    /// The processes that were started between both streams of the session, in that order: launchers,
    /// and the server itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub launched: Vec<Process>,
    /// The pipe or socket that the server reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<InodeKey>,
    /// The pipe or socket that it writes; the same one if it is a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<InodeKey>,
}

impl ServerSide {
    /// Whether nothing is known about it.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}
