//! One client and one server that do what real peers do in every way that the kernel offers.
//!
//! `oddpeer client [OPTIONS] --plan '…' -- oddpeer server [OPTIONS]` holds a whole MCP session. Options
//! choose how bytes move ([`calls`]), in which portions ([`link`]), over what kind of stream and from
//! which process and thread.

pub mod calls;
pub mod client;
pub mod handover;
pub mod link;
pub mod messages;
pub mod plan;
pub mod server;
