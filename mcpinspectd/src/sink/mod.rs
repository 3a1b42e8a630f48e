//! Events on their way out: to the journal, to the system bus, to files of JSON lines.
pub mod fanout;
pub mod history;
pub mod json;
pub mod kind;
pub mod live;
pub mod record;
pub mod wording;

#[cfg(test)]
mod testing;
