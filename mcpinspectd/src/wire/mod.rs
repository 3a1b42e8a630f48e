//! Bytes into frames: puts a stream's bytes in place, compares its two ends, and cuts it at newlines.

pub mod ends;
pub mod framing;
pub mod reassembly;
