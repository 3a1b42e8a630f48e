//! The kernel's side of a session: probes, streams, and which of them are MCP.
//!
//! This crate knows the kernel, its objects and the bytes that cross them. It must never know what a
//! message means: it pairs streams into sessions, and hands their bytes on as inputs.
//!
//! Read [`kernel::KernelSource`] first, then [`discover::Tracker`]; [`capture`] is the only user of aya.

pub mod capture;
pub mod discover;
pub mod golang;
pub mod kernel;
pub mod preflight;
