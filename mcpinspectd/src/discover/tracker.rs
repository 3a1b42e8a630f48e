//! Takes the probes' records in, finds the sessions in them, and feeds the engine.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport, Operation, Watch};

use super::environment::{Environment, Policy};
use super::ledger::{Account, StreamLedger};
use super::orphans::{Orphan, Orphans};
use super::programs::{Program, Programs};
use super::session::Session;
use super::stream::{Fate, Flow, SessionIndex, Stream};
use crate::capture::{Actor, BootClock, Record};
use crate::engine::{Input, SessionStart};
use crate::mcp::sniff::Evidence;
use crate::model::{Direction, Pid, SessionId};
use crate::wire::reassembly::{Piece, Reassembly};

/// What the tracker gives its findings to.
pub trait Feed {
    /// The next thing that happened.
    fn input(&mut self, input: Input<'_>);

    /// Nothing more is known for now: what was held back for company can go out.
    fn idle(&mut self) {}
}

/// Processes with a hidden way of moving bytes that are remembered.
const BLIND_MAX: usize = 4096;

/// What the tracker is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes per end that are looked at before a stream is given up as something else.
    pub sniff_budget: u64,
    /// Bytes that a stream's beginning may have if it looks like one long message.
    pub max_message: u64,
    /// Bytes of beginnings that are kept at most, over all streams.
    pub beginnings_max: usize,
    /// Sessions that are followed at one time; one that comes above that is left alone.
    pub max_sessions: usize,
}

/// See the module's text.
pub struct Tracker<E> {
    pub(super) environment: E,
    pub(super) settings: Settings,
    clock: BootClock,
    pub(super) streams: HashMap<EndpointKey, Stream>,
    /// For a socket: the one that it is connected to.
    pub(super) peers: HashMap<EndpointKey, EndpointKey>,
    pub(super) programs: Programs,
    pub(super) sessions: HashMap<SessionIndex, Session>,
    next_session: SessionIndex,
    /// Sessions that were left alone because too many were under way.
    refused: u64,
    /// Whether that was said since there was room last.
    refusal_told: bool,
    /// Distinguishes the sessions of this run from those of others.
    run: String,
    pub(super) ended: Vec<StreamLedger>,
    /// The sum over all ended sessions.
    pub(super) closed: Account,
    pub(super) beginnings: usize,
    pub(super) next_sweep: u64,
    /// What was written to sockets whose peer is not known yet.
    orphans: Orphans,
    /// Processes that use a mechanism which does not tell the stream that it concerns.
    blind: HashMap<u32, Operation>,
}

impl<E: Environment> Tracker<E> {
    /// A tracker that knows nothing yet.
    pub fn new(environment: E, settings: Settings, clock: BootClock, now: u64) -> Self {
        Self {
            environment,
            settings,
            run: format!("{:x}", clock.at(now).0 / 1_000_000),
            clock,
            streams: HashMap::new(),
            peers: HashMap::new(),
            programs: Programs::default(),
            sessions: HashMap::new(),
            next_session: 0,
            refused: 0,
            refusal_told: false,
            ended: Vec::new(),
            closed: Account::default(),
            beginnings: 0,
            next_sweep: now.saturating_add(super::ending::SWEEP_INTERVAL),
            orphans: Orphans::default(),
            blind: HashMap::new(),
        }
    }

    /// The machine that it works on.
    pub fn environment(&mut self) -> &mut E {
        &mut self.environment
    }

    /// Sessions under way.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Sessions that were not followed because too many were under way.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes a record in.
    pub fn record(&mut self, actor: Actor, record: Record<'_>, feed: &mut impl Feed) {
        if !matches!(record, Record::Data { .. }) {
            tracing::trace!(?actor, ?record);
        }
        match record {
            Record::Data {
                key,
                end,
                position,
                bytes,
            } => {
                if let Some(stream) = self.stream_of(key, end) {
                    self.data(stream, end, position, bytes, actor, feed);
                } else {
                    self.orphans.keep(key, position, bytes, actor);
                }
            }
            Record::Missing {
                key,
                end,
                position,
                length,
            } => {
                if let Some(stream) = self.stream_of(key, end) {
                    self.missing(stream, end, position, length, actor, feed);
                }
            }
            Record::EndOfStream { key } => self.end_of_stream(key, actor, feed),
            Record::Exec { input, output } => self.exec(actor, input, output, feed),
            Record::Exit => self.exit(actor),
            Record::Registered(report) => {
                self.registered(report);
                self.adopt(feed);
            }
            Record::BlindSpot {
                stream,
                bytes: _,
                operation,
            } => {
                self.blind_spot(stream, operation, actor, feed);
            }
        }
    }

