//! One connection: its sockets on this machine, and the reader of what it carries.

use std::time::Duration;

use mcpinspect_common::{
    CONNECTION_BUDGET, ConnectionReport, End, EndpointCounters, EndpointKey, EndpointWatch,
    SHIP_REGARDLESS,
};
use mcpinspect_core::http;
use mcpinspect_core::http::{Event, Limits};
use mcpinspect_core::model::{BootTime, Direction, GapReason};
use mcpinspect_core::wire::framing::UNFINISHED_BESIDE;
use mcpinspect_core::wire::held::{BufferUsage, Scratch};

use super::address::{Location, Pair, Side};
use super::link::Link;
use super::session::index;
use crate::discover::environment::{Environment, SoughtSocket};

/// Exchanges other than MCP, from the first one on, after which a connection is left alone.
const OTHERS: u32 = 8;

/// Time that bytes may take from their count to their arrival.
pub const STILL: Duration = Duration::from_secs(1);

/// Bytes that unfinished messages may take in memory and files, given the largest one: see [`UNFINISHED_BESIDE`].
pub fn max_unfinished(max_message: usize) -> usize {
    max_message.saturating_add(UNFINISHED_BESIDE)
}

/// A socket on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    pub key: EndpointKey,
    pub pid: u32,
    /// The process at the other end, if the start of the connection showed it.
    pub other_party: Option<u32>,
    pub uid: u32,
    pub report: ConnectionReport,
}

impl Socket {
    /// Which end of its connection it is.
    pub fn side(&self) -> Side {
        Side::of(self.report.requests_at)
    }

    /// The end at which the bytes of a direction cross it.
    pub fn end(&self, direction: Direction) -> End {
        match (self.side(), direction) {
            (Side::Client, Direction::ClientToServer)
            | (Side::Server, Direction::ServerToClient) => End::Writer,
            (Side::Client, Direction::ServerToClient)
            | (Side::Server, Direction::ClientToServer) => End::Reader,
        }
    }

    /// The direction of what crosses an end.
    pub fn direction(&self, end: End) -> Direction {
        if self.end(Direction::ClientToServer) == end {
            Direction::ClientToServer
        } else {
            Direction::ServerToClient
        }
    }
}

/// A connection.
pub struct Connection {
    pub pair: Pair,
    /// By [`Side`].
    pub sockets: [Option<Socket>; 2],
    /// Whose bytes count.
    pub source: Side,
    reader: http::Connection,
    /// By [`Direction`]: where the reader started.
    base: [u64; 2],
    /// By [`Direction`]: the next byte.
    next: [u64; 2],
    pub link: Link,
    pub since: BootTime,
    pub active: BootTime,
    /// Whether a check for missing bytes was made since the last record.
    pub is_checked: bool,
    /// By [`Direction`]: what was counted when bytes had not arrived, and when that was.
    awaited: [u64; 2],
    awaited_since: BootTime,
    /// Whether the process at its other end was requested.
    pub is_sought: bool,
}

