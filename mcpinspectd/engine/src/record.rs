//! What the engine says, in a form that can be kept.

use mcpinspect_core::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_core::session::Correlation;

use super::output::{MessageKind, MessageSeen, Overdue};
use crate::event::Event;

/// Anything that the engine says, borrowing nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A message, or a member of a batch.
    Message(MessageRecord),
    /// A request that waited too long.
    Overdue(Overdue),
    /// An event.
    Event(Box<Event>),
}

impl Record {
    /// Bytes of memory it occupies, roughly.
    pub fn size(&self) -> usize {
        match self {
            Self::Message(message) => {
                size_of::<Self>() + message.body.as_ref().map_or(0, |body| body.len())
            }
            Self::Overdue(_) => size_of::<Self>(),
            Self::Event(event) => size_of::<Self>() + event.body.size(),
        }
    }
}

/// Most bytes of a message to copy. Anything larger would cost its size once more.
pub const MAX_BODY: usize = 16 << 20;

/// A message as it was seen, borrowing nothing: for a store or a later reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRecord {
    /// When its last byte was sent.
    pub time: Timestamp,
    /// The session it belongs to.
    pub session_id: SessionId,
    /// The server of that session.
    pub server_id: ServerId,
    /// Which way it went.
    pub direction: Direction,
    /// Where it starts, in bytes from the start of its stream; for a member, where its batch starts.
    pub position: u64,
    /// Its number among the session's messages of both directions, from 1; for a member, its batch's.
    pub sequence: u64,
    /// The server's process, where known.
    pub server_pid: Option<Pid>,
    /// The client's process, where known.
    pub client_pid: Option<Pid>,
    /// What it is.
    pub kind: MessageKind,
    /// Its method, as in the message.
    pub method: Option<Box<str>>,
    /// Its id, as JSON text.
    pub id: Option<Box<str>>,
    /// Bytes between two newlines. `None` for a member of a batch: the record of the batch, which comes
    /// before those of its members, has the bytes of all.
    pub bytes: Option<u64>,
    /// The exact bytes. `None` for a member of a batch, and if they exceed [`MAX_BODY`].
    pub body: Option<Box<[u8]>>,
    /// Whether bytes of this direction were lost since the previous frame.
    pub gap_before: bool,
    /// The method of the request that this response answers.
    pub reply_to: Option<Box<str>>,
    /// The [`MessageRecord::sequence`] of the request that this response answers.
    pub answers: Option<u64>,
    /// How this response relates to the request that it names.
    pub correlation: Option<Correlation>,
    /// The [`MessageRecord::sequence`] of the request that this notification cancels or reports progress
    /// of.
    pub concerns: Option<u64>,
    /// The [`MessageRecord::sequence`] of the first request of a call that takes several, on the later
    /// requests and their responses.
    pub call: Option<u64>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<Box<str>>,
    /// Nanoseconds from the request to this response.
    pub latency_ns: Option<u64>,
    /// Whether it is an error, the protocol's or a tool's.
    pub is_error: bool,
    /// What is wrong with it, such as `not_json`; set also for a message that is readable but odd.
    pub invalid_reason: Option<Box<str>>,
}

impl MessageRecord {
    /// The record of a message that was seen.
    pub fn message(seen: &MessageSeen<'_>) -> Self {
        Self {
            bytes: Some(seen.bytes.len() as u64),
            body: (seen.bytes.len() <= MAX_BODY).then(|| seen.bytes.into()),
            ..Self::member(seen)
        }
    }

    /// The record of a batch's member.
    pub fn member(seen: &MessageSeen<'_>) -> Self {
        let MessageSeen {
            time,
            session_id,
            server_id,
            direction,
            position,
            sequence,
            server_pid,
            client_pid,
            kind,
            method,
            id,
            bytes: _,
            gap_before,
            reply_to,
            answers,
            correlation,
            concerns,
            call,
            tool,
            latency_ns,
            is_error,
            invalid_reason,
        } = *seen;
        Self {
            time,
            session_id: session_id.clone(),
            server_id: server_id.clone(),
            direction,
            position,
            sequence,
            server_pid,
            client_pid,
            kind,
            method: method.map(Into::into),
            id: id.map(Into::into),
            bytes: None,
            body: None,
            gap_before,
            reply_to: reply_to.map(Into::into),
            answers,
            correlation,
            concerns,
            call,
            tool: tool.map(Into::into),
            latency_ns,
            is_error,
            invalid_reason: invalid_reason.map(Into::into),
        }
    }
}
