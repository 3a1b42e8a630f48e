//! Turns bytes into frames: orders a stream's bytes, compares its two ends, and splits it at newlines.

pub mod comparison;
pub mod framing;
pub mod held;
pub mod reassembly;
