//! What readers may ask the daemon about: the present, the recent past, and its counters.
//!
//! All of it is folded from the events that everyone gets, on this side of the queues, so that a
//! question never makes the pipeline wait and no answer can contradict the events.

pub mod calls;
pub mod history;
pub mod live;
pub mod metrics;
mod view;

pub use view::{View, ViewLimits};
