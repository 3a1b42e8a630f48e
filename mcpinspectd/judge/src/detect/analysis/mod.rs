//! From one definition or message to a report of what was found in it.
//!
//! Each stage has a module of its own; here they are put in order:
//!
//! ```text
//! value ─▶ extract ─▶ reveal ─▶ match ─▶ suppress ─▶ weigh ─▶ describe ─▶ Report
//! ```
//!
//! - [`Analyser`]: all stages, for one [`Subject`]
//! - [`message`](mod@message): the subjects in a JSON-RPC message
//! - `reading`: the sentences of a definition, as the model reads them
//! - `combine`: what rules and model add up to together
//! - `reveal`: hidden and encoded text becomes text
//! - `role`: what a text alone may call for
//! - `detections`: matches become findings that a person can read

mod analyser;
mod combine;
mod context;
mod detections;
pub mod message;
mod reading;
mod report;
mod reveal;
mod role;
mod subject;

pub use analyser::Analyser;
pub use context::AnalysisContext;
pub use reading::ReadSentence;
pub use report::Report;
pub use subject::Subject;

#[cfg(test)]
mod tests;
