//! Bytes that came before it was known where they go.
//!
//! What is written to a socket is read at its peer, and the peer is told with the start of the
//! program that holds it. A client that writes at once may be faster than that record. Its first
//! bytes are kept for the moment.

use std::collections::VecDeque;

use mcpinspect_common::EndpointKey;

use crate::capture::Origin;

/// Bytes that are kept at most; the oldest go first.
const BYTES_MAX: usize = 1 << 20;
/// Pieces that are kept at most.
const PIECES_MAX: usize = 4096;

/// One piece.
#[derive(Debug)]
pub struct Orphan {
    /// The socket that it was written to.
    pub key: EndpointKey,
    /// Where it stands in its stream.
    pub position: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Who wrote them, and when.
    pub origin: Origin,
}

/// The pieces, in the order in which they came.
#[derive(Debug, Default)]
pub struct Orphans {
    pieces: VecDeque<Orphan>,
    bytes: usize,
}

impl Orphans {
    /// Keeps a piece.
    pub fn keep(&mut self, key: EndpointKey, position: u64, bytes: &[u8], origin: Origin) {
        self.bytes += bytes.len();
        self.pieces.push_back(Orphan {
            key,
            position,
            bytes: bytes.to_vec(),
            origin,
        });
        while self.bytes > BYTES_MAX || self.pieces.len() > PIECES_MAX {
            let Some(oldest) = self.pieces.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Takes all of them out.
    pub fn take(&mut self) -> VecDeque<Orphan> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }
}
