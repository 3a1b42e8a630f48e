//! The message store: what was said, on disk, in SQLite.
//!
//! Unlike the registry, it protects no one, and it is much larger. So it is a separate file, which can be
//! damaged, full or deleted without touching a pin, and whose writes never make anything wait.
//!
//! - `thread`: takes records from a queue and writes them in batches
//! - `write`: one batch in one transaction
//! - `block`: texts, compressed together
//! - `words`: the words a message is found by
//! - `tally`: exchanges, counted
//! - `import`: a tape's messages, written to the store
//! - `retention`: what is removed, and when
//! - `open`: opening the file, and setting a damaged one aside
//! - `texts`: texts of messages, decompressed
//! - `read`: answers to questions

mod block;
mod import;
mod open;
mod read;
mod retention;
mod tally;
mod texts;
mod thread;
mod words;
mod write;

pub use import::{Import, ImportError};
pub(crate) use open::open_to_read;
pub use read::StoreFile;
pub(crate) use read::{correlation_word, direction_word, kind_word};
pub(crate) use tally::histogram;
pub(crate) use texts::Texts;
pub use thread::{Recorder, Settings};
pub(crate) use words::{SearchTag, match_expression};

#[cfg(test)]
mod tests;
