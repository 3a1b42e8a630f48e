//! The methods of all five revisions and which side may send them.
//!
//! What a method does is of no interest here; who sends it is, for it tells the two streams of a
//! session apart when nothing else does.

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

/// Whether a request of this method stays open by design, so that a missing answer means nothing.
pub fn stays_open(method: &str) -> bool {
    method == "subscriptions/listen"
}
