//! All known streams.

use std::collections::{BTreeSet, HashMap};

use mcpinspect_common::{End, EndpointKey, EndpointKind, EndpointReport};
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::{BlindMechanism, BootTime, Direction};

use super::capacity;
use super::captured::Captured;
use super::flow::{Flow, SessionIndex};
use super::peers::Peers;
use super::sampling::Sampling;
use super::shares::{NOBODY_KNOWN, Shares, Uid, Worth};
use super::sniff_buffer::{Prefix, SniffBuffer};
use super::stream::{Reason, Skipped, Stream, StreamState};
use crate::capture::Origin;

/// The streams by their names: the endpoints that they are read at.
///
/// Every change of a stream's state goes through here. So `buffered` is always the sum of all sniff
/// buffers, `in_session` names the directions of sessions, `sampled` the streams that are sampled, and `shares`
/// has each stream once: with a rank, unless it is in a session.
#[derive(Debug)]
pub struct StreamTable {
    streams: HashMap<EndpointKey, Stream>,
    peers: Peers,
    buffered: usize,
    in_session: BTreeSet<EndpointKey>,
    sampled: BTreeSet<EndpointKey>,
    shares: Shares<EndpointKey>,
}

impl Default for StreamTable {
    fn default() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }
}

/// What was retained of a stream that became part of a session.
#[derive(Debug)]
pub struct RetainedStream {
    /// What the reader's end saw.
    pub read: Prefix,
    /// The process seen there.
    pub reader: Option<u32>,
    /// Whether the stream was in use before the daemon started.
    pub joined: bool,
    /// What passed before the stream was followed.
    pub skipped: Option<Skipped>,
    /// Where and when its reader saw the end.
    pub ended: Option<Origin>,
    /// What to report about it.
    pub suspicion: Option<(BlindMechanism, u32)>,
}

impl StreamTable {
    /// A table that holds up to `per_user` streams of one user, and `total` of all users.
    pub fn new(per_user: usize, total: usize) -> Self {
        Self {
            streams: HashMap::new(),
            peers: Peers::default(),
            buffered: 0,
            in_session: BTreeSet::new(),
            sampled: BTreeSet::new(),
            shares: Shares::new(per_user, total),
        }
    }

    /// Which sockets are connected.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Which sockets are connected, mutably.
    pub fn peers_mut(&mut self) -> &mut Peers {
        &mut self.peers
    }

    /// Notes an endpoint that was in use before the daemon started, with its peer.
    pub fn join(&mut self, report: EndpointReport) {
        let Some(key) = self.peers.learn(report) else {
            return;
        };
        for key in [Some(key), self.peers.of(key)].into_iter().flatten() {
            self.ensure(key).joined = true;
        }
    }

    /// A stream.
    pub fn get(&self, key: EndpointKey) -> Option<&Stream> {
        self.streams.get(&key)
    }

    /// One direction of a session, if the stream is one.
    pub fn flow(&self, key: EndpointKey) -> Option<&Flow> {
        self.get(key)?.flow()
    }

    /// One direction of a session, if the stream is one.
    pub fn flow_mut(&mut self, key: EndpointKey) -> Option<&mut Flow> {
        match &mut self.streams.get_mut(&key)?.state {
            StreamState::InSession(flow) => Some(flow),
            StreamState::Undecided(_) | StreamState::Ignored(_) => None,
        }
    }

    /// All directions of sessions.
    pub fn flows(&self) -> impl Iterator<Item = (EndpointKey, &Flow)> {
        self.in_session
            .iter()
            .filter_map(|key| Some((*key, self.flow(*key)?)))
    }

    /// The streams of all directions of sessions for which `wanted` holds.
    pub fn flows_where(&self, wanted: impl Fn(&Flow) -> bool) -> Vec<EndpointKey> {
        self.flows()
            .filter(|(_, flow)| wanted(flow))
            .map(|(key, _)| key)
            .collect()
    }

