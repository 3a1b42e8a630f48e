//! Tests that need root: `cargo xtask test --unit` leaves this module out.

mod bus;
mod contain_storms;
mod daemon;
mod journal;
mod notify_agent;
