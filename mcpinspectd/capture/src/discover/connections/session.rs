//! One session: its parties, its address, and its messages until it is announced.

use std::time::Duration;

use mcpinspect_core::http::{Target, TargetKey};
use mcpinspect_core::model::{BootTime, Content, Direction, Pid, Process, SessionId};

use super::address::{Address, Location};

/// Time that a session waits for its parties to show themselves.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Most bytes that wait for that.
const PENDING_MAX: usize = 1 << 20;
/// Most names to remember for a session.
const NAMES_MAX: usize = 8;

/// Counts sessions.
pub type Number = u64;

/// What requests name a session by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    /// Its `Mcp-Session-Id`, whose key this is.
    Id(Address, TargetKey),
    /// The address that the server named for messages (2024-11-05).
    Target(Address, TargetKey),
    /// Nothing: a client that talks to an address, without a session created by the server.
    Client(Address, Option<TargetKey>, Caller),
}

/// A client that nothing else identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Caller {
    /// A process on this machine.
    Process(u32),
    /// A host at an address.
    Host(std::net::Ipv6Addr, u32),
}

/// What waits for a session to be announced.
#[derive(Debug)]
pub struct Pending {
    pub direction: Direction,
    /// When it passed.
    pub time: BootTime,
    /// A message, or the loss of some bytes.
    pub content: Content<'static>,
}

/// Whether the engine knows a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not yet.
    Waiting,
    /// It was announced.
    Announced,
    /// The configuration excludes its server.
    Excluded,
}

/// An open session.
#[derive(Debug)]
pub struct Session {
    pub id: SessionId,
    pub stage: Stage,
    /// Where the first request went.
    pub target: Target,
    /// The server's address.
    pub address: Address,
    /// It is the transport of 2024-11-05: all responses come over one stream.
    pub is_sse: bool,
    /// Whether it is encrypted in transit.
    pub is_tls: bool,
    /// Where the server listens, with Unix sockets.
    pub location: Option<Location>,
    /// Whether it was open before it was seen.
    pub is_joined: bool,
    /// The names under which requests find it.
    pub names: Vec<Name>,
    /// The processes at both ends, by [`super::address::Side`].
    pub parties: [Option<u32>; 2],
    /// The parties that were announced, with their starts.
    pub announced: [Option<Process>; 2],
    pub owner: u32,
    /// By [`Direction`]: bytes of all messages so far.
    pub positions: [u64; 2],
    pub pending: Vec<Pending>,
    /// The server has answered: any party on this machine has been seen by now.
    pub is_answered: bool,
    /// A process at one end is on this machine, and is being looked for.
    pub awaits_party: bool,
    /// How many connections carry it.
    pub connections: usize,
    pub since: BootTime,
    pub last_active: BootTime,
}

impl Session {
    /// A session in which nothing has been said yet.
    pub fn new(id: SessionId, address: Address, target: Target, owner: u32, now: BootTime) -> Self {
        Self {
            id,
            stage: Stage::Waiting,
            target,
            address,
            is_sse: false,
            is_tls: false,
            location: None,
            is_joined: false,
            names: Vec::new(),
            parties: [None; 2],
            announced: [None; 2],
            owner,
            positions: [0; 2],
            pending: Vec::new(),
            is_answered: false,
            awaits_party: false,
            connections: 0,
            since: now,
            last_active: now,
        }
    }

    /// Adds a name. Returns the one it displaces.
    pub fn add_name(&mut self, name: Name) -> Option<Name> {
        if self.names.contains(&name) {
            return None;
        }
        let displaced = (self.names.len() >= NAMES_MAX).then(|| self.names.remove(0));
        self.names.push(name);
        displaced
    }

    /// Whether requests name it.
    pub fn is_named(&self) -> bool {
        let mut names = self.names.iter();
        names.any(|name| matches!(name, Name::Id(..) | Name::Target(..)))
    }

    /// Whether it is time to announce it.
    pub fn is_ready(&self, now: BootTime) -> bool {
        let bytes = |pending: &Pending| pending.content.memory();
        self.stage == Stage::Waiting
            && !self.pending.is_empty()
            && (self.is_answered && !self.awaits_party
                || self.parties.iter().all(Option::is_some)
                || now.since(self.since) > TIMEOUT
                || self.pending.iter().map(bytes).sum::<usize>() > PENDING_MAX)
    }

    /// Reserves the positions of the next bytes in a direction, given how many there are.
    pub fn advance(&mut self, direction: Direction, bytes: u64) -> u64 {
        let position = &mut self.positions[index(direction)];
        let at = *position;
        *position = position.saturating_add(bytes);
        at
    }

    /// The server's URL, without a query. Requests over a Unix socket name a host that means nothing, so the location
    /// of the socket stands for it.
    pub fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let path = self.target.path.as_deref().unwrap_or_default();
        if let Some(location) = &self.location {
            return format!("{scheme}+unix://{location}{path}");
        }
        match self.target.authority.as_deref() {
            Some(authority) if !authority.is_empty() => format!("{scheme}://{authority}{path}"),
            _ => format!("{scheme}://{}{path}", self.address),
        }
    }

    /// Its party at a side, as the engine numbers it.
    pub fn pid(&self, side: super::address::Side) -> Option<Pid> {
        self.parties[side.index()].map(Pid)
    }
}

/// The index of a direction in a pair.
pub fn index(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}
