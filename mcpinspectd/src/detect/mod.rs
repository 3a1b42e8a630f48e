//! Offline detection of poisoned definitions and injected content.
//!
//! No single pattern tells a poisoned tool from an honest one. Attacks however have a *grammar*: an
//! order to the agent, an object that has nothing to do with the tool, a reason why, and silence
//! towards the user. So detection is built from what texts mean in small parts:
//!
//! ```text
//! value ─▶ extract ─▶ document ─▶ token + automaton ─▶ matching ─▶ score ─▶ report
//!          (texts)    (folded)    (words, names, …)    (rules)     (verdict)
//! ```
//!
//! [`pack`] and [`rules`] hold what is looked for (data, in TOML), [`score`] what it weighs. How well
//! it works, and where the weights come from, is the business of a developers' tool: `cargo xtask eval`.

pub mod analyse;
mod api;
pub mod category;
pub mod document;
pub mod explain;
pub mod extract;
pub mod hidden;
pub mod knowledge;
mod letters;
pub mod matching;
pub mod message;
mod names;
pub mod neighbours;
pub mod pack;
mod phrases;
pub mod rules;
pub mod runtime;
pub mod scan;
pub mod score;
mod shown;
pub mod suppress;
pub mod token;
pub mod tree;

pub use api::{
    Detector, Difference, MessageInContext, NoDetector, SessionContext, ToolDefinition, Verdict,
};

#[cfg(test)]
mod tests;
