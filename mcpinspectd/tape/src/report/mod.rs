//! A session as one HTML page, for people: who called what, how long it took, what was found.
//!
//! The page is made to be passed on and opened anywhere, and everything on it was written by programs that
//! no one has reason to trust. So it is one file that loads nothing and runs nothing: no script, a content
//! security policy that forbids everything but its own style sheet, every text escaped, and invisible
//! characters spelled out.
//!
//! - `collect`: gathers a session's messages and events, within bounds
//! - `examine`: what a tape's events say, by taking it through the engine
//! - `definitions`: the tools that were listed, and how they changed
//! - `picture`: the sequence of calls, as a drawing
//! - `latency`: how long answers took
//! - `page`: all of it, as HTML
//! - `indent`: JSON with line breaks

mod collect;
mod definitions;
mod examine;
mod indent;
mod latency;
mod page;
mod picture;

pub use collect::{Report, SessionEvent};
pub use examine::TapeExaminer;

#[cfg(test)]
mod tests;
