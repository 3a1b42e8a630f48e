//! The two directions of a session.

use serde::{Deserialize, Serialize};

/// Which way a message travels between the two parties of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the MCP client (the agent's side) to the server: the server's standard input.
    ClientToServer,
    /// From the MCP server to the client: the server's standard output.
    ServerToClient,
}

impl Direction {
    /// The other direction.
    pub fn reverse(self) -> Self {
        match self {
            Self::ClientToServer => Self::ServerToClient,
            Self::ServerToClient => Self::ClientToServer,
        }
    }

    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientToServer => "client_to_server",
            Self::ServerToClient => "server_to_client",
        }
    }
}
