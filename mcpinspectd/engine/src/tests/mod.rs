#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]

mod decisions;
mod definitions;
mod determinism;
mod findings;
mod fixture;
mod houses;
mod identity;
mod lessons;
mod loss;
mod messages;
mod outputs;
mod overdue;
mod session;
mod sources;
mod users;
