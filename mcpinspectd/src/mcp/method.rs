//! The methods of all five revisions and which side may send them.
//!
//! What a method does is of no interest here; who sends it is, for it tells the two streams of a
//! session apart when nothing else does.

use std::ops::Deref;
use std::sync::Arc;

use crate::model::Direction;

/// Who sends a request or notification of some method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Only ever a client.
    Client,
    /// Only ever a server.
    Server,
    /// Both.
    Either,
}

impl Sender {
    /// The direction that a stream carries on which this was seen, where that can be told.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Client => Some(Direction::ClientToServer),
            Self::Server => Some(Direction::ServerToClient),
            Self::Either => None,
        }
    }
}

/// Who sends `method`; `None` for one that no revision of the protocol knows.
///
/// `ping` and `initialize` are left to the caller: other protocols over JSON-RPC use these names too,
/// so by themselves they prove nothing.
pub fn sender(method: &str) -> Option<Sender> {
    Some(match method {
        "tools/list"
        | "tools/call"
        | "resources/list"
        | "resources/templates/list"
        | "resources/read"
        | "resources/subscribe"
        | "resources/unsubscribe"
        | "prompts/list"
        | "prompts/get"
        | "completion/complete"
        | "logging/setLevel"
        | "server/discover"
        | "subscriptions/listen"
        | "notifications/initialized"
        | "notifications/roots/list_changed" => Sender::Client,
        "sampling/createMessage"
        | "elicitation/create"
        | "roots/list"
        | "notifications/message"
        | "notifications/tools/list_changed"
        | "notifications/resources/list_changed"
        | "notifications/resources/updated"
        | "notifications/prompts/list_changed"
        | "notifications/elicitation/complete"
        | "notifications/subscriptions/acknowledged" => Sender::Server,
        "tasks/get"
        | "tasks/result"
        | "tasks/list"
        | "tasks/cancel"
        | "notifications/cancelled"
        | "notifications/progress"
        | "notifications/tasks/status" => Sender::Either,
        _ => return None,
    })
}

/// `method` with a lifetime of its own: borrowed for the methods that revisions know, so that keeping
/// the method of ten thousand requests under way costs nothing; shared, and cut at
/// [`MAX_METHOD`] bytes, for all others.
pub fn keep(method: &str) -> Kept {
    match KNOWN.iter().find(|known| **known == method) {
        Some(known) => Kept::Known(known),
        None => Kept::Other(crate::mcp::json::cut(method, MAX_METHOD).into()),
    }
}

/// How much of an unknown method's name is kept, in bytes.
pub const MAX_METHOD: usize = 128;

/// The requests of all revisions, most frequent first.
const KNOWN: [&str; 22] = [
    "tools/call",
    "tools/list",
    "ping",
    "resources/read",
    "resources/list",
    "prompts/get",
    "prompts/list",
    "initialize",
    "server/discover",
    "resources/templates/list",
    "completion/complete",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
];

/// A method's name that outlives its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// One that revisions know.
    Known(&'static str),
    /// Any other.
    Other(Arc<str>),
}

impl Deref for Kept {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Other(name) => name,
        }
    }
}

/// Whether a request of this method stays open by design, so that a missing answer means nothing.
pub fn stays_open(method: &str) -> bool {
    method == "subscriptions/listen"
}
