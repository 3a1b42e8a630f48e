//! MCP over HTTP, observed in passing: the bytes of one connection become messages.
//!
//! A [`Connection`] takes the two directions of a TCP or Unix connection as chunks with positions, each
//! possibly after a gap, and reports what happens: which exchanges are MCP, their messages, what was lost,
//! and what is wrong. It has no I/O, no clock and no thread, sees everything once, and keeps no more than
//! its [`Limits`] allow. However the bytes are cut into chunks, the [`Event`]s are the same.
//!
//! ```text
//!              one, two                exchange                 body, coding, sse
//! chunk ─▶ which version? ─▶ Part ─▶ is this exchange MCP? ─▶ decompressed, cut into messages ─▶ Event
//!          heads and bodies          joined with its answer
//! ```
//!
//! - [`connection`](Connection): two directions, each of which speaks one version of HTTP
//! - `sniff`: tells HTTP from anything else, and MCP from other HTTP, by a few bytes
//! - `one`, `two`: resumable readers of HTTP/1 and HTTP/2, with [`Anomaly`] for what two readers may
//!   understand differently
//! - `head`: what is kept of a head, never secrets
//! - `exchange`, `body`: requests joined with responses, and what they carry
//! - `coding`, [`sse`]: compressed bodies, and streams of events
//! - `agreement`: heads that contradict their message
//! - `checked`: requests that can be read in only one way, for a gateway
//!
//! # Honesty
//!
//! A loss costs what it hit and is reported with it: a message with a hole is lost, never closed up. After a
//! loss that may span any number of messages, reading continues only where a head or a frame certainly
//! begins, and a response is not attributed to a request that it may not answer. Where a careful reader
//! and a careless one would find different messages, none is chosen.
//!
//! # How it plugs in
//!
//! Events of several connections make one session, by `Mcp-Session-Id` and address. The caller that joins them
//! passes each [`Message`] on as [`Input::Message`](crate::model::Input::Message) with the position that
//! its session has reached in that direction, and each [`Event::Lost`] as a gap. The engine takes it from
//! there, as it does a line of standard input. `tape::http` does so for
//! connections whose bytes are in files.

mod agreement;
mod anomaly;
mod body;
mod checked;
mod coding;
mod connection;
mod event;
mod exchange;
mod head;
mod limits;
mod one;
mod part;
mod sniff;
pub mod sse;
#[cfg(test)]
mod tests;
mod two;

pub use self::agreement::{decoded, disagreement};
pub use self::anomaly::Anomaly;
pub use self::body::Loss;
pub use self::checked::RequestCheck;
pub use self::coding::{Decompressor, Failed};
pub use self::connection::Connection;
pub use self::event::{Carrier, Event, Exchange, Message, Mirrored, Opened, ResponseHead};
pub use self::head::{Coding, Content, McpFields, Method, Target, TargetKey};
pub use self::limits::Limits;
pub use self::part::Left;
pub use self::sniff::Verdict;
