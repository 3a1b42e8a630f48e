//! A session's streams: their bytes in order, who is at the ends, and telling the engine.

use std::sync::Arc;

use mcpinspect_common::{End, EndpointKey};

use super::environment::Environment;
use super::session::Waiting;
use super::stream::{Fate, Flow, SessionIndex, Stream};
use super::tracker::Tracker;
use crate::capture::Origin;
use crate::model::InputSink;
use crate::model::{Direction, Input, Pid, SessionId, SessionStart, Timestamp};
use crate::process::ProcessInfo;
use crate::wire::comparison::{Compared, EndComparison};
use crate::wire::reassembly::{Piece, Reassembly};

/// Nanoseconds that a session waits for its client to show itself before it is told of without.
const CLIENT_PATIENCE: u64 = 100_000_000;
/// Bytes that wait for that at most.
const WAITING_MAX: usize = 1 << 20;

impl<E: Environment> Tracker<E> {
    /// Binds a stream to a session, and hands on what was kept of it.
    pub(super) fn carry(
        &mut self,
        index: SessionIndex,
        key: EndpointKey,
        direction: Direction,
        feed: &mut impl InputSink,
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
            ends: None,
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
        self.compare_ends_of(key);
        self.watch(key, u64::MAX, self.limit(key, End::Writer));
        for (position, bytes, time) in kept.pieces() {
            let origin = Origin {
                tgid: reader.unwrap_or(0),
                time,
            };
            self.deliver(key, position, bytes, origin, feed);
        }
    }

