//! What a program that runs for long needs from the system, whatever it does.
//!
//! This crate knows threads, files and privileges. It must never know MCP, events or
//! configuration.
//!
//! Read [`queue`] first: every arrow between two threads is one of these, with a bound and a counter.

pub mod backoff;
pub mod files;
pub mod notifier;
pub mod priority;
pub mod privileges;
pub mod queue;
