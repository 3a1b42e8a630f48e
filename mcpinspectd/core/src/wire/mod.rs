//! Turns bytes into frames: orders a stream's bytes, compares its two ends, and splits it at newlines. Of what is
//! encrypted, it reads whom the connection is for.

pub mod client_hello;
pub mod comparison;
pub mod framing;
pub mod held;
pub mod reassembly;
