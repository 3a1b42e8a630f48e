//! Policy: what may pass between a client and a server, in one language for every place that needs it.
//!
//! Rules are data, in TOML files. Each has conditions on a message in its context, and an action. One
//! function decides, in `decide`; it does no I/O and reads no clock, so a recorded session, a test
//! and a guard in front of a server get the same answer to the same message.
//!
//! What the receiver parses must be what was judged. If two readers may see different messages in one text
//! ([`mcp::ambiguity`](mcpinspect_core::mcp::ambiguity)), conditions are neither true nor false but unknown, and a
//! message that a rule might have stopped does not pass.
//!
//! - `format`: what a rule file can express
//! - `compile`, `conditions`, `actions`, `mistake`: from rule files to a [`Policy`], with the line of each
//!   mistake
//! - `condition`, `text`, `value`: what a rule asks for
//! - `lookup`: the values at the paths that rules name, found in the text
//! - [`situation`]: a message in its context
//! - `pending_requests`: requests waiting for an answer
//! - `memory`: what rules remember about earlier messages
//! - `standing`: which tools a frame is about, and how they compare with what was accepted
//! - `names`: members that are spelled almost like a meaningful one
//! - `decide`: from a message in its context to a [`Decision`]
//! - [`consent`]: questions to a person, and answers
//! - `edit`: setting values, masking texts, hiding tools
//! - [`session`]: both directions of a session, frame by frame
//! - [`record`]: a decision as a line of JSON

mod action;
mod actions;
mod compile;
mod condition;
mod conditions;
pub mod consent;
mod decide;
mod edit;
mod format;
mod lookup;
mod memory;
mod mistake;
mod names;
mod pending_requests;
pub mod record;
pub mod session;
pub mod situation;
mod standing;
mod text;
mod value;

pub use action::{Action, Destination, Question};
pub use compile::{PolicyError, PolicyFiles};
pub use decide::{Decision, Policy, Rule, Verdict};

/// Where people put their policy.
pub const DIRECTORY: &str = "/etc/mcpinspectd/policy.d";

#[cfg(test)]
mod tests;
