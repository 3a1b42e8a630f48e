//! Events on their way out: to the journal, to the system bus, to JSON lines.
//!
//! The pipeline publishes an event and goes on; it never waits for a reader. `fanout` applies the
//! server's rate limit, numbers the event, renders and serialises it once, and offers it to each
//! sink's own bounded queue. A sink that is slow, absent or restarted loses at most its own events,
//! counts them, and reports the loss where they are missing.
//!
//! ```text
//! publish ─▶ rate limit ─▶ envelope ─┬▶ queue ─▶ journal   (thread)
//!                                    ├▶ queue ─▶ bus       (task)
//!                                    ├▶ queue ─▶ jsonl     (thread)
//!                                    └▶ status ◀─ questions on the bus
//! ```

mod fanout;
pub mod journal;
pub mod jsonl;
pub mod queue;
pub mod rate_limit;
mod sequencer;

pub use fanout::{SinkLimits, Sinks};