    /// Puts a piece of a carried stream in place, and hands on what is in order.
    pub(super) fn deliver(
        &mut self,
        key: EndpointKey,
        position: u64,
        bytes: &[u8],
        origin: Origin,
        feed: &mut impl InputSink,
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
        self.note_parties(index, direction, source, origin, feed);
        if !self.is_open(index, origin.time, feed) {
            return self.wait(index, key, position, bytes, origin);
        }
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
        let time = self.clock.at(origin.time);
        let mut say = |said: Compared<'_>| {
            feed.input(input_of(&session.id, direction, said, "ring_full", time));
        };
        let Flow {
            reassembly, ends, ..
        } = flow;
        reassembly.push(position, bytes, origin.time, &mut |piece| {
            pass_on(ends, piece, origin.time, &mut say);
        });
        if first && flow.reassembly.next() > 0 {
            // The end that is used is seen: the other one need not be shipped as well, but to compare.
            flow.fallback = Default::default();
            let [reader, writer] = [End::Reader, End::Writer].map(|end| self.limit(key, end));
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
        feed: &mut impl InputSink,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let Some(session) = self.sessions.get(&flow.session) else {
            return;
        };
        if !session.opened {
            return;
        }
        let moment = self.clock.at(time);
        let direction = flow.direction;
        let mut say = |said: Compared<'_>| {
            feed.input(input_of(&session.id, direction, said, reason, moment));
        };
        for piece in &pieces {
            pass_on(&mut flow.ends, piece.borrow(), time, &mut say);
        }
    }

    /// Learns from a piece who is at the ends, and tells the engine where that is news.
    pub(super) fn note_parties(
        &mut self,
        index: SessionIndex,
        direction: Direction,
        end: End,
        origin: Origin,
        feed: &mut impl InputSink,
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
        let changed = origin.tgid != 0 && *party != Some(origin.tgid);
        if changed {
            *party = Some(origin.tgid);
        }
        if session.opened && changed {
            // Who takes over keeps the session from ending with who is gone.
            session.closing_since = None;
            feed.input(Input::PartiesChanged {
                session: &session.id,
                server_pid: session.server.map(Pid),
                client_pid: session.client.map(Pid),
            });
        }
    }

    /// Whether the engine knows of a session. It is told as soon as the client is known: one that
    /// wrote before its server's program was registered shows itself when it reads the answer.
    fn is_open(&mut self, index: SessionIndex, now: u64, feed: &mut impl InputSink) -> bool {
        let Some(session) = self.sessions.get(&index) else {
            return false;
        };
        if session.opened {
            return true;
        }
        let since = session
            .waiting
            .first()
            .map_or(now, |first| first.origin.time);
        let waiting: usize = session.waiting.iter().map(|piece| piece.bytes.len()).sum();
        let out_of_patience = now.saturating_sub(since) > CLIENT_PATIENCE || waiting > WAITING_MAX;
        let parties = self.parties(index);
        if parties.client.is_none() && !out_of_patience {
            return false;
        }
        self.open(index, parties, now, feed);
        true
    }

    fn wait(
        &mut self,
        index: SessionIndex,
        key: EndpointKey,
        position: u64,
        bytes: &[u8],
        origin: Origin,
    ) {
        if let Some(session) = self.sessions.get_mut(&index) {
            session.waiting.push(Waiting {
                key,
                position,
                bytes: bytes.to_vec(),
                origin,
            });
        }
    }

    /// Tells the engine of the sessions whose client has not shown itself for long enough.
    pub(super) fn open_waiting(&mut self, now: u64, feed: &mut impl InputSink) {
        let waiting: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.waiting.is_empty())
            .map(|(index, _)| *index)
            .collect();
        for index in waiting {
            self.is_open(index, now, feed);
        }
    }

    /// Tells the engine of a session whoever its client is, if there is anything to tell of it.
    pub(super) fn open_at_last(
        &mut self,
        index: SessionIndex,
        now: u64,
        feed: &mut impl InputSink,
    ) {
        let waits = self
            .sessions
            .get(&index)
            .is_some_and(|session| !session.waiting.is_empty());
        if waits {
            let parties = self.parties(index);
            self.open(index, parties, now, feed);
        }
    }

    /// Who is at the two ends of a session, as far as that is known.
    fn parties(&mut self, index: SessionIndex) -> Parties {
        let Some(session) = self.sessions.get(&index) else {
            return Parties::default();
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
        let written_at = session
            .to_server
            .and_then(|key| self.streams.get(&key)?.written_at);
        let server_info = server
            .and_then(|pid| self.environment.describe(pid))
            .or(remembered);
        // A client that wrote before its server's program was known has not been seen; it is the
        // nearest ancestor that holds the other end.
        let client = client.or_else(|| {
            let written_at = written_at?;
            server_info
                .as_ref()?
                .ancestors()
                .iter()
                .map(|ancestor| ancestor.pid.0)
                .find(|pid| self.environment.holds(*pid, written_at, End::Writer))
        });
        Parties {
            server,
            server_info,
            client,
        }
    }

    /// Tells the engine of a session, and hands on what waited for that.
    fn open(
        &mut self,
        index: SessionIndex,
        parties: Parties,
        time: u64,
        feed: &mut impl InputSink,
    ) {
        let Parties {
            server,
            server_info,
            client,
        } = parties;
        let client_info = client.and_then(|pid| self.environment.describe(pid));
        let identity = self.environment.identify(server_info.as_deref(), client);
        let Some(session) = self.sessions.get_mut(&index) else {
            return;
        };
        session.server = server;
        session.client = client;
        session.opened = true;
        let waiting = std::mem::take(&mut session.waiting);
        let time = waiting.first().map_or(time, |first| first.origin.time);
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
        for piece in waiting {
            self.deliver(piece.key, piece.position, &piece.bytes, piece.origin, feed);
        }
        let Some(session) = self.sessions.get(&index) else {
            return;
        };
        for (key, direction) in session.streams() {
            let ended = self
                .streams
                .get(&key)
                .is_some_and(|stream| matches!(&stream.fate, Fate::Carried(flow) if flow.ended));
            if ended {
                feed.input(Input::EndOfStream {
                    session: &session.id,
                    direction,
                    time: self.clock.at(time),
                });
            }
        }
    }

    pub(super) fn end_of_stream(
        &mut self,
        key: EndpointKey,
        origin: Origin,
        feed: &mut impl InputSink,
    ) {
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get(&key)
        else {
            return;
        };
        let (index, direction) = (flow.session, flow.direction);
        self.ends(key, origin.time, feed, |ends, mut say| {
            ends.finish(&mut say)
        });
        let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        else {
            return;
        };
        let again = std::mem::replace(&mut flow.ended, true);
        let Some(session) = self.sessions.get_mut(&index) else {
            return;
        };
        if session.opened && !again {
            let time = self.clock.at(origin.time);
            feed.input(Input::EndOfStream {
                session: &session.id,
                direction,
                time,
            });
        }
        session.closing(
            origin.time,
            match direction {
                Direction::ClientToServer => "client_closed",
                Direction::ServerToClient => "server_closed",
            },
        );
    }

    /// Goes over to the writer's end of a stream whose reader cannot be seen, with what was kept of
    /// it. Gives whether that changed anything.
    pub(super) fn use_writer(
        &mut self,
        key: EndpointKey,
        now: u64,
        feed: &mut impl InputSink,
    ) -> bool {
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
        // What was read is all that there is to come of it.
        self.ends(key, now, feed, |ends, mut say| ends.finish(&mut say));
        if let Some(Stream {
            fate: Fate::Carried(flow),
            ..
        }) = self.streams.get_mut(&key)
        {
            flow.ends = None;
        }
        self.watch(key, 0, u64::MAX);
        for (position, bytes, time) in kept.pieces() {
            self.deliver(key, position, bytes, Origin { tgid, time }, feed);
        }
        true
    }
}

/// Who talks in a session.
#[derive(Default)]
struct Parties {
    server: Option<u32>,
    server_info: Option<Arc<ProcessInfo>>,
    client: Option<u32>,
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

/// Hands on what comes out of the order of a stream's source, compared where that is done.
fn pass_on(
    ends: &mut Option<Box<EndComparison>>,
    piece: Piece<'_>,
    now: u64,
    say: &mut impl FnMut(Compared<'_>),
) {
    match ends {
        Some(ends) => ends.read(piece, now, say),
        None => say(Compared::Piece(piece)),
    }
}

pub(super) fn input_of<'a>(
    session: &'a SessionId,
    direction: Direction,
    said: Compared<'a>,
    reason: &'static str,
    time: Timestamp,
) -> Input<'a> {
    let piece = match said {
        Compared::Piece(piece) => piece,
        Compared::Difference {
            position,
            length,
            read,
            written,
        } => {
            return Input::EndsDisagree {
                session,
                direction,
                position,
                bytes: length,
                read,
                written,
                time,
            };
        }
    };
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
