//! Detection on the live stream.
//!
//! Text is judged as it is offline (see [`analysis`](super::analysis)). What the live stream adds is
//! memory: which server owns which tool, what a definition was when it was pinned, which values were
//! private, how often things happen. All of it is bounded, and none of it does I/O or reads a clock.
//!
//! - [`RuntimeDetector`]: judges definitions and messages as they arrive
//! - `offered`: the tools of each user's servers
//! - `data_flow`, with `tool_role`: private data that leaves after untrusted text came in
//! - `tool_acts`: what tools do, for the [behaviour](super::behaviour) that follows a text
//! - `activity`, with `rate_counter`: calls, errors and requests at an unusual rate
//! - `tampering`: the two ends of a stream differ
//! - `findings`: what is reported about behaviour

mod activity;
mod data_flow;
mod detector;
mod findings;
mod offered;
mod rate_counter;
mod tampering;
mod tool_acts;
mod tool_role;
mod values;

pub use detector::RuntimeDetector;

#[cfg(test)]
mod tests;