    /// Whether a stream is known and may become part of a session.
    pub fn is_undecided(&self, key: EndpointKey) -> bool {
        self.get(key)
            .is_some_and(|stream| matches!(stream.state, StreamState::Undecided(_)))
    }

    /// Whether a stream is not followed, for this reason.
    pub fn is_ignored(&self, key: EndpointKey, reason: Reason) -> bool {
        self.get(key).is_some_and(
            |stream| matches!(stream.state, StreamState::Ignored(why) if why == reason),
        )
    }

    /// The process last seen at an end of a stream.
    pub fn last_at(&self, key: EndpointKey, end: End) -> Option<u32> {
        self.get(key)?.last_at(end)
    }

    /// The memory that all sniff buffers take, in bytes.
    pub fn buffered(&self) -> usize {
        self.buffered
    }

    /// Makes a stream known, if it is not yet.
    pub fn ensure(&mut self, key: EndpointKey) -> &mut Stream {
        let written_at = self.peers.written_at(key);
        let shares = &mut self.shares;
        let stream = self.streams.entry(key).or_insert_with(|| {
            let mut stream = Stream::new(written_at);
            stream.rank = Some(shares.add(stream.owner, Worth::Undecided, key));
            stream
        });
        if stream.written_at.is_none() {
            stream.written_at = written_at;
        }
        stream
    }

    /// Makes a stream known that a program of `user` was started on.
    pub fn ensure_of(&mut self, key: EndpointKey, user: Uid) {
        let stream = self.ensure(key);
        if stream.owner != NOBODY_KNOWN || user == NOBODY_KNOWN {
            return;
        }
        let worth = match stream.state {
            StreamState::Ignored(_) => Worth::Ignored,
            StreamState::Undecided(_) | StreamState::InSession(_) => Worth::Undecided,
        };
        let (before, in_session) = (stream.rank.take(), stream.flow().is_some());
        stream.owner = user;
        self.shares.remove(NOBODY_KNOWN, before);
        let rank = self.shares.add(user, worth, key);
        if in_session {
            self.shares.keep(user, rank);
        } else if let Some(stream) = self.streams.get_mut(&key) {
            stream.rank = Some(rank);
        }
    }

    /// The user whose program was the first on a stream.
    pub fn owner(&self, key: EndpointKey) -> Uid {
        self.get(key).map_or(NOBODY_KNOWN, |stream| stream.owner)
    }

    /// The user who has to lose a stream after `user` got one, and that stream; `None` while there
    /// is room.
    pub fn to_evict(&self, user: Uid) -> Option<(Uid, EndpointKey)> {
        let over = self.shares.over(user)?;
        Some((over, self.next_to_evict(over)?))
    }

    /// The stream of a user to evict next; `None` if all are in sessions.
    pub fn next_to_evict(&self, user: Uid) -> Option<EndpointKey> {
        self.shares.next_to_evict(user)
    }

    /// Keeps a stream that cannot be evicted.
    pub fn keep(&mut self, key: EndpointKey) {
        if let Some(stream) = self.streams.get_mut(&key)
            && let Some(rank) = stream.rank.take()
        {
            self.shares.keep(stream.owner, rank);
        }
    }

    /// Whether a stream is known and may become part of a session.
    pub fn may_join(&self, key: EndpointKey) -> bool {
        self.get(key).is_some_and(Stream::may_join)
    }

    /// A stream, to change what does not concern its state.
    pub fn get_mut(&mut self, key: EndpointKey) -> Option<&mut Stream> {
        self.streams.get_mut(&key)
    }

