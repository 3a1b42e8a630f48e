//! What the daemon must know about running sessions after a restart.
//!
//! Who a server is follows from what the kernel saw when it was started, and which two streams are a
//! session from the programs between them. A running process cannot be asked for either: it may
//! have changed what `/proc` shows about it, moved its descriptors, or be gone with its children left. So
//! both are saved while they are known.

use std::sync::Arc;

use mcpinspect_common::EndpointKey;
use mcpinspect_process::ProcessInfo;
use serde::{Deserialize, Serialize};

/// A stream of a session, with the programs that were started at it, in the order in which they started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedStream {
    /// The endpoint that it is read at.
    pub endpoint: RememberedEndpoint,
    /// The programs.
    pub programs: Vec<RememberedProgram>,
}

/// A program at a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedProgram {
    /// Its process.
    pub pid: u32,
    /// The stream that it reads as standard input.
    pub input: Option<RememberedEndpoint>,
    /// The stream that it writes as standard output.
    pub output: Option<RememberedEndpoint>,
    /// What it was when it started. **Secret**: its arguments are in it.
    pub info: Option<Arc<ProcessInfo>>,
    /// What its server was launched as. **Secret**, likewise.
    pub origin: Option<Arc<ProcessInfo>>,
}

/// An endpoint, in the form it is saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RememberedEndpoint {
    /// Its inode number.
    pub ino: u64,
    /// Its device.
    pub dev: u32,
    /// Its kind, see [`mcpinspect_common::EndpointKind`].
    pub kind: u32,
}

impl From<EndpointKey> for RememberedEndpoint {
    fn from(key: EndpointKey) -> Self {
        let EndpointKey { ino, dev, kind } = key;
        Self { ino, dev, kind }
    }
}

impl From<RememberedEndpoint> for EndpointKey {
    fn from(endpoint: RememberedEndpoint) -> Self {
        let RememberedEndpoint { ino, dev, kind } = endpoint;
        Self { ino, dev, kind }
    }
}
