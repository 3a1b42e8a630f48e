//! Which streams are MCP, who talks over them, and which two make a session.
//!
//! The problem: nobody tells the daemon. A process starts with pipes on its standard input and
//! output, and so do compilers, pagers and language servers. The probes ship the first bytes of
//! every such stream within a budget; here they are looked at until it is clear what they are.
//! What is not MCP is not watched any further. What is becomes one direction of a session, and
//! what was kept from the beginning is handed on first, so that no message is missing.
//!
//! - [`stream`]: one stream from its first byte: what it shows, and its bytes in order.
//! - [`programs`]: which program was started between which two streams.
//! - [`session`]: two streams that belong together, and the parties at their ends.
//! - [`tracker`]: keeps the above, and takes records in.
//! - [`sniffing`]: looks at a stream's beginning until it is clear what it is.
//! - [`watching`]: tells the kernel how far each endpoint is shipped.
//! - [`pairing`]: finds which two streams make a session.
//! - [`carrying`]: feeds the engine with a session's bytes and parties.
//! - [`blind_spots`]: bytes that move in a way that the probes do not see.
//! - [`ending`]: what is over, and what is forgotten.
//! - [`environment`]: what the tracker asks of the machine, so that tests can stand in for it.

mod blind_spots;
mod carrying;
mod comparing;
mod ending;
mod environment;
mod orphans;
mod pairing;
mod programs;
mod session;
mod sniffing;
mod stream;
mod tracker;
mod watching;

pub use environment::{Environment, Policy};
pub use tracker::{Settings, Tracker};

#[cfg(test)]
mod tests;
