//! The known connections, and the routing of each record to one of them.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_common::{ConnectionReport, End, EndpointKey, LeftAlone, NO_REQUESTS};
use mcpinspect_core::http::{Event, Left};
use mcpinspect_core::model::{BlindMechanism, BootTime, Content, Direction, GapReason};
use mcpinspect_core::wire::held::{BufferUsage, Scratch, UNFINISHED_IN_MEMORY, UNFINISHED_SMALL};

use super::address::{Pair, Side};
use super::connection::{Connection, STILL, Socket, max_unfinished};
use super::context::Context;
use super::link::Link;
use super::session::index;
use super::sessions::Sessions;
use crate::capture::Origin;
use crate::discover::Settings;
use crate::discover::captured::Captured;

/// Time after which a connection that shows nothing is left alone.
const UNDECIDED: Duration = Duration::from_secs(60);
/// Time that the other end of a connection on this machine may take to show itself.
const OTHER_END: Duration = Duration::from_millis(50);

const DIRECTIONS: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

type ConnectionNumber = u64;

/// All connections that may carry MCP, and their sessions.
pub struct Connections {
    by_number: HashMap<ConnectionNumber, Connection>,
    by_socket: HashMap<EndpointKey, (ConnectionNumber, Side)>,
    by_pair: HashMap<Pair, ConnectionNumber>,
    sessions: Sessions,
    next: ConnectionNumber,
    max_message: usize,
    /// Bytes that unfinished messages of all connections may take in memory and files, and what they do take.
    max_unfinished: usize,
    unfinished: BufferUsage,
    /// Where large ones of them are moved to.
    scratch: Option<Scratch>,
    exhausted: Option<(u32, u32)>,
}

impl Connections {
    /// An empty table. The ids of sessions begin with `run`.
    pub fn new(run: String, settings: &Settings) -> Self {
        let max_message = usize::try_from(settings.max_message).unwrap_or(usize::MAX);
        Self {
            by_number: HashMap::new(),
            by_socket: HashMap::new(),
            by_pair: HashMap::new(),
            sessions: Sessions::new(run, settings.max_sessions),
            next: 0,
            max_message,
            max_unfinished: max_unfinished(max_message),
            unfinished: BufferUsage::default(),
            scratch: settings.scratch.clone().map(Scratch::new),
            exhausted: None,
        }
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty() && self.sessions.len() == 0
    }

    /// Whether a process is a party of a session.
    pub fn is_party(&self, pid: u32) -> bool {
        self.sessions.is_party(pid)
    }

    /// Open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions that made room for others.
    pub fn refused(&self) -> u64 {
        self.sessions.refused()
    }

    /// A socket is counted from now on; its first bytes crossed `end`.
    pub fn connected(
        &mut self,
        key: EndpointKey,
        end: End,
        report: ConnectionReport,
        uid: u32,
        origin: Origin,
        context: &mut Context<'_>,
    ) {
        let side = Side::of(report.requests_at);
        let other_end = match side {
            Side::Client => End::Reader,
            Side::Server => End::Writer,
        };
        let peer = (report.peer != 0).then_some(report.peer);
        let socket = Socket {
            key,
            pid: origin.tgid,
            other_party: peer.or_else(|| context.machine.greeted(report.greeting, other_end)),
            uid,
            report,
        };
        if let Some((number, side)) = self.by_socket.remove(&key) {
            // The probes have registered it again.
            if let Some(connection) = self.by_number.get_mut(&number) {
                connection.sockets[side.index()] = None;
            }
            self.close(number, None, context, origin.time);
        }
        let pair = Pair::of(&report, side);
        if let Some(number) = self.by_pair.get(&pair).copied() {
            let known = self.by_number.get_mut(&number);
            if let Some(connection) = known.filter(|one| one.sockets[side.index()].is_none()) {
                let spare = connection.meet(socket);
                self.by_socket.insert(key, (number, side));
                self.sessions.parties(&connection.link, context);
                if let Some(spare) = spare {
                    self.drop_socket(number, spare, context);
                }
                if self
                    .by_number
                    .get(&number)
                    .is_some_and(|one| one.link.is_mcp)
                {
                    self.watch(number, context);
                }
                return;
            }
            // The addresses are in use again.
            self.close(number, None, context, origin.time);
        }
        let number = self.next;
        self.next += 1;
        // A request begins something, whatever passed before.
        let joined = report.requests_at != end as u32 && report.position != [0; 2];
        let connection = Connection::new(pair, socket, joined, self.max_message, origin.time);
        self.by_number.insert(number, connection);
        self.by_socket.insert(key, (number, side));
        self.by_pair.insert(pair, number);
    }