    /// A running program that was found rather than seen starting, and its two streams.
    pub fn found(&mut self, pid: u32, input: Option<EndpointKey>, output: Option<EndpointKey>) {
        let output = output.and_then(|key| match EndpointKind::from_u32(key.kind) {
            Some(EndpointKind::UnixSocket) => self.peers.get(&key).copied(),
            _ => Some(key),
        });
        let info = self.environment.describe(pid);
        self.programs.add(&Program {
            pid,
            input,
            output,
            info,
        });
    }

    /// The stream that `end` of `endpoint` belongs to.
    fn stream_of(&self, endpoint: EndpointKey, end: End) -> Option<EndpointKey> {
        match (end, EndpointKind::from_u32(endpoint.kind)?) {
            (End::Reader, _) | (End::Writer, EndpointKind::Pipe) => Some(endpoint),
            (End::Writer, EndpointKind::UnixSocket) => self.peers.get(&endpoint).copied(),
        }
    }

    /// Notes what an endpoint report says; gives the endpoint, if it is one.
    fn endpoint(&mut self, report: EndpointReport) -> Option<EndpointKey> {
        let key = report.key;
        let kind = EndpointKind::from_u32(key.kind)?;
        if kind == EndpointKind::UnixSocket && report.peer_ino != 0 {
            let peer = EndpointKey {
                ino: report.peer_ino,
                ..key
            };
            self.peers.insert(key, peer);
            self.peers.insert(peer, key);
        }
        Some(key)
    }

    fn ensure(&mut self, key: EndpointKey) -> &mut Stream {
        let written_at = match EndpointKind::from_u32(key.kind) {
            Some(EndpointKind::UnixSocket) => self.peers.get(&key).copied(),
            _ => Some(key),
        };
        let stream = self
            .streams
            .entry(key)
            .or_insert_with(|| Stream::new(written_at));
        if stream.written_at.is_none() {
            stream.written_at = written_at;
        }
        stream
    }

    /// Takes in what was written to sockets whose peers have become known.
    fn adopt(&mut self, feed: &mut impl Feed) {
        for Orphan {
            key,
            position,
            bytes,
            actor,
        } in self.orphans.take()
        {
            match self.stream_of(key, End::Writer) {
                Some(stream) => self.data(stream, End::Writer, position, &bytes, actor, feed),
                None => self.orphans.keep(key, position, &bytes, actor),
            }
        }
    }

    fn registered(&mut self, report: EndpointReport) {
        let Some(key) = self.endpoint(report) else {
            return;
        };
        self.ensure(key).joined = true;
        if let Some(&peer) = self.peers.get(&key) {
            self.ensure(peer).joined = true;
        }
    }

    fn exec(
        &mut self,
        actor: Actor,
        input: EndpointReport,
        output: EndpointReport,
        feed: &mut impl Feed,
    ) {
        // Whatever its process did before, this is another program.
        self.blind.remove(&actor.tgid);
        let input = self.endpoint(input);
        let output = self
            .endpoint(output)
            .and_then(|key| self.stream_of(key, End::Writer));
        for key in [input, output].into_iter().flatten() {
            self.ensure(key);
        }
        // Only a program between two streams can be a server whose both directions are seen; the
        // process table is asked for those alone, while they are there.
        let info = (input.is_some() && output.is_some())
            .then(|| self.environment.describe(actor.tgid))
            .flatten();
        let policy = info
            .as_deref()
            .map_or(Policy::Sniff, |info| self.environment.policy(info));
        self.programs.add(&Program {
            pid: actor.tgid,
            input,
            output,
            info,
        });
        match policy {
            Policy::Sniff => {}
            Policy::Exclude => {
                for key in [input, output].into_iter().flatten() {
                    self.ignore(key);
                }
            }
            Policy::Watch => {
                if let Some(input) = input {
                    self.promote(input, Some(Direction::ClientToServer), feed);
                }
            }
        }
        self.adopt(feed);
    }

