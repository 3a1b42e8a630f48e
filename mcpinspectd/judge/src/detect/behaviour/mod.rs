//! What the agent does next: whether it obeys a text that came in.
//!
//! The words of a planted order and those of an honest README are the same, and nothing on the wire says what the
//! user asked for. But the daemon sees both ends: the text when it comes in, through any server, and the call
//! that follows, to any server. So every result is searched for sentences that ask for something, whatever their
//! wording, and these are kept with the values they contain; and every call with an effect is compared with them. A
//! call that does what a sentence says, with that sentence's values, which nothing else explains, was not the
//! user's idea.
//!
//! ```text
//! result ─▶ passages ─▶ orders ─▶ memory ─┐
//!            (sentences)  (acts, values)  ├─▶ obeyed ─▶ finding
//! call ───▶ acts, values ─────────────────┘
//! ```
//!
//! Memory is kept per agent, so across servers, and is bounded: some hundred orders and some thousand values, all of
//! which fade after half an hour. Values are kept as hashes. The time that a text takes grows with its length, and
//! the time for a call with that of its arguments.

mod acts;
mod memory;
mod obeyed;
mod orders;
mod passages;
mod values;

pub use acts::ToolAct;
pub use memory::{AgentMemory, TextLocation, TextSource};
pub use obeyed::{ObeyedOrder, ToolCall};

#[cfg(test)]
mod tests;
