//! Which streams are MCP, who talks over them, and which two make a session.
//!
//! Nothing announces an MCP session. A server starts with pipes on its standard input and output,
//! and so do compilers, pagers and language servers. The probes ship the first bytes of every such
//! stream within a budget, and discovery examines them until it is clear what they are. A stream
//! that is not MCP is no longer shipped. One that is becomes one direction of a session, and
//! what was kept of its beginning is passed on first, so that no message is missing.
//!
//! [`Tracker`] routes each record to the tables that it concerns:
//!
//! - `traffic`: every known stream from its first byte (`streams`, `peers`, `sniff_buffer`) to its
//!   place in a session (`flow`); pairs of streams with the parties at their ends (`sessions`), and the order
//!   in which both are passed on (`reorder_buffer`); how much waits there (`backlog`); and the ledgers of
//!   ended streams (`accounts`);
//! - `processes`: which programs were started between which streams (`programs`), and which processes move
//!   bytes past the probes (`blind_processes`);
//! - `quotas`: what waits for room (`admission_queue`), and who was reported for taking too much
//!   (`notices`); `shares` bounds how much each user has;
//! - `unrouted`: bytes that came before it was known which stream they belong to;
//! - `remembered`: what a restarted daemon must know;
//! - `connections`: connections that speak HTTP, and the sessions in them.
//!
//! Whatever concerns several of them is one step, each in a file that only calls those before it:
//! `announcing` and `delivery` feed the engine, `pairing` finds the other half of a session,
//! `following` makes streams parts of sessions, `roles` decides which party is the server, `sniffing`
//! what a stream is, `backlog_limit` bounds what waits in sessions, `reconsidering` revises what a stream is,
//! `exclusion` leaves alone what the configuration excludes, `unseen` and `timeouts` deal with bytes that do not arrive, and
//! `lifecycle` ends what is over.

mod accounts;
mod admission;
mod admission_queue;
mod announcing;
mod arrivals;
mod backlog;
mod backlog_limit;
mod blind_processes;
mod blind_spots;
mod capacity;
mod captured;
mod connections;
mod counts;
mod delivery;
mod environment;
mod eviction;
mod exclusion;
mod flow;
mod following;
mod holding;
mod lifecycle;
mod notices;
mod output;
mod pairing;
mod peers;
mod processes;
mod programs;
mod quotas;
mod recent_processes;
mod reconsidering;
mod remembered;
mod reorder_buffer;
mod roles;
mod sampling;
mod session;
mod sessions;
mod settings;
mod shares;
mod shipping;
mod sniff_buffer;
mod sniffing;
mod step;
mod stream;
mod streams;
mod timeouts;
mod tracker;
mod traffic;
mod unrouted;
mod unseen;
mod unseen_tls;

pub use environment::{Environment, Readers, SoughtSocket, UnseenLibrary, WatchPolicy};
pub use remembered::{RememberedEndpoint, RememberedProgram, RememberedStream};
pub use settings::Settings;
pub use tracker::Tracker;

#[cfg(test)]
mod tests;
