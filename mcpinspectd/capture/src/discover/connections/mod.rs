//! MCP over HTTP: which TCP connections carry it, and which of them make a session.
//!
//! The probes register every connection whose first bytes are HTTP, and ship its start. A reader of
//! HTTP ([`mcpinspect_core::http`]) decides whether it contains MCP. If not, the probes are told to leave it
//! alone. If so, all of it is shipped, and its messages join those of other connections: one session may
//! use many.
//!
//! **One end is enough.** A socket sees both directions of its connection, so the bytes of one process are
//! a complete record, in the order in which that process met them. If both ends of a connection are
//! on this machine, the client's counts: a server can rewrite its memory while the probes copy it,
//! but the client's is out of its reach. Until the client's end is known, the server's stands in. Both
//! count from the connection's first byte, so changing from one to the other loses nothing and repeats
//! nothing.
//!
//! - `address`: the two addresses of a connection, by which its ends find each other
//! - `table`: the known connections
//! - `connection`: one of them, from bytes to what they mean
//! - `link`: what links it to sessions
//! - `sessions`: sessions by name, and their messages in order
//! - `session`: one of them
//! - `announcing`: what is said about its parties

mod address;
mod announcing;
mod connection;
mod context;
mod link;
mod session;
mod sessions;
mod table;

pub use context::Context;
pub use table::Connections;
