//! What people decide in files: the configuration, rules, policies, approvals and suppressions.
//!
//! This crate knows where these files are, what may be in them, and how to say which line is wrong. It must
//! never know the running daemon: it reads values and returns them.
//!
//! Read [`config::Config`] first.

pub mod approvals;
pub mod config;
pub mod lessons;
pub mod policy_files;
pub mod rule_files;
pub mod suppression;