    fn exit(&mut self, actor: Actor) {
        for session in self.sessions.values_mut() {
            if session.server == Some(actor.tgid) {
                session.closing(actor.time, "server_exited");
            } else if session.client == Some(actor.tgid) {
                session.closing(actor.time, "client_exited");
            }
        }
    }

    fn data(
        &mut self,
        key: EndpointKey,
        end: End,
        position: u64,
        bytes: &[u8],
        actor: Actor,
        feed: &mut impl Feed,
    ) {
        let stream = self.ensure(key);
        stream.actors[end as usize] = Some(actor.tgid);
        match &mut stream.fate {
            Fate::Ignored => {}
            Fate::Sniffed(beginning) => {
                let before = beginning.memory();
                let judge = beginning.keep(end, position, bytes, actor.time);
                let kept = beginning.memory() - before;
                if judge {
                    beginning.judge();
                }
                self.beginnings += kept;
                if judge {
                    self.decide(key, feed);
                }
                self.bound_beginnings();
            }
            Fate::Carried(flow) if flow.source == end => {
                self.deliver(key, position, bytes, actor, feed);
            }
            Fate::Carried(flow) => {
                if flow.reassembly.next() == 0 && end == End::Writer {
                    flow.fallback.keep(position, bytes, actor.time);
                }
            }
        }
    }

    fn missing(
        &mut self,
        key: EndpointKey,
        end: End,
        position: u64,
        length: u64,
        actor: Actor,
        feed: &mut impl Feed,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        if flow.source == end {
            let mut pieces = Vec::new();
            flow.reassembly
                .missing(position, length, actor.time, &mut |piece| {
                    pieces.push(OwnedPiece::from(piece));
                });
            self.hand_on(key, pieces, "page_not_resident", actor.time, feed);
        }
    }

