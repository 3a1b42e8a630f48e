//! Two streams that belong together, and the parties at their ends.

use std::time::Duration;

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::model::{BlindMechanism, BootTime, Direction, EndReason, SessionId};

use super::captured::Captured;
use super::reorder_buffer::ReorderBuffer;
use super::shares::Uid;

/// What waits for a session to be announced, in order of arrival. `bytes` is always the sum of their
/// lengths.
#[derive(Debug, Default)]
pub struct Pending {
    segments: Vec<Captured<'static>>,
    bytes: usize,
}

impl Pending {
    /// Adds a segment.
    pub fn push(&mut self, captured: Captured<'static>) {
        self.bytes += captured.segment.content.memory();
        self.segments.push(captured);
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// When the first segment moved; `None` if nothing waits.
    pub fn since(&self) -> Option<BootTime> {
        self.segments.first().map(|first| first.origin.time)
    }

    /// The memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes + self.segments.capacity() * size_of::<Captured<'_>>()
    }

    /// The segments.
    pub fn into_segments(self) -> Vec<Captured<'static>> {
        self.segments
    }
}

/// Since when a session looks over, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// When that showed.
    pub since: BootTime,
    /// Why.
    pub reason: EndReason,
}

/// An open session.
#[derive(Debug)]
pub struct TrackedSession {
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
    /// Whether it has been announced.
    pub announced: bool,
    /// What came before it was announced.
    pub pending: Pending,
    /// Events that wait for earlier ones, after it was announced.
    pub reordering: ReorderBuffer,
    /// What to report about its streams once it is announced: why, and which process.
    pub suspicions: Vec<(BlindMechanism, u32)>,
    /// Whether it was open before the daemon started.
    pub joined: bool,
    /// The user whose program was the first on its streams.
    pub owner: Uid,
    /// When it last moved a byte.
    pub last_active: BootTime,
    /// Set while it looks over. It is over when no process is left at the server's side.
    pub closing: Option<Closing>,
}

impl TrackedSession {
    /// A session without any known stream yet.
    pub fn new(id: SessionId, owner: Uid, now: BootTime) -> Self {
        Self {
            id,
            owner,
            last_active: now,
            to_server: None,
            to_client: None,
            server: None,
            client: None,
            announced: false,
            pending: Pending::default(),
            reordering: ReorderBuffer::default(),
            suspicions: Vec::new(),
            joined: false,
            closing: None,
        }
    }

    /// Its streams with their directions.
    pub fn streams(&self) -> impl Iterator<Item = (EndpointKey, Direction)> + use<> {
        let to_server = self.to_server.map(|key| (key, Direction::ClientToServer));
        let to_client = self.to_client.map(|key| (key, Direction::ServerToClient));
        to_server.into_iter().chain(to_client)
    }

    /// Takes a stream as one of its directions.
    pub fn attach(&mut self, key: EndpointKey, direction: Direction, joined: bool) {
        self.joined |= joined;
        match direction {
            Direction::ClientToServer => self.to_server = Some(key),
            Direction::ServerToClient => self.to_client = Some(key),
        }
    }

    /// Whether a direction is missing.
    pub fn is_incomplete(&self) -> bool {
        self.to_server.is_none() || self.to_client.is_none()
    }

    /// Notes which process is at an end of one of its streams. Returns whether that is new.
    pub fn note_party(&mut self, direction: Direction, end: End, pid: u32) -> bool {
        let is_server = (direction == Direction::ClientToServer) == (end == End::Reader);
        let party = if is_server {
            &mut self.server
        } else {
            &mut self.client
        };
        let changed = pid != 0 && *party != Some(pid);
        if changed {
            *party = Some(pid);
        }
        changed
    }

    /// Notes that it looks over, unless it already did.
    pub fn close(&mut self, since: BootTime, reason: EndReason) {
        self.closing.get_or_insert(Closing { since, reason });
    }

    /// Notes that it continues after all.
    pub fn keep_open(&mut self) {
        self.closing = None;
    }

    /// Whether it has looked over for longer than `timeout`.
    pub fn has_been_closing_for(&self, timeout: Duration, now: BootTime) -> bool {
        self.closing
            .is_some_and(|closing| now.since(closing.since) > timeout)
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_common::EndpointKind;

    use super::*;

    fn session() -> TrackedSession {
        TrackedSession::new(SessionId("s".into()), 0, BootTime::default())
    }

    #[test]
    fn a_session_has_two_directions() {
        let mut session = session();
        let pipe = |ino| EndpointKey {
            ino,
            dev: 15,
            kind: EndpointKind::Pipe as u32,
        };
        session.attach(pipe(2), Direction::ServerToClient, true);
        assert!(session.is_incomplete() && session.joined);
        session.attach(pipe(1), Direction::ClientToServer, false);
        assert!(!session.is_incomplete() && session.joined);
        let streams: Vec<_> = session.streams().collect();
        assert_eq!(
            streams,
            [
                (pipe(1), Direction::ClientToServer),
                (pipe(2), Direction::ServerToClient)
            ]
        );
    }

    #[test]
    fn parties_are_learned_at_either_end_of_either_stream() {
        let mut session = session();
        assert!(session.note_party(Direction::ClientToServer, End::Reader, 10));
        assert!(!session.note_party(Direction::ServerToClient, End::Writer, 10));
        assert!(session.note_party(Direction::ServerToClient, End::Reader, 20));
        assert!(!session.note_party(Direction::ClientToServer, End::Writer, 20));
        assert!(!session.note_party(Direction::ClientToServer, End::Writer, 0));
        assert_eq!((session.server, session.client), (Some(10), Some(20)));
    }

    #[test]
    fn the_first_reason_to_close_counts() {
        let mut session = session();
        assert!(!session.has_been_closing_for(Duration::ZERO, BootTime(100)));
        session.close(BootTime(10), EndReason::ServerExited);
        session.close(BootTime(20), EndReason::ClientExited);
        let closing = Closing {
            since: BootTime(10),
            reason: EndReason::ServerExited,
        };
        assert_eq!(session.closing, Some(closing));
        assert!(session.has_been_closing_for(Duration::from_nanos(5), BootTime(16)));
        assert!(!session.has_been_closing_for(Duration::from_nanos(5), BootTime(15)));
        session.keep_open();
        session.close(BootTime(30), EndReason::ClientExited);
        assert!(!session.has_been_closing_for(Duration::from_nanos(5), BootTime(16)));
    }
}
