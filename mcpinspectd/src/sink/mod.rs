//! Events on their way out: to the journal, to the system bus, to JSON lines.
//!
//! The pipeline publishes an event and goes on; it never waits for a reader. [`fanout`] numbers the
//! event, puts it in words and serialises it once ([`record`], [`wording`], [`json`]), and gives it
//! to each sink's own bounded queue. A sink that is slow, absent or restarted loses at most its own
//! events, counts them, and tells of the loss where they are missing.
//!
//! ```text
//! publish ─▶ record ─┬▶ queue ─▶ journal   (thread)
//!                    ├▶ queue ─▶ bus       (task)
//!                    ├▶ queue ─▶ jsonl     (thread)
//!                    └▶ history, live ◀─ questions on the bus
//! ```

pub mod bus;
pub mod fanout;
pub mod flood;
pub mod history;
pub mod journal;
pub mod json;
pub mod jsonl;
pub mod kind;
pub mod live;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod record;
pub mod running;
pub mod wording;

#[cfg(test)]
pub(crate) mod testing;
