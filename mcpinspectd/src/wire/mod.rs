//! Bytes into frames: puts a stream's bytes in place, and cuts them at newlines.

pub mod framing;
pub mod reassembly;