    /// Leaves out the start of an undecided stream if none of it is retained yet.
    pub fn skip(&mut self, key: EndpointKey, skipped: Skipped) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.skipped = Some(skipped);
        }
    }

    /// Notes what to report about a stream once it is part of a session. Only the first note counts.
    pub fn suspect(&mut self, key: EndpointKey, reason: BlindMechanism, pid: u32) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.suspicion.get_or_insert((reason, pid));
        }
    }

    /// Samples an ignored stream from time to time.
    pub fn sample(&mut self, key: EndpointKey, sampling: Sampling) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.sampling = Some(sampling);
            self.sampled.insert(key);
        }
    }

    /// The ignored streams due for another sample.
    pub fn samples_due(&self, now: BootTime) -> Vec<EndpointKey> {
        let is_due = |key: &&EndpointKey| {
            self.get(**key)
                .and_then(|stream| stream.sampling.as_ref())
                .is_some_and(|sampling| sampling.is_due(now))
        };
        self.sampled.iter().filter(is_due).copied().collect()
    }

    /// Follows an ignored stream again, from a position on.
    pub fn resume(&mut self, key: EndpointKey, skipped: Skipped) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        if !matches!(stream.state, StreamState::Ignored(_)) {
            return;
        }
        stream.state = StreamState::Undecided(SniffBuffer::default());
        stream.skipped = Some(skipped);
        stream.joined = true;
        stream.sampling = None;
        self.sampled.remove(&key);
        if let Some(rank) = stream.rank.take() {
            self.shares.keep(stream.owner, rank);
        }
        stream.rank = Some(self.shares.spare(stream.owner, Worth::Undecided, key));
    }

    /// Notes that the writer's count of a stream is too high by `bytes`.
    pub fn correct_count(&mut self, key: EndpointKey, bytes: u64) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.counted_twice = bytes;
        }
    }

    /// Keeps bytes of an undecided stream. Returns what its start shows now, if that was worth
    /// judging again.
    pub fn sniff(&mut self, captured: &Captured<'_>) -> Option<Evidence> {
        let Captured {
            key,
            end,
            ref segment,
            origin,
        } = *captured;
        let stream = self.streams.get_mut(&key)?;
        let from = stream.skipped.map_or(0, |skipped| skipped.to);
        let left_out = from.saturating_sub(segment.position);
        let left_out = usize::try_from(left_out).unwrap_or(usize::MAX);
        let rest = segment.as_bytes()?.get(left_out..);
        let bytes = rest.filter(|rest| !rest.is_empty())?;
        let position = segment.position.max(from);
        let StreamState::Undecided(buffer) = &mut stream.state else {
            return None;
        };
        let before = buffer.memory();
        let evidence = buffer.push(from, end, position, bytes, origin.time);
        self.buffered += buffer.memory() - before;
        evidence
    }

    /// Notes that an undecided stream needs more than the budget. Returns whether that is new.
    pub fn extend(&mut self, key: EndpointKey) -> bool {
        match self.streams.get_mut(&key).map(|stream| &mut stream.state) {
            Some(StreamState::Undecided(buffer)) => buffer.extend(),
            _ => false,
        }
    }

    /// How many bytes of an undecided stream were seen.
    pub fn sniffed(&self, key: EndpointKey) -> usize {
        match self.get(key).map(|stream| &stream.state) {
            Some(StreamState::Undecided(buffer)) => buffer.length(),
            _ => 0,
        }
    }

    /// Whether an undecided stream begins with something that cannot begin a message. One that was already
    /// in use may begin in the middle of one.
    pub fn begins_as_text(&self, key: EndpointKey) -> bool {
        let Some(stream) = self.get(key) else {
            return false;
        };
        match &stream.state {
            StreamState::Undecided(buffer) => !stream.joined && buffer.begins_as_text(),
            StreamState::InSession(_) | StreamState::Ignored(_) => false,
        }
    }

    /// The undecided stream with the largest buffer, and its size.
    pub fn largest_buffer(&self) -> Option<(usize, EndpointKey)> {
        self.streams
            .iter()
            .filter_map(|(key, stream)| match &stream.state {
                StreamState::Undecided(buffer) => Some((buffer.memory(), *key)),
                StreamState::InSession(_) | StreamState::Ignored(_) => None,
            })
            .max()
            .filter(|(bytes, _)| *bytes > 0)
    }

    /// Makes an undecided stream one direction of a session. Returns what was retained of it; `None` if
    /// it is not undecided.
    pub fn bind(
        &mut self,
        key: EndpointKey,
        session: SessionIndex,
        direction: Direction,
    ) -> Option<RetainedStream> {
        let stream = self.ensure(key);
        let StreamState::Undecided(buffer) = &mut stream.state else {
            return None;
        };
        let freed = buffer.memory();
        let [read, written] = std::mem::take(buffer).into_ends();
        let retained = RetainedStream {
            read,
            reader: stream.last_at(End::Reader),
            joined: stream.joined,
            skipped: stream.skipped.take(),
            ended: stream.ended.take(),
            suspicion: stream.suspicion.take(),
        };
        stream.state = StreamState::InSession(Box::new(Flow::new(session, direction, written)));
        self.buffered -= freed;
        self.in_session.insert(key);
        self.keep(key);
        Some(retained)
    }

    /// Stops following a stream. It stays known, so that it is not mistaken for a new one.
    pub fn ignore(&mut self, key: EndpointKey, reason: Reason) {
        let Some(stream) = self.streams.get_mut(&key) else {
            return;
        };
        if let StreamState::Undecided(buffer) = &stream.state {
            self.buffered -= buffer.memory();
        }
        stream.state = StreamState::Ignored(reason);
        stream.sampling = None;
        self.sampled.remove(&key);
        if let Some(rank) = stream.rank.take() {
            self.shares.keep(stream.owner, rank);
        }
        stream.rank = Some(self.shares.spare(stream.owner, Worth::Ignored, key));
        self.in_session.remove(&key);
    }

    /// Notes which streams no process holds now. Returns those that were also unheld at the
    /// last call and belong to no session: a process may come and go before its records
    /// arrive, so a stream has to be unheld twice.
    pub fn unheld_twice(&mut self, is_held: impl Fn(EndpointKey) -> bool) -> Vec<EndpointKey> {
        let mut dead = Vec::new();
        for (key, stream) in &mut self.streams {
            let unheld = !is_held(*key) && stream.written_at.is_none_or(|key| !is_held(key));
            let was_unheld = std::mem::replace(&mut stream.unheld, unheld);
            if unheld && was_unheld && stream.flow().is_none() {
                dead.push(*key);
            }
        }
        dead
    }

    /// Forgets a stream.
    pub fn forget(&mut self, key: EndpointKey) {
        self.ignore(key, Reason::Over);
        if let Some(stream) = self.streams.remove(&key) {
            self.shares.remove(stream.owner, stream.rank);
        }
        if EndpointKind::from_u32(key.kind) == Some(EndpointKind::UnixSocket) {
            self.peers.forget(key);
        }
    }

    /// Whether no stream is known.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.peers.is_empty()
    }

    /// Frees spare capacity.
    pub fn shrink(&mut self) {
        capacity::shrink(&mut self.streams);
        self.peers.shrink();
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Segment;

    use super::*;

    fn pipe(ino: u64) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 15,
            kind: EndpointKind::Pipe as u32,
        }
    }

    fn socket(ino: u64) -> EndpointKey {
        EndpointKey {
            ino,
            dev: 8,
            kind: EndpointKind::UnixSocket as u32,
        }
    }

    fn captured(ino: u64, end: End, position: u64, bytes: &[u8], time: u64) -> Captured<'_> {
        Captured {
            key: pipe(ino),
            end,
            segment: Segment::new(position, bytes),
            origin: Origin {
                tgid: 1,
                time: BootTime(time),
            },
        }
    }

    /// A table whose pipe 1 has five bytes retained at each end.
    fn sniffed() -> StreamTable {
        let mut streams = StreamTable::default();
        streams.ensure(pipe(1)).last_seen = [Some(10), Some(20)];
        for end in [End::Reader, End::Writer] {
            streams.sniff(&captured(1, end, 0, b"hello", 3));
        }
        streams
    }

    #[test]
    fn buffered_bytes_are_the_sum_of_all_buffers() {
        let mut streams = sniffed();
        streams.ensure(pipe(2));
        streams.sniff(&captured(2, End::Reader, 0, b"x", 4));
        // Each piece has a time and an end as well.
        let piece = |length| length + 2 * size_of::<u64>();
        let of_both = 2 * piece(5);
        assert_eq!(streams.buffered(), of_both + piece(1));
        assert_eq!(streams.largest_buffer(), Some((of_both, pipe(1))));
        streams.bind(pipe(1), 0, Direction::ClientToServer);
        assert_eq!(streams.buffered(), piece(1));
        streams.sniff(&captured(1, End::Reader, 5, b"in session", 5));
        assert_eq!(streams.buffered(), piece(1));
        streams.ignore(pipe(2), Reason::NotMcp);
        streams.ignore(pipe(2), Reason::NotMcp);
        assert_eq!(streams.buffered(), 0);
        assert_eq!(streams.largest_buffer(), None);
    }

    #[test]
    fn a_forgotten_stream_frees_its_buffer() {
        let mut streams = sniffed();
        streams.forget(pipe(1));
        assert_eq!(streams.buffered(), 0);
        assert!(streams.is_empty());
    }

    #[test]
    fn an_undecided_stream_alone_becomes_part_of_a_session() {
        let mut streams = sniffed();
        let retained = streams
            .bind(pipe(1), 7, Direction::ServerToClient)
            .expect("undecided");
        assert_eq!(
            retained.read.pieces().next(),
            Some((0, &b"hello"[..], BootTime(3)))
        );
        assert_eq!((retained.reader, retained.joined), (Some(10), false));
        let flow = streams.flow(pipe(1)).expect("in a session");
        assert_eq!(
            (flow.session(), flow.direction()),
            (7, Direction::ServerToClient)
        );
        assert!(
            streams
                .bind(pipe(1), 8, Direction::ServerToClient)
                .is_none()
        );
        streams.ensure(pipe(2));
        streams.ignore(pipe(2), Reason::NotMcp);
        assert!(
            streams
                .bind(pipe(2), 8, Direction::ServerToClient)
                .is_none()
        );
        assert_eq!(streams.flows_where(|_| true), [pipe(1)]);
    }

    #[test]
    fn a_stream_is_dead_when_it_was_held_by_none_twice_and_is_in_no_session() {
        let mut streams = sniffed();
        streams.ensure(pipe(2));
        streams.bind(pipe(2), 0, Direction::ClientToServer);
        assert_eq!(streams.unheld_twice(|_| false), []);
        assert_eq!(streams.unheld_twice(|key| key == pipe(1)), [], "held again");
        assert_eq!(streams.unheld_twice(|_| false), []);
        assert_eq!(streams.unheld_twice(|_| false), [pipe(1)]);
    }

    #[test]
    fn a_socket_is_held_while_its_peer_is() {
        let mut streams = StreamTable::default();
        let report = EndpointReport {
            key: socket(1),
            peer_ino: 2,
            ..EndpointReport::default()
        };
        streams.join(report);
        assert!(
            [socket(1), socket(2)]
                .into_iter()
                .all(|key| streams.get(key).is_some_and(|stream| stream.joined))
        );
        streams.unheld_twice(|key| key == socket(2));
        assert_eq!(streams.unheld_twice(|key| key == socket(2)), []);
        streams.unheld_twice(|_| false);
        let mut dead = streams.unheld_twice(|_| false);
        dead.sort();
        assert_eq!(dead, [socket(1), socket(2)]);
        dead.into_iter().for_each(|key| streams.forget(key));
        assert!(streams.is_empty());
    }

    #[test]
    fn a_sockets_writing_end_is_filled_in_when_its_peer_becomes_known() {
        let mut streams = StreamTable::default();
        assert_eq!(streams.ensure(socket(1)).written_at, None);
        let report = EndpointReport {
            key: socket(1),
            peer_ino: 2,
            ..EndpointReport::default()
        };
        streams.peers_mut().learn(report);
        assert_eq!(streams.ensure(socket(1)).written_at, Some(socket(2)));
    }
}
