//! wip
pub mod canonical;
pub mod diff;
