//! Offline detection of poisoned definitions and injected content.
//!
//! No single pattern tells a poisoned tool from an honest one. But attacks have a *grammar*: an order to the
//! agent, an object that has nothing to do with the tool, a reason, and silence towards the user. So
//! detection is built from what small parts of a text mean:
//!
//! ```text
//! value ─▶ text ─▶ matching ─▶ score ─▶ report          analysis composes these
//!        (folded)  (of rules)  (weights)                runtime adds memory, scan reads lines
//! ```
//!
//! - [`category`]: the vocabulary of findings; [`explain`]: its pages for people
//! - [`json`]: values, read leniently; [`text`]: their text, folded
//! - [`rules`]: what to look for (data, in TOML); `words`: what is looked up (data too); `probes`: what takes code
//!   to find
//! - [`cross_server`]: tools that stand in for another server's
//! - [`meaning`]: what a sentence of a definition asks: a small model
//! - [`matching`]: where rules match; [`score`]: what that adds up to
//! - [`analysis`]: from one definition or message to a report
//! - [`behaviour`]: what the agent does after it has read a text
//! - [`runtime`]: the detector for live streams; [`scan`]: the same offline
//!
//! The engine knows this module only through [`Detector`], and runs it [`Isolated`]. Nothing here does I/O or
//! reads a clock. How well detection works, and where the weights come from, is the business of a developer
//! tool: `cargo xtask eval`.

pub mod analysis;
mod api;
pub mod behaviour;
pub mod category;
pub mod cross_server;
pub mod explain;
mod isolated;
pub mod json;
mod layers;
pub mod matching;
pub mod meaning;
mod probes;
pub mod rules;
pub mod runtime;
pub mod scan;
pub mod score;
pub mod text;
mod weighted_rules;
mod words;

pub use api::{
    Detector, Difference, MessageInContext, NoDetector, Offer, SessionContext, ToolDefinition,
    Verdict,
};
pub use isolated::Isolated;
pub use layers::Layers;
pub use weighted_rules::{ActiveRules, BUILTIN_RULES, BUILTIN_WEIGHTS, WeightedRules};
