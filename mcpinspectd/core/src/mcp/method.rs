//! The methods of all five revisions, and which side may send them.
//!
//! This module does not care what a method does. Its sender distinguishes the two streams of a session
//! when nothing else does.

use std::ops::Deref;
use std::sync::Arc;

use super::json;
use crate::model::Direction;

/// Who sends requests or notifications of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Only clients.
    Client,
    /// Only servers.
    Server,
    /// Both.
    Either,
}

impl Sender {
    /// The direction of a stream that carries such a message, if that is certain.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::Client => Some(Direction::ClientToServer),
            Self::Server => Some(Direction::ServerToClient),
            Self::Either => None,
        }
    }
}

/// Who sends `method`; `None` if no revision of the protocol defines it.
///
/// `ping` and `initialize` are left to the caller: other protocols over JSON-RPC use these names
/// too, so alone they prove nothing.
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

/// Maximum length of an unknown method's name, in bytes; longer ones are cut.
pub const MAX_METHOD: usize = 128;

/// The requests of all revisions, most frequent first.
pub const KNOWN: [&str; 22] = [
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
///
/// Static for the methods that revisions define, so that keeping the method of ten thousand requests in
/// flight costs nothing; shared, and cut at [`MAX_METHOD`] bytes, for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MethodName {
    /// One that a revision defines.
    Known(&'static str),
    /// Any other.
    Other(Arc<str>),
}

impl MethodName {
    /// The name `method`.
    pub fn new(method: &str) -> Self {
        match KNOWN.iter().find(|known| **known == method) {
            Some(known) => Self::Known(known),
            None => Self::Other(json::cut(method, MAX_METHOD).into()),
        }
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Other(name) => name,
        }
    }
}

/// Whether requests of this method stay open by design, so that a missing answer means nothing.
pub fn stays_open(method: &str) -> bool {
    method == "subscriptions/listen"
}

/// Whether the answer to such a request takes as long as a person or a task takes, so that a late one
/// means nothing: `tasks/result` waits for the end of its task.
pub fn waits_for_people(method: &str) -> bool {
    matches!(
        method,
        "elicitation/create" | "sampling/createMessage" | "tasks/result"
    )
}
