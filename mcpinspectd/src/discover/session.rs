//! Two streams that belong together, and the parties at their ends.

use mcpinspect_common::EndpointKey;

use crate::capture::Origin;
use crate::model::{Direction, SessionId};

/// A piece of a session that waits for the session's client to show itself.
#[derive(Debug)]
pub struct Waiting {
    /// The stream.
    pub key: EndpointKey,
    /// Where the piece stands in it.
    pub position: u64,
    /// The piece.
    pub bytes: Vec<u8>,
    /// Who moved it, and when.
    pub origin: Origin,
}

/// A session under way.
#[derive(Debug)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// The server's input.
    pub to_server: Option<EndpointKey>,
    /// The server's output.
    pub to_client: Option<EndpointKey>,
    /// The process that reads what the client writes.
    pub server: Option<u32>,
    /// The process that reads what the server writes.
    pub client: Option<u32>,
    /// Whether the engine was told.
    pub opened: bool,
    /// What came before the engine was told, in the order in which it came.
    pub waiting: Vec<Waiting>,
    /// Whether the session was under way when the daemon joined.
    pub joined: bool,
    /// Boot time when it first looked over; ended when nobody is left at the server's side.
    pub closing_since: Option<u64>,
    /// Why it looks over.
    pub closing_reason: &'static str,
}

impl Session {
    /// A session of which no stream is known yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            to_server: None,
            to_client: None,
            server: None,
            client: None,
            opened: false,
            waiting: Vec::new(),
            joined: false,
            closing_since: None,
            closing_reason: "streams_closed",
        }
    }

    /// Its streams with their directions.
    pub fn streams(&self) -> impl Iterator<Item = (EndpointKey, Direction)> {
        let to_server = self.to_server.map(|key| (key, Direction::ClientToServer));
        let to_client = self.to_client.map(|key| (key, Direction::ServerToClient));
        to_server.into_iter().chain(to_client)
    }

    /// Notes that it looks over.
    pub fn closing(&mut self, now: u64, reason: &'static str) {
        if self.closing_since.is_none() {
            self.closing_since = Some(now);
            self.closing_reason = reason;
        }
    }
}
