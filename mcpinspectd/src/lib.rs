//! The library behind `mcpinspectd` and `mcpinspect`.
//!
//! Data flows one way. Each module takes plain values from the one before it, so everything after
//! [`capture`] runs without root, without a kernel and without a clock of its own: from a tape, a
//! test or a fuzzer.
//!
//! ```text
//! kernel ─▶ capture ─▶ discover ─▶ wire ─▶ mcp ─▶ session ─▶ registry / detect ─▶ event ─▶ sink
//! ```

pub mod build;
#[cfg(feature = "bus")]
pub mod bus;
pub mod capture;
pub mod config;
pub mod contain;
pub mod control;
pub mod detect;
pub mod discover;
pub mod engine;
pub mod event;
pub mod files;
pub mod fleet;
#[cfg(feature = "cli")]
pub mod logging;
#[cfg(feature = "cli")]
pub mod manual;
pub mod mcp;
pub mod model;
#[cfg(feature = "kernel")]
pub mod monitor;
#[cfg(feature = "bus")]
pub mod pipeline;
#[cfg(feature = "kernel")]
pub mod preflight;
pub mod priority;
#[cfg(feature = "kernel")]
pub mod privileges;
pub mod process;
pub mod registry;
pub mod session;
#[cfg(feature = "bus")]
pub mod sink;
pub mod source;
pub mod status;
#[cfg(feature = "store")]
pub mod store;
#[cfg(feature = "bus")]
pub mod systemd;
pub mod tap;
pub mod terminal;
pub mod text;
pub mod wire;
