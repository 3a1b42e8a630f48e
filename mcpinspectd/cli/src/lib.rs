//! What the command lines of all programs share.
//!
//! This crate knows terminals, man pages, completions and the log. It must never know what a
//! program does.
//!
//! Read [`terminal`] first.

pub mod build;
pub mod logging;
pub mod manual;
pub mod terminal;
