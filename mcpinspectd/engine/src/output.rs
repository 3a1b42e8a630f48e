//! What comes out of the engine.

use std::borrow::Cow;
use std::sync::Arc;

use mcpinspect_core::mcp::method::MethodName;
use mcpinspect_core::mcp::{Irregularity, Malformed, Message, Parsed};
use mcpinspect_core::model::{Action, Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_core::session::Exchange;

use crate::event::Event;

/// What the engine says about an input, in the order in which it happened.
#[derive(Clone, Copy, Debug)]
pub enum Output<'a> {
    /// A message was judged but not reported yet: this is where an inline guard decides whether it
    /// passes. If a message causes thousands of events, the judgement holds the latest; the others were reported.
    Judged(&'a MessageSeen<'a>, &'a Judgement),
    /// A message was seen, or something that is not a message; a batch is one.
    Message(&'a MessageSeen<'a>),
    /// A member of the last batch seen. Its frame and bytes are the batch's. At
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

/// A message, or a frame that holds something else, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct MessageSeen<'a> {
    /// The session it belongs to.
    pub session: &'a SessionInfo,
    /// The frame it came in; for a member, its batch's.
    pub frame: FrameInfo,
    /// The exact bytes between two newlines, including a trailing carriage return; for a member, its batch's.
    pub bytes: &'a [u8],
    /// What it says of itself.
    pub head: &'a Head<'a>,
    /// The exchange that it belongs to.
    pub exchange: &'a Exchange,
}

/// The session of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The session.
    pub id: SessionId,
    /// Its server.
    pub server_id: ServerId,
    /// The server's process, where known.
    pub server_pid: Option<Pid>,
    /// The client's process, where known.
    pub client_pid: Option<Pid>,
}

/// The frame of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// When its last byte was sent.
    pub time: Timestamp,
    /// Which way it went.
    pub direction: Direction,
    /// Where it starts, in bytes from the start of its stream.
    pub position: u64,
    /// Its number among the session's messages of both directions, from 1.
    pub sequence: u64,
    /// Whether bytes of this direction were lost since the previous frame.
    pub gap_before: bool,
}

/// What a message says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// What it is.
    pub kind: MessageKind,
    /// Its method, as in the message.
    pub method: Option<Cow<'a, str>>,
    /// Its id, as JSON text.
    pub id: Option<Cow<'a, str>>,
    /// What is wrong with it, such as `not_json`; set also for a message that is readable but odd.
    pub invalid_reason: Option<&'static str>,
}

impl<'a> Head<'a> {
    /// A batch.
    pub(super) const BATCH: Head<'static> = Head {
        kind: MessageKind::Batch,
        method: None,
        id: None,
        invalid_reason: None,
    };

    /// The head of a message.
    pub(super) fn of(parsed: Parsed<'a>) -> Self {
        let id = parsed.message.id().map(|id| Cow::Borrowed(id.0));
        let (kind, method) = match parsed.message {
            Message::Request(request) => (MessageKind::Request, Some(request.method)),
            Message::Notification(notification) => {
                (MessageKind::Notification, Some(notification.method))
            }
            Message::Response(_) => (MessageKind::Response, None),
        };
        Self {
            kind,
            method,
            id,
            invalid_reason: parsed.irregular.map(Irregularity::as_str),
        }
    }

    /// The head of something that is not a message.
    pub(super) fn invalid(malformed: Malformed) -> Self {
        Self {
            kind: MessageKind::Invalid,
            method: None,
            id: None,
            invalid_reason: Some(malformed.as_str()),
        }
    }

    /// Copies what it borrows.
    pub fn into_owned(self) -> Head<'static> {
        let owned = |text: Option<Cow<'_, str>>| text.map(|text| Cow::Owned(text.into_owned()));
        Head {
            kind: self.kind,
            method: owned(self.method),
            id: owned(self.id),
            invalid_reason: self.invalid_reason,
        }
    }
}

impl MessageSeen<'_> {
    /// Its method, or that of the request that it answers.
    pub fn method(&self) -> Option<&str> {
        self.head.method.as_deref().or(self.exchange.reply_to())
    }
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
    /// Its [`FrameInfo::sequence`].
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
