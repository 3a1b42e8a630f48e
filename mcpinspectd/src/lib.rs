//! The library behind `mcpinspectd` and `mcpinspect`.
//!
//! Data flows one way, and [`pipeline`] names every stage in order. Each module takes plain values
//! from the one before it, so everything after a [`source`] runs without root, without a kernel and
//! without a clock of its own: from a tape, a test or a fuzzer.
//!
//! Programs that embed the library start at [`engine`]: an [`engine::Engine`] takes the inputs of any
//! source and passes what they meant to an [`engine::Output`]. Without default features the library
//! builds without kernel, bus, command line and database:
//!
//! ```
//! use mcpinspectd::detect::NoDetector;
//! use mcpinspectd::engine::{Engine, Limits, MessageSeen, Output};
//! use mcpinspectd::event::Event;
//! use mcpinspectd::model::{Direction, EndReason};
//! use mcpinspectd::registry::Registry;
//! use mcpinspectd::source::script::Script;
//!
//! #[derive(Default)]
//! struct Titles(Vec<String>);
//!
//! impl Output for Titles {
//!     fn message(&mut self, _message: &MessageSeen<'_>) {}
//!
//!     fn event(&mut self, event: Event) {
//!         self.0.push(mcpinspectd::event::render::title(&event));
//!     }
//! }
//!
//! let mut engine = Engine::new(Limits::default(), Registry::in_memory(), Box::new(NoDetector));
//! let mut titles = Titles::default();
//! let mut session = Script::new("files");
//! engine.handle(session.start(), &mut titles);
//! let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
//! engine.handle(session.bytes(Direction::ClientToServer, line), &mut titles);
//! engine.handle(session.end(EndReason::ServerExited), &mut titles);
//! assert_eq!(
//!     titles.0,
//!     ["MCP session with files started", "MCP session with files ended"]
//! );
//! ```

pub mod approvals;
pub mod backoff;
pub mod bell;
pub mod build;
#[cfg(feature = "bus")]
pub mod bus;
pub mod capture;
pub mod client;
pub mod config;
pub mod contain;
pub mod control;
pub mod detect;
pub mod discover;
pub mod engine;
pub mod event;
pub mod files;
#[cfg(feature = "store")]
pub mod fleet;
pub mod golang;
mod html;
pub mod http;
pub mod keeping;
#[cfg(feature = "cli")]
pub mod logging;
#[cfg(feature = "cli")]
pub mod manual;
pub mod mcp;
#[cfg(feature = "store")]
pub mod message_store;
pub mod model;
pub mod panics;
pub mod pipeline;
pub mod policy;
pub mod policy_files;
#[cfg(feature = "kernel")]
pub mod preflight;
pub mod priority;
#[cfg(feature = "kernel")]
pub mod privileges;
pub mod process;
pub mod query;
pub mod queue;
pub mod recall;
pub mod registry;
pub mod replay;
pub mod report;
pub mod rule_files;
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
pub mod tape;
pub mod terminal;
pub mod text;
pub mod wire;
