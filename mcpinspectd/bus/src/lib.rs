//! The D-Bus interface `org.mcpinspect1`, as its clients see it.
//!
//! This crate knows the rows that cross the bus and how to ask for them. It must never know how the daemon
//! answers; the service itself is part of the daemon.
//!
//! Read [`client`] first, then [`rows`].

pub mod client;
pub mod desktop;
pub mod peer;
pub mod rows;

/// The daemon's name on the bus.
pub const NAME: &str = "org.mcpinspect1";
/// The path of its main object.
pub const PATH: &str = "/org/mcpinspect1";
/// That object's interface.
pub const INTERFACE: &str = "org.mcpinspect1.Manager";
