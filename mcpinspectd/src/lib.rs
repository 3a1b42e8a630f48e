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
pub mod logging;
pub mod manual;
pub mod mcp;
pub mod model;
pub mod monitor;
pub mod pipeline;
pub mod preflight;
pub mod priority;
pub mod privileges;
pub mod process;
pub mod registry;
pub mod session;
pub mod sink;
pub mod source;
pub mod status;
pub mod store;
pub mod systemd;
pub mod tap;
pub mod terminal;
pub mod text;
pub mod wire;
