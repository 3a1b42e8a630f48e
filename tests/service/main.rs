//! What the daemon is to the machine that it runs on: to the system bus, the journal, the service manager and
//! the processes that it contains. One test runs at a time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed assumption fails the test"
)]

mod as_root;
mod contain;
#[path = "../support/mod.rs"]
mod support;
mod systemd;
mod units;