    /// Bytes crossed an end of a socket, whether or not they could be copied.
    pub fn segment(&mut self, captured: &Captured<'_>, context: &mut Context<'_>) {
        let (segment, now) = (&captured.segment, captured.origin.time);
        let Some((number, direction)) = self.locate(captured.key, captured.end) else {
            return;
        };
        let bytes = match &segment.content {
            Content::Bytes(bytes) => bytes,
            Content::Lost { reason, .. } => {
                return self.read(number, now, context, |connection, emit| {
                    connection.lose(direction, segment.end(), *reason, emit);
                });
            }
        };
        self.read(number, now, context, |connection, emit| {
            connection.push(direction, segment.position, bytes, emit);
        });
        let Some(connection) = self.by_number.get(&number) else {
            return;
        };
        if !connection.link.is_mcp && direction == Direction::ClientToServer && segment.position > 0
        {
            // Another request: what comes next may be MCP.
            self.watch(number, context);
        }
    }

    /// Notes that a process read the end of what the other side sends.
    pub fn end_of_stream(&mut self, key: EndpointKey, origin: Origin, context: &mut Context<'_>) {
        if let Some((number, direction)) = self.locate(key, End::Reader) {
            self.read(number, origin.time, context, |connection, emit| {
                connection.end(direction, emit);
            });
        }
    }

    /// Bytes crossed an end of a socket in a way that cannot be copied.
    pub fn blind(
        &mut self,
        key: EndpointKey,
        end: End,
        mechanism: BlindMechanism,
        origin: Origin,
        context: &mut Context<'_>,
    ) {
        let Some((number, _)) = self.locate(key, end) else {
            return;
        };
        if let Some(connection) = self.by_number.get(&number).filter(|one| one.link.is_mcp) {
            self.sessions
                .blind(&connection.link, mechanism, origin, context);
        }
    }

    /// Advances time. `is_sweep`: a survey has told which sockets exist.
    pub fn tick(&mut self, context: &mut Context<'_>, now: BootTime, is_sweep: bool) {
        let still: Vec<ConnectionNumber> = self
            .by_number
            .iter()
            .filter(|(_, one)| !one.is_checked && now.since(one.active) > STILL)
            .map(|(number, _)| *number)
            .collect();
        for number in still {
            if let Some(settled) = self.settled(number, now, context) {
                self.check(number, settled, now, context);
            }
        }
        self.seek_owners(now, context);
        if is_sweep {
            self.sweep(context, now);
        }
        self.sessions.tick(context, now, is_sweep);
    }

    /// Requests the processes whose end of a connection has not shown itself, and takes in those found: the
    /// probes in a program's TLS library may come later than its first connection, and others have none.
    fn seek_owners(&mut self, now: BootTime, context: &mut Context<'_>) {
        for (number, pid) in context.machine.owners() {
            let Some(connection) = self.by_number.get_mut(&number) else {
                continue;
            };
            for party in &mut connection.link.parties {
                *party = party.or(pid);
            }
            self.sessions.sought(&mut connection.link, context);
        }
        for (number, connection) in &mut self.by_number {
            if now.since(connection.since) >= OTHER_END {
                seek_owner(*number, connection, context);
            }
        }
    }

    /// Ends all sessions: the daemon stops.
    pub fn finish(&mut self, context: &mut Context<'_>, now: BootTime) {
        let all: Vec<ConnectionNumber> = self.by_number.keys().copied().collect();
        for number in all {
            self.check_all(number, now, context);
        }
        self.sessions.finish(context, now);
    }

    /// Forgets connections that are gone, and those that show nothing.
    fn sweep(&mut self, context: &mut Context<'_>, now: BootTime) {
        let machine = &*context.machine;
        let mut gone = Vec::new();
        for (number, connection) in &self.by_number {
            let is_held = connection
                .sockets
                .iter()
                .flatten()
                .any(|socket| machine.is_held(socket.key, End::Reader));
            let is_undecided = !connection.link.is_mcp && now.since(connection.since) > UNDECIDED;
            if !is_held {
                gone.push((*number, false));
            } else if is_undecided {
                gone.push((*number, true));
            }
        }
        for (number, is_there) in gone {
            if !is_there && self.settled(number, now, context).is_none() {
                // Its last bytes are on their way: the next survey comes soon enough.
                continue;
            }
            self.check_all(number, now, context);
            let left = is_there.then_some(Left::NotMcp);
            self.close(number, left, context, now);
        }
    }

