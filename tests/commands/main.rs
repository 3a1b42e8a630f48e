//! The commands, as people, scripts and agents use them, and what the manual says of them. No probe runs.
//!
//! Tests that need root are in modules named `as_root`: `cargo xtask test --unit` leaves them out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed assumption fails the test"
)]

mod call_cli;
mod closed_pipe;
mod fleet_cli;
mod fleet_engine;
mod fleet_shippers;
mod gateway;
mod guard_cli;
mod guard_effects;
mod guard_install;
mod manual;
mod mcp_server;
mod pins_cli;
mod policy_cli;
mod query;
mod replay_cli;
mod report_page;
mod scan_cli;
#[path = "../support/mod.rs"]
mod support;
