//! What comes out of the engine.

use std::sync::Arc;

use mcpinspect_core::mcp::method::MethodName;
use mcpinspect_core::model::{Action, Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_core::session::Correlation;

use crate::event::Event;

/// What the engine says about an input, in the order in which it happened.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// A message was judged but not reported yet: this is where an inline guard decides whether it
    /// passes. If a message causes thousands of events, the judgement holds the latest; the others were reported.
    Judged(&'a MessageSeen<'a>, &'a Judgement),
    /// A message was seen, or something that is not a message; a batch is one.
    Message(&'a MessageSeen<'a>),
    /// A member of the last batch seen. Its bytes, position and sequence are the batch's. At
    /// most 16,384 members of a batch are reported, and no more than take 4 MiB.
    Member(&'a MessageSeen<'a>),
    /// A request has waited too long for its answer, which may still come. Each is reported once.
    Overdue(&'a Overdue),
    /// Something worth reporting happened.
    Event(&'a Event),
}

/// Takes what the engine says. [`Tee`](super::Tee) joins several.
///
/// One method takes everything, so that whatever stands in between cannot forget to pass something on.
pub trait OutputSink {
    /// Takes the next output.
    fn output(&mut self, output: Output<'_>);
}

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// A request.
    Request,
    /// A response.
    Response,
    /// A notification.
    Notification,
    /// Several messages in an array.
    Batch,
    /// Not a message.
    Invalid,
}

impl MessageKind {
    /// The word used externally.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Notification => "notification",
            Self::Batch => "batch",
            Self::Invalid => "invalid",
        }
    }
}

/// A frame, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct MessageSeen<'a> {
    /// When its last byte was sent.
    pub time: Timestamp,
    /// The session it belongs to.
    pub session_id: &'a SessionId,
    /// The server of that session.
    pub server_id: &'a ServerId,
    /// Which way it went.
    pub direction: Direction,
    /// Where it starts, in bytes from the start of its stream.
    pub position: u64,
    /// Its number among the session's messages of both directions, from 1.
    pub sequence: u64,
    /// The server's process, where known.
    pub server_pid: Option<Pid>,
    /// The client's process, where known.
    pub client_pid: Option<Pid>,
    /// What it is.
    pub kind: MessageKind,
    /// Its method, as in the message.
    pub method: Option<&'a str>,
    /// Its id, as JSON text.
    pub id: Option<&'a str>,
    /// The exact bytes between two newlines, including a trailing carriage return.
    pub bytes: &'a [u8],
    /// Whether bytes of this direction were lost since the previous frame.
    pub gap_before: bool,
    /// The method of the request that this response answers.
    pub reply_to: Option<&'a str>,
    /// The [`MessageSeen::sequence`] of the request that this response answers.
    pub answers: Option<u64>,
    /// How this response relates to the request that it names.
    pub correlation: Option<Correlation>,
    /// The [`MessageSeen::sequence`] of the request that this notification cancels or reports progress of.
    pub concerns: Option<u64>,
    /// The [`MessageSeen::sequence`] of the first request of a call that takes several, on the later
    /// requests and their responses.
    pub call: Option<u64>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<&'a str>,
    /// Nanoseconds from the request to this response.
    pub latency_ns: Option<u64>,
    /// Whether it is an error, the protocol's or a tool's.
    pub is_error: bool,
    /// What is wrong with it, such as `not_json`; set also for a message that is readable but odd.
    pub invalid_reason: Option<&'a str>,
}

/// A request that has waited too long for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// Its session.
    pub session_id: SessionId,
    /// The server of that session.
    pub server_id: ServerId,
    /// Which way it went.
    pub direction: Direction,
    /// Its method.
    pub method: MethodName,
    /// The tool that it calls.
    pub tool: Option<Arc<str>>,
    /// Its [`MessageSeen::sequence`].
    pub sequence: u64,
    /// When it was sent.
    pub sent: Timestamp,
    /// When its answer should have been there.
    pub due: Timestamp,
    /// Notifications of its progress so far.
    pub progress: u32,
}

/// The result of an observation, before it is reported.
#[derive(Debug)]
pub struct Judgement {
    pub(super) disposition: Action,
    pub(super) events: Vec<Event>,
}

impl Judgement {
    /// Nothing found.
    pub(super) const CLEAN: Self = Self {
        disposition: Action::None,
        events: Vec::new(),
    };

    /// What the findings ask for: the most severe action among them.
    pub fn disposition(&self) -> Action {
        self.disposition
    }

    /// The events about to be reported, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}
