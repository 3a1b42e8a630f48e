//! From bytes of sessions to messages and events.

mod contract;

pub use contract::{Input, MessageKind, MessageSeen, Output, SessionStart};
