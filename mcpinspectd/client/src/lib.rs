//! The client's side of a session with a server, one request after another.
//!
//! A program that asks a server something (a scan, a test) has to choose the protocol's era, greet, tell
//! answers from everything else that comes, and reply to what the server asks in between. That is done
//! here once, over a [`peer::Peer`], which is a process, a URL or a test.
//!
//! A client library hides what a tester must see: raw errors, unknown methods, answers
//! under wrong ids, lines that are not messages. So this one keeps them.
//!
//! - [`peer`]: the other side
//! - [`connection`]: requests and their answers
//! - [`era`]: with a handshake or without
//! - [`server_messages`]: what the server says of its own accord
//! - [`replies`]: how it is answered
//! - [`capability`]: what it must offer for a method
//! - [`failure`]: why there is no result
//!
//! The server is untrusted: what is kept of it is limited in number and size, and whatever it does, a
//! request ends in time.

pub mod capability;
pub mod commands;
pub mod connection;
pub mod era;
pub mod failure;
pub mod handshake;
pub mod http_server;
mod incoming;
pub mod launch;
pub mod peer;
pub mod replay;
pub mod replies;
pub mod scan_report;
pub mod server_messages;
pub mod server_process;
pub mod tape_file;
pub mod target;
#[cfg(test)]
pub(crate) mod testing;

#[cfg(test)]
mod tests;