    /// Acts on what a stream's beginning shows.
    fn decide(&mut self, key: EndpointKey, feed: &mut impl Feed) {
        let Some(Stream {
            fate: Fate::Sniffed(beginning),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        match beginning.evidence {
            Evidence::Mcp { role } => self.promote(key, role, feed),
            Evidence::NotMcp { .. } => {
                if !self.is_output_of_open_input(key) {
                    self.ignore(key);
                }
            }
            Evidence::Undecided {
                json_rpc_like: true,
            } => {
                if !beginning.extended {
                    beginning.extended = true;
                    let limit = self.settings.max_message;
                    self.watch(key, limit, limit);
                }
            }
            Evidence::Undecided {
                json_rpc_like: false,
            } => {
                let spent = beginning.length() as u64 >= self.settings.sniff_budget;
                if spent && !self.is_output_of_open_input(key) {
                    self.ignore(key);
                }
            }
        }
    }

    /// Whether `key` is the output of a program whose input may still turn out to be MCP, or has.
    fn is_output_of_open_input(&self, key: EndpointKey) -> bool {
        self.programs
            .writers(key)
            .filter_map(|program| program.input)
            .any(|input| {
                input != key
                    && self
                        .streams
                        .get(&input)
                        .is_some_and(|stream| match &stream.fate {
                            Fate::Sniffed(beginning) => {
                                !matches!(beginning.evidence, Evidence::NotMcp { .. })
                            }
                            Fate::Carried(_) => true,
                            Fate::Ignored => false,
                        })
            })
    }

    /// Stops watching a stream. It stays known, so that it is not taken for a new one.
    pub(super) fn ignore(&mut self, key: EndpointKey) {
        tracing::trace!(?key, "not watched");
        if let Some(stream) = self.streams.get_mut(&key) {
            if let Fate::Sniffed(beginning) = &stream.fate {
                self.beginnings -= beginning.memory();
            }
            stream.fate = Fate::Ignored;
        }
        self.watch(key, 0, 0);
        // What was only kept because of it.
        let outputs: Vec<_> = self
            .programs
            .readers(key)
            .filter_map(|program| program.output)
            .collect();
        for output in outputs {
            let is_other = self
                .streams
                .get(&output)
                .is_some_and(|stream| matches!(stream.evidence(), Some(Evidence::NotMcp { .. })));
            if is_other && output != key && !self.is_output_of_open_input(output) {
                self.ignore(output);
            }
        }
    }

    /// Gives up the longest beginning while too much is kept.
    fn bound_beginnings(&mut self) {
        while self.beginnings > self.settings.beginnings_max {
            let longest = self
                .streams
                .iter()
                .filter_map(|(key, stream)| match &stream.fate {
                    Fate::Sniffed(beginning) => Some((beginning.memory(), *key)),
                    Fate::Carried(_) | Fate::Ignored => None,
                })
                .max();
            let Some((bytes, key)) = longest.filter(|(bytes, _)| *bytes > 0) else {
                return;
            };
            tracing::debug!(
                ?key,
                bytes,
                "too much kept of undecided streams; this one is given up"
            );
            self.ignore(key);
        }
    }

    /// Sets how far a stream is shipped, by end.
    pub(super) fn watch(&mut self, key: EndpointKey, reader: u64, writer: u64) {
        let written_at = self.streams.get(&key).and_then(|stream| stream.written_at);
        let counted = u64::from(!self.is_ignored(key));
        if written_at == Some(key) {
            let limit = [reader, writer];
            self.environment.watch(key, Watch { limit, counted });
            return;
        }
        // A socket reads one stream and writes the other: each endpoint serves both.
        let reverse = self.peers.get(&key).copied();
        let (own_writes, counts_writes) = reverse.map_or((0, 0), |reverse| {
            let counted = u64::from(!self.is_ignored(reverse));
            (self.limit(reverse, End::Writer), counted)
        });
        let counted = counted | counts_writes;
        let limit = [reader, own_writes];
        self.environment.watch(key, Watch { limit, counted });
        if let Some(peer) = written_at {
            let limit = [self.limit(peer, End::Reader), writer];
            self.environment.watch(peer, Watch { limit, counted });
        }
    }

    /// Whether nothing needs to be known of a stream.
    fn is_ignored(&self, key: EndpointKey) -> bool {
        self.streams
            .get(&key)
            .is_none_or(|stream| matches!(stream.fate, Fate::Ignored))
    }

    /// How far a stream is to be shipped by what has become of it.
    fn limit(&self, key: EndpointKey, end: End) -> u64 {
        match self.streams.get(&key).map(|stream| &stream.fate) {
            None | Some(Fate::Ignored) => 0,
            Some(Fate::Sniffed(beginning)) if beginning.extended => self.settings.max_message,
            Some(Fate::Sniffed(_)) => self.settings.sniff_budget,
            Some(Fate::Carried(flow)) if flow.source == end => u64::MAX,
            Some(Fate::Carried(flow)) if flow.reassembly.next() == 0 => self.settings.sniff_budget,
            Some(Fate::Carried(_)) => 0,
        }
    }

    /// Makes a stream one direction of a session.
    fn promote(&mut self, key: EndpointKey, role: Option<Direction>, feed: &mut impl Feed) {
        let direction = role.unwrap_or_else(|| {
            // Somebody's standard input is the server's side of a wire; else somebody's output.
            let is_input = self.programs.readers(key).next().is_some();
            let is_output = self.programs.writers(key).next().is_some();
            if is_output && !is_input {
                Direction::ServerToClient
            } else {
                Direction::ClientToServer
            }
        });
        let place = match direction {
            Direction::ClientToServer => self.session_of_input(key),
            Direction::ServerToClient => self.session_of_output(key),
        };
        let index = match place {
            Place::In(index) => index,
            Place::Copy => return self.ignore(key),
            Place::New => match self.new_session() {
                Some(index) => index,
                None => return self.leave_alone(key),
            },
        };
        self.carry(index, key, direction, feed);
        self.complete(index, feed);
    }

    /// A session more; `None` where there are as many as may be.
    fn new_session(&mut self) -> Option<SessionIndex> {
        if self.sessions.len() >= self.settings.max_sessions {
            self.refused += 1;
            if !std::mem::replace(&mut self.refusal_told, true) {
                tracing::warn!(
                    sessions = self.sessions.len(),
                    refused = self.refused,
                    "as many sessions as `limits.sessions` allows; new ones are not followed until one ends"
                );
            }
            return None;
        }
        self.refusal_told = false;
        let index = self.next_session;
        self.next_session += 1;
        let id = SessionId(Arc::from(format!("{}-{index}", self.run)));
        self.sessions.insert(index, Session::new(id));
        Some(index)
    }

    /// Follows neither a stream nor the other direction of its programs.
    fn leave_alone(&mut self, key: EndpointKey) {
        let outputs = self.programs.readers(key).filter_map(|p| p.output);
        let inputs = self.programs.writers(key).filter_map(|p| p.input);
        let others: Vec<_> = outputs.chain(inputs).collect();
        self.ignore(key);
        for other in others {
            if self.is_free(other) {
                self.ignore(other);
            }
        }
    }

    /// The session whose server reads `key`: one whose output is known already.
    fn session_of_input(&self, key: EndpointKey) -> Place {
        let outputs: Vec<_> = self
            .programs
            .readers(key)
            .filter_map(|program| program.output)
            .collect();
        let actors = self
            .streams
            .get(&key)
            .map_or([None; 2], |stream| stream.actors);
        let known = self.sessions.iter().find_map(|(index, session)| {
            let open = session.to_server.is_none();
            let by_program = session
                .to_client
                .is_some_and(|output| outputs.contains(&output));
            let by_parties =
                session.server.is_some() && session.server == actors[End::Reader as usize];
            (open && (by_program || by_parties)).then_some(*index)
        });
        known.map_or(Place::New, Place::In)
    }

    /// The session whose server writes `key`.
    fn session_of_output(&self, key: EndpointKey) -> Place {
        let inputs: Vec<_> = self
            .programs
            .writers(key)
            .filter_map(|program| program.input)
            .filter(|input| {
                // A program that reads what a server writes is a filter, and no server.
                self.streams
                    .get(input)
                    .is_none_or(|stream| match &stream.fate {
                        Fate::Carried(flow) => flow.direction == Direction::ClientToServer,
                        Fate::Sniffed(beginning) => {
                            beginning.evidence
                                != Evidence::Mcp {
                                    role: Some(Direction::ServerToClient),
                                }
                        }
                        Fate::Ignored => false,
                    })
            })
            .collect();
        let actors = self
            .streams
            .get(&key)
            .map_or([None; 2], |stream| stream.actors);
        let by_input = self.sessions.iter().find(|(_, session)| {
            session
                .to_server
                .is_some_and(|input| inputs.contains(&input))
        });
        if let Some((index, session)) = by_input {
            return match session.to_client {
                None => Place::In(*index),
                Some(_) => Place::Copy,
            };
        }
        let by_parties = self.sessions.iter().find(|(_, session)| {
            let writer = actors[End::Writer as usize];
            let reader = actors[End::Reader as usize];
            session.to_client.is_none()
                && ((session.server.is_some() && session.server == writer)
                    || (session.client.is_some() && session.client == reader))
        });
        by_parties.map_or(Place::New, |(index, _)| Place::In(*index))
    }

    /// Finds the other direction of a session by the programs between its streams.
    pub(super) fn complete(&mut self, index: SessionIndex, feed: &mut impl Feed) {
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        match (session.to_server, session.to_client) {
            (Some(input), None) => {
                let mut outputs: Vec<_> = self
                    .programs
                    .readers(input)
                    .filter_map(|program| program.output)
                    .filter(|output| self.is_free(*output) && *output != input)
                    .collect();
                outputs.dedup();
                // The client reads what belongs to the session; others read what a filter passes on.
                let client = self
                    .streams
                    .get(&input)
                    .and_then(|s| s.actors[End::Writer as usize]);
                let read_by_client = outputs.iter().copied().find(|output| {
                    client.is_some()
                        && self
                            .streams
                            .get(output)
                            .and_then(|s| s.actors[End::Reader as usize])
                            == client
                });
                let output = match outputs.as_slice() {
                    [only] => Some(*only),
                    _ => read_by_client,
                };
                if let Some(output) = output {
                    self.carry(index, output, Direction::ServerToClient, feed);
                }
            }
            (None, Some(output)) => {
                let input = self
                    .programs
                    .writers(output)
                    .filter_map(|program| program.input)
                    .find(|input| self.is_free(*input) && *input != output);
                if let Some(input) = input {
                    self.carry(index, input, Direction::ClientToServer, feed);
                }
            }
            _ => {}
        }
    }

    /// Whether a stream may become part of a session.
    fn is_free(&self, key: EndpointKey) -> bool {
        self.streams
            .get(&key)
            .is_some_and(|stream| matches!(stream.fate, Fate::Sniffed(_)))
    }

    /// Binds a stream to a session, and hands on what was kept of it.
    fn carry(
        &mut self,
        index: SessionIndex,
        key: EndpointKey,
        direction: Direction,
        feed: &mut impl Feed,
    ) {
        tracing::trace!(
            ?key,
            direction = direction.as_str(),
            session = index,
            "part of a session"
        );
        let stream = self.ensure(key);
        let joined = stream.joined;
        let Fate::Sniffed(beginning) = &mut stream.fate else {
            return;
        };
        let freed = beginning.memory();
        let kept = beginning.take(End::Reader);
        let fallback = beginning.take(End::Writer);
        let reader = stream.actors[End::Reader as usize];
        stream.fate = Fate::Carried(Flow {
            session: index,
            direction,
            reassembly: Reassembly::new(0),
            source: End::Reader,
            fallback,
            ended: false,
            still: (0, 0, 0),
        });
        self.beginnings -= freed;
        if let Some(session) = self.sessions.get_mut(&index) {
            session.joined |= joined;
            match direction {
                Direction::ClientToServer => session.to_server = Some(key),
                Direction::ServerToClient => session.to_client = Some(key),
            }
        }
        self.watch(key, u64::MAX, self.settings.sniff_budget);
        for (position, bytes, time) in kept.pieces() {
            let actor = Actor {
                tgid: reader.unwrap_or(0),
                time,
            };
            self.deliver(key, position, bytes, actor, feed);
        }
    }

    /// Puts a piece of a carried stream in place, and hands on what is in order.
    pub(super) fn deliver(
        &mut self,
        key: EndpointKey,
        position: u64,
        bytes: &[u8],
        actor: Actor,
        feed: &mut impl Feed,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let (index, direction, source) = (flow.session, flow.direction, flow.source);
        let first = flow.reassembly.next() == 0;
        self.note_parties(index, direction, source, actor, feed);
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        let time = self.clock.at(actor.time);
        flow.reassembly
            .push(position, bytes, actor.time, &mut |piece| {
                feed.input(input_of(&session.id, direction, piece, "ring_full", time));
            });
        if first && flow.reassembly.next() > 0 {
            // The end that is used is seen: the other one need not be shipped any more.
            flow.fallback = Default::default();
            let (reader, writer) = match source {
                End::Reader => (u64::MAX, 0),
                End::Writer => (0, u64::MAX),
            };
            self.watch(key, reader, writer);
        }
    }

    /// Hands on pieces that came out otherwise than by a new one going in.
    pub(super) fn hand_on(
        &mut self,
        key: EndpointKey,
        pieces: Vec<OwnedPiece>,
        reason: &'static str,
        time: u64,
        feed: &mut impl Feed,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        let Some(session) = self.sessions.get(&flow.session) else {
            return;
        };
        if !session.opened {
            return;
        }
        let time = self.clock.at(time);
        for piece in &pieces {
            feed.input(input_of(
                &session.id,
                flow.direction,
                piece.borrow(),
                reason,
                time,
            ));
        }
    }

    /// Learns from a piece who is at the ends, and tells the engine of the session when it is new.
    fn note_parties(
        &mut self,
        index: SessionIndex,
        direction: Direction,
        end: End,
        actor: Actor,
        feed: &mut impl Feed,
    ) {
        let Some(session) = self.sessions.get_mut(&index) else {
            return;
        };
        let is_server = (direction == Direction::ClientToServer) == (end == End::Reader);
        let party = if is_server {
            &mut session.server
        } else {
            &mut session.client
        };
        let changed = actor.tgid != 0 && *party != Some(actor.tgid);
        if changed {
            *party = Some(actor.tgid);
        }
        if !session.opened {
            self.open(index, actor.time, feed);
        } else if changed {
            // Who takes over keeps the session from ending with who is gone.
            session.closing_since = None;
            feed.input(Input::PartiesChanged {
                session: &session.id,
                server_pid: session.server.map(Pid),
                client_pid: session.client.map(Pid),
            });
        }
    }

    /// Tells the engine of a session.
    fn open(&mut self, index: SessionIndex, time: u64, feed: &mut impl Feed) {
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        let last_at = |key: Option<EndpointKey>, end: End| {
            let stream = self.streams.get(&key?)?;
            let endpoint = if end == End::Reader {
                key
            } else {
                stream.written_at
            };
            stream.actors[end as usize].or_else(|| {
                let counters = self.environment.counters(endpoint?)?;
                Some(counters.last_tgid[end as usize]).filter(|tgid| *tgid != 0)
            })
        };
        let started = session
            .to_server
            .and_then(|key| self.programs.readers(key).next_back())
            .or_else(|| {
                session
                    .to_client
                    .and_then(|key| self.programs.writers(key).next_back())
            })
            .map(|program| program.pid);
        let server = session
            .server
            .or_else(|| last_at(session.to_client, End::Writer))
            .or(started);
        let client = session
            .client
            .or_else(|| last_at(session.to_server, End::Writer))
            .or_else(|| last_at(session.to_client, End::Reader));

        let remembered = server.and_then(|pid| {
            session
                .streams()
                .find_map(|(key, _)| self.programs.info(key, pid))
        });
        let server_info = server
            .and_then(|pid| self.environment.describe(pid))
            .or(remembered);
        // A client that wrote before its server's program was known has not been seen; it is the
        // nearest ancestor that holds the other end.
        let client = client.or_else(|| {
            let written_at = self.streams.get(&session.to_server?)?.written_at?;
            let ancestors = server_info.as_ref()?.ancestors();
            ancestors
                .iter()
                .map(|ancestor| ancestor.pid.0)
                .find(|pid| self.environment.holds(*pid, written_at, End::Writer))
        });
        let client_info = client.and_then(|pid| self.environment.describe(pid));
        let identity = self.environment.identify(server_info.as_deref(), client);
        let Some(session) = self.sessions.get_mut(&index) else {
            return;
        };
        session.server = server;
        session.client = client;
        session.opened = true;
        feed.input(Input::SessionStarted(SessionStart {
            id: session.id.clone(),
            server: identity,
            server_party: server_info.map(|info| info.to_party()),
            client_party: client_info.map(|info| info.to_party()),
            joined_midstream: session.joined,
            time: self.clock.at(time),
        }));
        // A party that is gone by now still has a number.
        feed.input(Input::PartiesChanged {
            session: &session.id,
            server_pid: session.server.map(Pid),
            client_pid: session.client.map(Pid),
        });
        self.tell_blind_processes(time, feed);
    }

    fn end_of_stream(&mut self, key: EndpointKey, actor: Actor, feed: &mut impl Feed) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let (index, direction) = (flow.session, flow.direction);
        let again = std::mem::replace(&mut flow.ended, true);
        let Some(session) = self.sessions.get_mut(&index) else {
            return;
        };
        if session.opened && !again {
            let time = self.clock.at(actor.time);
            feed.input(Input::EndOfStream {
                session: &session.id,
                direction,
                time,
            });
        }
        session.closing(
            actor.time,
            match direction {
                Direction::ClientToServer => "client_closed",
                Direction::ServerToClient => "server_closed",
            },
        );
    }

    fn blind_spot(
        &mut self,
        stream: Option<(EndpointKey, End)>,
        operation: Operation,
        actor: Actor,
        feed: &mut impl Feed,
    ) {
        let Some((key, end)) = stream else {
            // Which stream it concerns shows only by what is missing.
            if self.blind.len() == BLIND_MAX {
                self.blind.clear();
            }
            self.blind.insert(actor.tgid, operation);
            return self.tell_blind_processes(actor.time, feed);
        };
        let Some(key) = self.stream_of(key, end) else {
            return;
        };
        if end == End::Reader {
            self.use_writer(key, feed);
        }
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        // What was written before the stream was known is to be had at the reader's end alone.
        let covered = flow.source != end && flow.reassembly.next() >= self.counted(key).0;
        self.tell_blind_spot(flow.session, operation.as_str(), actor, covered, feed);
    }

    /// Tells of the sessions whose parties move bytes in a way that hides them.
    fn tell_blind_processes(&self, time: u64, feed: &mut impl Feed) {
        for (index, session) in &self.sessions {
            for tgid in [session.server, session.client].into_iter().flatten() {
                if let Some(operation) = self.blind.get(&tgid) {
                    let actor = Actor { tgid, time };
                    // It does not tell the stream, so nothing vouches for the other end.
                    self.tell_blind_spot(*index, operation.as_str(), actor, false, feed);
                }
            }
        }
    }

    pub(super) fn tell_blind_spot(
        &self,
        index: SessionIndex,
        mechanism: &'static str,
        actor: Actor,
        covered_by_other_end: bool,
        feed: &mut impl Feed,
    ) {
        if let Some(session) = self.sessions.get(&index).filter(|session| session.opened) {
            feed.input(Input::BlindSpot {
                session: &session.id,
                mechanism,
                pid: Pid(actor.tgid),
                covered_by_other_end,
                time: self.clock.at(actor.time),
            });
        }
    }

    /// Goes over to the writer's end of a stream whose reader cannot be seen, with what was kept of
    /// it. Gives whether that changed anything.
    pub(super) fn use_writer(&mut self, key: EndpointKey, feed: &mut impl Feed) -> bool {
        let Some(Stream {
            fate: Fate::Carried(flow),
            actors,
            ..
        }) = self.streams.get_mut(&key)
        else {
            return false;
        };
        if flow.source == End::Writer {
            return false;
        }
        flow.source = End::Writer;
        let kept = std::mem::take(&mut flow.fallback);
        let tgid = actors[End::Writer as usize].unwrap_or(0);
        self.watch(key, 0, u64::MAX);
        for (position, bytes, time) in kept.pieces() {
            self.deliver(key, position, bytes, Actor { tgid, time }, feed);
        }
        true
    }

    /// The moment of a kernel time.
    pub(super) fn moment(&self, boot: u64) -> crate::model::Timestamp {
        self.clock.at(boot)
    }
}

/// Where a stream belongs.
enum Place {
    /// To a session under way, whose other direction is known.
    In(SessionIndex),
    /// To a session that is not known yet.
    New,
    /// Nowhere: it repeats a session's other stream, as a program in a pipeline passes it on.
    Copy,
}

/// A [`Piece`] that was taken out of its stream.
pub(super) enum OwnedPiece {
    Bytes(u64, Vec<u8>),
    Gap(u64, u64),
}

impl From<Piece<'_>> for OwnedPiece {
    fn from(piece: Piece<'_>) -> Self {
        match piece {
            Piece::Bytes { position, bytes } => Self::Bytes(position, bytes.to_vec()),
            Piece::Gap { position, length } => Self::Gap(position, length),
        }
    }
}

impl OwnedPiece {
    fn borrow(&self) -> Piece<'_> {
        match self {
            Self::Bytes(position, bytes) => Piece::Bytes {
                position: *position,
                bytes,
            },
            Self::Gap(position, length) => Piece::Gap {
                position: *position,
                length: *length,
            },
        }
    }
}

fn input_of<'a>(
    session: &'a SessionId,
    direction: Direction,
    piece: Piece<'a>,
    reason: &'static str,
    time: crate::model::Timestamp,
) -> Input<'a> {
    match piece {
        Piece::Bytes { position, bytes } => Input::Bytes {
            session,
            direction,
            position,
            time,
            bytes,
        },
        Piece::Gap { position, length } => Input::Gap {
            session,
            direction,
            position,
            bytes_lost: length,
            reason,
            time,
        },
    }
}