impl Connection {
    /// A connection that begins at a socket. `joined`: in the middle of something.
    pub fn new(
        pair: Pair,
        socket: Socket,
        joined: bool,
        max_message: usize,
        now: BootTime,
    ) -> Self {
        let limits = Limits {
            max_message,
            max_unfinished: max_unfinished(max_message),
            max_decompressed: max_message as u64,
            max_others: OTHERS,
            ..Limits::default()
        };
        let side = socket.side();
        let mut sockets = [None; 2];
        sockets[side.index()] = Some(socket);
        let mut base = [0; 2];
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            base[index(direction)] = socket.report.position[socket.end(direction) as usize];
        }
        let mut connection = Self {
            pair,
            sockets,
            source: side,
            reader: if joined {
                http::Connection::joined(limits)
            } else {
                http::Connection::new(limits)
            },
            base,
            next: base,
            link: Link::new(pair),
            since: now,
            active: now,
            is_checked: false,
            awaited: base,
            awaited_since: now,
            is_sought: false,
        };
        connection.link.parties[side.index()] = Some(socket.pid);
        connection.link.parties[side.other().index()] = socket.other_party;
        connection.link.owner = socket.uid;
        connection.link.location = Location::of(&socket.report);
        connection.link.is_tls = socket.report.is_tls != 0;
        connection
    }

    /// Takes in its other socket. Returns the one whose bytes are not needed.
    pub fn meet(&mut self, socket: Socket) -> Option<EndpointKey> {
        let side = socket.side();
        self.link.parties[side.index()] = Some(socket.pid);
        let other = &mut self.link.parties[side.other().index()];
        *other = other.or(socket.other_party);
        self.sockets[side.index()] = Some(socket);
        let is_complete = [Direction::ClientToServer, Direction::ServerToClient]
            .into_iter()
            .all(|direction| {
                let position = socket.report.position[socket.end(direction) as usize];
                position <= self.next[index(direction)]
            });
        if side == Side::Client && is_complete {
            self.source = Side::Client;
        }
        self.sockets[self.source.other().index()].map(|socket| socket.key)
    }

    /// The socket whose process is unknown although it is on this machine.
    pub fn sought(&self, number: u64) -> Option<SoughtSocket> {
        let (side, near) = match self.link.parties {
            [None, Some(server)] => (Side::Client, server),
            [Some(client), None] => (Side::Server, client),
            [Some(_), Some(_)] | [None, None] => return None,
        };
        self.pair.is_within().then(|| SoughtSocket {
            number,
            near,
            local: self.pair.at(side).socket(),
            remote: self.pair.at(side.other()).socket(),
        })
    }

    /// The socket whose bytes count.
    pub fn socket(&self) -> Option<&Socket> {
        self.sockets[self.source.index()].as_ref()
    }

    /// By [`Direction`]: what was counted at the socket whose bytes count.
    pub fn counted(&self, machine: &dyn Environment) -> Option<[u64; 2]> {
        let socket = self.socket()?;
        let counters = machine.counters(socket.key)?;
        let mut counted = [0; 2];
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            counted[index(direction)] = counters.position[socket.end(direction) as usize];
        }
        Some(counted)
    }

    /// By [`Direction`]: up to where all bytes have arrived or will not, given what is counted now. `None` while some
    /// may be on their way: a call is counted before its record arrives.
    pub fn settled(&mut self, counted: [u64; 2], now: BootTime) -> Option<[u64; 2]> {
        let next = self.next;
        let has_arrived =
            |counts: [u64; 2]| counts.iter().zip(&next).all(|(count, next)| count <= next);
        if has_arrived(counted) {
            return Some(counted);
        }
        if has_arrived(self.awaited) {
            (self.awaited, self.awaited_since) = (counted, now);
            return None;
        }
        (now.since(self.awaited_since) > STILL).then_some(self.awaited)
    }

    /// What unfinished messages and heads occupy.
    pub fn usage(&self) -> BufferUsage {
        self.reader.usage()
    }

    /// Bytes in memory of the largest unfinished message that is worth a file, or zero.
    pub fn spillable(&self) -> usize {
        self.reader.spillable()
    }

    /// Moves that message to a file.
    pub fn spill_largest(&mut self, scratch: &mut Scratch) {
        self.reader.spill_largest(scratch);
    }

    /// Gives up the largest unfinished message. Returns whether that freed anything.
    pub fn abandon_largest(&mut self) -> bool {
        self.reader.abandon_largest()
    }

    /// Whether nothing more will come of it.
    pub fn is_over(&self) -> bool {
        self.reader.is_over()
    }

    /// Takes in bytes at a position of a direction.
    pub fn push(
        &mut self,
        direction: Direction,
        position: u64,
        bytes: &[u8],
        emit: &mut dyn FnMut(&mut Link, Event<'_>),
    ) {
        let at = index(direction);
        let (base, next) = (self.base[at], self.next[at]);
        // What its other socket has already shown.
        let skip = usize::try_from(next.saturating_sub(position)).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(skip..).filter(|bytes| !bytes.is_empty()) else {
            return;
        };
        let position = position.max(next);
        self.next[at] = position + bytes.len() as u64;
        let link = &mut self.link;
        if position > next {
            link.missing = GapReason::PositionJump;
        }
        self.reader
            .push(direction, position - base, bytes, &mut |event| {
                emit(link, event);
            });
    }

    /// Notes that a direction's bytes up to a position did not arrive, for `reason`. Returns whether there
    /// were any.
    pub fn lose(
        &mut self,
        direction: Direction,
        to: u64,
        reason: GapReason,
        emit: &mut dyn FnMut(&mut Link, Event<'_>),
    ) -> bool {
        let next = &mut self.next[index(direction)];
        let missing = to.saturating_sub(*next);
        if missing == 0 {
            return false;
        }
        *next = to;
        let link = &mut self.link;
        link.missing = reason;
        self.reader
            .gap(direction, Some(missing), &mut |event| emit(link, event));
        true
    }

    /// Ends a direction.
    pub fn end(&mut self, direction: Direction, emit: &mut dyn FnMut(&mut Link, Event<'_>)) {
        let link = &mut self.link;
        self.reader.end(direction, &mut |event| emit(link, event));
    }

    /// How much of it to ship, given what was counted.
    pub fn watch(&self, counters: Option<EndpointCounters>) -> EndpointWatch {
        let Some(socket) = self.socket() else {
            return EndpointWatch::default();
        };
        let mut ship_limit = [u64::MAX; 2];
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let end = socket.end(direction) as usize;
            if self.reader.skippable(direction) == u64::MAX {
                ship_limit[end] = 0;
            } else if !self.link.is_mcp {
                let counted = counters.map_or(0, |counters| counters.position[end]);
                let reached = counted.max(self.next[index(direction)]);
                ship_limit[end] = reached.saturating_add(CONNECTION_BUDGET) | SHIP_REGARDLESS;
            }
        }
        EndpointWatch {
            ship_limit,
            counted: 1,
            compare_only: 0,
        }
    }
}
