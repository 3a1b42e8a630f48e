//! From one definition or message to a report of what was found in it.
//!
//! The stages are rooms of their own; here they are put in their order:
//!
//! ```text
//! value ─▶ extract ─▶ reveal ─▶ match ─▶ suppress ─▶ weigh ─▶ describe ─▶ Report
//! ```
//!
//! - [`Analyser`]: all stages, for one [`Subject`]
//! - [`message`](mod@message): the subjects in a JSON-RPC message
//! - `reveal`: hidden and encoded text becomes text
//! - `role`: what a text may call for by itself
//! - `detections`: matches become findings that a person can read

mod analyser;
mod context;
mod detections;
pub mod message;
mod report;
mod reveal;
mod role;
mod subject;

pub use analyser::Analyser;
pub use context::AnalysisContext;
pub use report::Report;
pub use subject::Subject;

#[cfg(test)]
mod tests;
