//! Bytes to messages: everything that an MCP session says, without a kernel, a clock or I/O.
//!
//! This crate knows bytes, frames, HTTP, JSON-RPC and MCP's revisions, and the words that all other
//! crates share. It must never know where bytes come from, what a message means for security, or who
//! receives events; its manifest names no crate that could do I/O for it.
//!
//! Read [`model::Input`] first: it is what enters. Then [`wire::framing`] and [`mcp`] (bytes to frames to
//! messages), [`http`] (the same for connections), and [`session`] (which response answers which request).

pub mod html;
pub mod http;
pub mod json_path;
pub mod mcp;
pub mod model;
pub mod panics;
pub mod session;
pub mod source;
pub mod text;
pub mod wire;