    /// Which connection a socket belongs to, if its bytes count, and the direction of those that cross an end.
    fn locate(&self, key: EndpointKey, end: End) -> Option<(ConnectionNumber, Direction)> {
        let (number, side) = *self.by_socket.get(&key)?;
        let connection = self.by_number.get(&number)?;
        let socket = connection.sockets[side.index()].as_ref()?;
        (connection.source == side).then(|| (number, socket.direction(end)))
    }

    /// Lets a connection's reader do something, and acts on what it finds.
    fn read(
        &mut self,
        number: ConnectionNumber,
        now: BootTime,
        context: &mut Context<'_>,
        act: impl FnOnce(&mut Connection, &mut dyn FnMut(&mut Link, Event<'_>)),
    ) {
        let Some(connection) = self.by_number.get_mut(&number) else {
            return;
        };
        let (was_mcp, was_left) = (connection.link.is_mcp, connection.link.left);
        let before = connection.usage();
        let sessions = &mut self.sessions;
        connection.active = now;
        connection.is_checked = false;
        act(connection, &mut |link, event| {
            sessions.event(link, &event, context, now);
        });
        self.unfinished = self.unfinished - before + connection.usage();
        let (is_mcp, left) = (connection.link.is_mcp, connection.link.left);
        if connection.is_over() || matches!(left, Some(Left::NotHttp | Left::NotMcp)) {
            self.close(number, Some(left.unwrap_or(Left::NotMcp)), context, now);
        } else if is_mcp != was_mcp || left != was_left {
            if connection.link.is_tls {
                // What the client sent came before it, if it comes at all; and a client may be short-lived.
                seek_owner(number, connection, context);
            }
            self.watch(number, context);
        }
        let memory = self.unfinished.memory;
        if let Some(scratch) = &mut self.scratch
            && scratch.is_wanted(memory)
        {
            while self.unfinished.memory > UNFINISHED_IN_MEMORY && self.spill_largest() {}
        }
        while self.is_too_much() && self.give_up_largest(context, now) {}
    }

    /// Whether unfinished messages take more than they may.
    fn is_too_much(&self) -> bool {
        let has_files = self.scratch.as_ref().is_some_and(Scratch::works);
        self.unfinished.total() > self.max_unfinished
            || (has_files && self.unfinished.memory > UNFINISHED_SMALL)
    }

    /// Moves the largest unfinished message from memory to a file. Returns whether one was worth it.
    fn spill_largest(&mut self) -> bool {
        let connections = self.by_number.values_mut();
        let largest = connections.max_by_key(|connection| connection.spillable());
        let (Some(scratch), Some(largest)) = (&mut self.scratch, largest) else {
            return false;
        };
        if largest.spillable() == 0 {
            scratch.found_nothing(self.unfinished.memory);
            return false;
        }
        let before = largest.usage();
        largest.spill_largest(scratch);
        self.unfinished = self.unfinished - before + largest.usage();
        true
    }

    /// Frees memory where the most is taken: gives up the largest unfinished message, or else the connection.
    fn give_up_largest(&mut self, context: &mut Context<'_>, now: BootTime) -> bool {
        let connections = self.by_number.iter_mut();
        let Some((&number, largest)) =
            connections.max_by_key(|(number, one)| (one.usage().total(), **number))
        else {
            return false;
        };
        if let Some(socket) = largest.socket() {
            self.exhausted = Some((socket.uid, socket.pid));
        }
        let before = largest.usage();
        let gave_up = largest.abandon_largest();
        self.unfinished = self.unfinished - before + largest.usage();
        if !gave_up {
            self.close(number, Some(Left::NotMcp), context, now);
        }
        true
    }

    /// The user whose connection was the last that took too much memory since the last call, and its process.
    pub fn exhausted(&mut self) -> Option<(u32, u32)> {
        self.exhausted.take()
    }

    /// Has the probes ship as much of a connection as what it turned out to be requires.
    fn watch(&self, number: ConnectionNumber, context: &mut Context<'_>) {
        if let Some(connection) = self.by_number.get(&number)
            && let Some(socket) = connection.socket()
        {
            let counters = context.machine.counters(socket.key);
            context
                .machine
                .watch(socket.key, connection.watch(counters));
        }
    }

    /// See [`Connection::settled`]. Where nothing is counted any more, nothing is awaited.
    fn settled(
        &mut self,
        number: ConnectionNumber,
        now: BootTime,
        context: &Context<'_>,
    ) -> Option<[u64; 2]> {
        let connection = self.by_number.get_mut(&number)?;
        match connection.counted(&*context.machine) {
            Some(counted) => connection.settled(counted, now),
            None => Some([0; 2]),
        }
    }

    /// Gives up everything that was counted at a connection and has not arrived.
    fn check_all(&mut self, number: ConnectionNumber, now: BootTime, context: &mut Context<'_>) {
        let connection = self.by_number.get(&number);
        if let Some(counted) = connection.and_then(|one| one.counted(&*context.machine)) {
            self.check(number, counted, now, context);
        }
    }

    /// Gives up what was counted up to here, by [`Direction`], and has not arrived.
    fn check(
        &mut self,
        number: ConnectionNumber,
        counted: [u64; 2],
        now: BootTime,
        context: &mut Context<'_>,
    ) {
        let Some(connection) = self.by_number.get_mut(&number) else {
            return;
        };
        connection.is_checked = true;
        let (active, is_mcp) = (connection.active, connection.link.is_mcp);
        let mut is_missing = false;
        for direction in DIRECTIONS {
            let counted = counted[index(direction)];
            self.read(number, active, context, |connection, emit| {
                is_missing |= connection.lose(direction, counted, GapReason::PositionJump, emit);
            });
        }
        if let Some(connection) = self.by_number.get_mut(&number) {
            connection.is_checked = true;
            if is_missing && !is_mcp {
                // Much of something else passed.
                self.close(number, Some(Left::NotMcp), context, now);
            }
        }
    }

    /// Forgets a connection. `left`: its sockets still exist, and are left alone.
    fn close(
        &mut self,
        number: ConnectionNumber,
        left: Option<Left>,
        context: &mut Context<'_>,
        now: BootTime,
    ) {
        let Some(mut connection) = self.by_number.remove(&number) else {
            return;
        };
        self.unfinished -= connection.usage();
        if self.by_pair.get(&connection.pair) == Some(&number) {
            self.by_pair.remove(&connection.pair);
        }
        let sessions = &mut self.sessions;
        for direction in DIRECTIONS {
            connection.end(direction, &mut |link, event| {
                sessions.event(link, &event, context, now);
            });
        }
        sessions.closed(&connection.link);
        for socket in connection.sockets.into_iter().flatten() {
            self.by_socket.remove(&socket.key);
            match left {
                None => context.machine.forget_connection(socket.key, socket.uid),
                Some(reason) => {
                    let requests_at = match reason {
                        Left::NotMcp => socket.report.requests_at,
                        Left::NotHttp | Left::Upgraded | Left::Ambiguous => NO_REQUESTS,
                    };
                    let left = LeftAlone {
                        requests_at,
                        requests: socket.report.requests.max(1),
                        ..LeftAlone::default()
                    };
                    context
                        .machine
                        .leave_connection(socket.key, left, socket.uid);
                }
            }
        }
    }

    /// Leaves a socket alone because its other end is enough.
    fn drop_socket(
        &mut self,
        number: ConnectionNumber,
        key: EndpointKey,
        context: &mut Context<'_>,
    ) {
        let Some(connection) = self.by_number.get_mut(&number) else {
            return;
        };
        for slot in &mut connection.sockets {
            if let Some(socket) = slot.take_if(|socket| socket.key == key) {
                self.by_socket.remove(&key);
                let left = LeftAlone {
                    requests_at: NO_REQUESTS,
                    ..LeftAlone::default()
                };
                context.machine.leave_connection(key, left, socket.uid);
            }
        }
    }
}

/// Requests the process at the other end of a connection, once, if it is unknown and the connection carries MCP.
fn seek_owner(number: ConnectionNumber, connection: &mut Connection, context: &mut Context<'_>) {
    if !connection.link.is_mcp || connection.is_sought {
        return;
    }
    connection.is_sought = true;
    if let Some(socket) = connection.sought(number) {
        context.machine.seek_owner(socket);
    }
}
