//! The protocol: JSON-RPC 2.0 messages and the Model Context Protocol's types, and nothing else.
//!
//! An observer sees all five published revisions on one machine, often through one client, and the
//! mistakes of both sides. So nothing here validates: a message with an unknown method is still a
//! message, a member of an unexpected type is an absent member, and only what no peer could read is
//! malformed. Text stays borrowed from the wire wherever possible.

pub mod ambiguity;
pub mod budget;
pub mod cursor;
pub mod json;
pub mod message;
pub mod method;
pub mod sniff;
pub mod string;
pub mod view;

pub use budget::Budget;
pub use message::{Id, Irregularity, Malformed, Message, Outcome, Parsed, Payload, parse};
pub use method::Sender;
pub use sniff::{Evidence, NotMcpReason, evidence};
