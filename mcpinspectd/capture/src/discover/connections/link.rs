//! What links a connection to the sessions that it carries.

use std::collections::{BTreeMap, BTreeSet};

use mcpinspect_core::http::{Exchange, Left, Method, Target, TargetKey};
use mcpinspect_core::model::GapReason;

use super::address::{Location, Pair, Side};
use super::session::{Caller, Number};

/// What links a connection to sessions.
#[derive(Debug)]
pub struct Link {
    pub pair: Pair,
    /// Where the server listens, with Unix sockets.
    pub location: Option<Location>,
    /// The processes at its ends, where they are on this machine.
    pub parties: [Option<u32>; 2],
    /// The user who is charged for it.
    pub owner: u32,
    /// Whether it is encrypted in transit.
    pub is_tls: bool,
    /// Whether there was MCP in it.
    pub is_mcp: bool,
    /// Why bytes of it are missing, if some are.
    pub missing: GapReason,
    /// Why nothing more will come of it.
    pub left: Option<Left>,
    pub(super) exchanges: BTreeMap<Exchange, Joined>,
    /// The sessions that it carries, and the one that it carried last.
    pub(super) sessions: BTreeSet<Number>,
    pub(super) last: Option<Number>,
}

/// An exchange, linked to a session.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) session: Option<Number>,
    pub(super) method: Method,
    pub(super) target: Target,
    /// The session that the answer names, once there is one.
    pub(super) named: Option<TargetKey>,
    /// The server named an address for messages on it.
    pub(super) is_stream: bool,
}

impl Link {
    /// The link of a connection about which nothing is known.
    pub fn new(pair: Pair) -> Self {
        Self {
            pair,
            location: None,
            parties: [None; 2],
            owner: 0,
            is_tls: false,
            is_mcp: false,
            missing: GapReason::PositionJump,
            left: None,
            exchanges: BTreeMap::new(),
            sessions: BTreeSet::new(),
            last: None,
        }
    }

    pub(super) fn caller(&self) -> Caller {
        match self.parties[Side::Client.index()] {
            Some(pid) => Caller::Process(pid),
            None => {
                let (ip, network) = self.pair.client.host();
                Caller::Host(ip, network)
            }
        }
    }
}
