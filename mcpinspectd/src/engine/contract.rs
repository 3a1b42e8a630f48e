//! What goes into the engine and what comes out.

use crate::event::{Event, Party};
use crate::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use crate::process::ServerIdentity;

/// A session that was recognised.
#[derive(Clone, Debug)]
pub struct SessionStart {
    /// Its name.
    pub id: SessionId,
    /// The server.
    pub server: ServerIdentity,
    /// The server's process, where known.
    pub server_party: Option<Party>,
    /// The client's process, where known.
    pub client_party: Option<Party>,
    /// Whether it was under way already.
    pub joined_midstream: bool,
    /// When it was recognised.
    pub time: Timestamp,
}

/// What happens to sessions, in order.
#[derive(Debug)]
pub enum Input<'a> {
    /// A session begins.
    SessionStarted(SessionStart),
    /// Another process took over one of its sides.
    PartiesChanged {
        /// The session.
        session: &'a SessionId,
        /// Who reads what the client sends.
        server_pid: Option<Pid>,
        /// Who reads what the server sends.
        client_pid: Option<Pid>,
    },
    /// Bytes, in order and contiguous except across a gap.
    Bytes {
        /// The session.
        session: &'a SessionId,
        /// Which way they went.
        direction: Direction,
        /// Position of the first one from the stream's start.
        position: u64,
        /// When they arrived.
        time: Timestamp,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes that are lost.
    Gap {
        /// The session.
        session: &'a SessionId,
        /// Which way they went.
        direction: Direction,
        /// Where they start.
        position: u64,
        /// How many.
        bytes_lost: u64,
        /// Why, such as `ring_full`.
        reason: &'static str,
        /// When that was known.
        time: Timestamp,
    },
    /// A party moves bytes in a way that the probes cannot copy.
    BlindSpot {
        /// The session.
        session: &'a SessionId,
        /// How, such as `splice`.
        mechanism: &'static str,
        /// Who.
        pid: Pid,
        /// Whether the bytes are seen at the other end.
        covered_by_other_end: bool,
        /// When.
        time: Timestamp,
    },
    /// The writer closed its end, and the reader has read everything.
    EndOfStream {
        /// The session.
        session: &'a SessionId,
        /// The direction that ended.
        direction: Direction,
        /// When.
        time: Timestamp,
    },
    /// The session is over.
    SessionEnded {
        /// The session.
        session: &'a SessionId,
        /// Why.
        reason: &'static str,
        /// When.
        time: Timestamp,
    },
}

/// What kind of message a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// A request.
    Request,
    /// A response to one.
    Response,
    /// A notification.
    Notification,
    /// Several in one frame.
    Batch,
    /// None of these.
    Invalid,
}

/// A message as it crossed the wire.
#[derive(Clone, Copy, Debug)]
pub struct MessageSeen<'a> {
    /// When its last byte arrived.
    pub time: Timestamp,
    /// The session.
    pub session_id: &'a SessionId,
    /// The server.
    pub server_id: &'a ServerId,
    /// Which way it went.
    pub direction: Direction,
    /// The server's process.
    pub server_pid: Option<Pid>,
    /// The client's process.
    pub client_pid: Option<Pid>,
    /// What it is.
    pub kind: MessageKind,
    /// Its method, as it stands in the message.
    pub method: Option<&'a str>,
    /// The raw JSON of its id.
    pub id: Option<&'a str>,
    /// Exactly what stood between two newlines.
    pub bytes: &'a [u8],
    /// Whether bytes before it were lost.
    pub gap_before: bool,
    /// The method of the request that it answers.
    pub reply_to: Option<&'a str>,
    /// The tool that is called, also on the answer.
    pub tool: Option<&'a str>,
    /// Nanoseconds from the request to this answer.
    pub latency_ns: Option<u64>,
    /// Whether it reports an error.
    pub is_error: bool,
    /// What is wrong with an invalid one.
    pub invalid_reason: Option<&'a str>,
}

/// Takes what the engine says.
pub trait Output {
    /// A message crossed the wire.
    fn message(&mut self, message: &MessageSeen<'_>);
    /// Something is to be told.
    fn event(&mut self, event: Event);
}
