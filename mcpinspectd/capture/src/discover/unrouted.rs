//! Bytes that came before it was known which stream they belong to.
//!
//! What is written to a socket is read at its peer, and the peer is reported when the program that
//! holds it starts. A client that writes at once may be faster than that record, so its first bytes
//! are kept until the record arrives.

use std::collections::VecDeque;

use mcpinspect_common::EndpointKey;

use crate::capture::Origin;

/// Most bytes kept; the oldest go first.
const BYTES_MAX: usize = 1 << 20;
/// Most pieces kept.
const PIECES_MAX: usize = 4096;

/// One piece.
#[derive(Debug)]
pub struct UnroutedPiece {
    /// The socket that it was written to.
    pub key: EndpointKey,
    /// Its position in its stream.
    pub position: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Who wrote it, and when.
    pub origin: Origin,
}

/// The pieces, in order of arrival. `bytes` is always the sum of their lengths.
#[derive(Debug, Default)]
pub struct UnroutedData {
    pieces: VecDeque<UnroutedPiece>,
    bytes: usize,
}

impl UnroutedData {
    /// Keeps a piece, and drops the oldest if that is too much.
    pub fn keep(&mut self, piece: UnroutedPiece) {
        self.bytes += piece.bytes.len();
        self.pieces.push_back(piece);
        while self.bytes > BYTES_MAX || self.pieces.len() > PIECES_MAX {
            let Some(oldest) = self.pieces.pop_front() else {
                return;
            };
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Takes all pieces out.
    pub fn take(&mut self) -> VecDeque<UnroutedPiece> {
        self.bytes = 0;
        std::mem::take(&mut self.pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(position: u64, length: usize) -> UnroutedPiece {
        UnroutedPiece {
            key: EndpointKey::default(),
            position,
            bytes: vec![b'x'; length],
            origin: Origin { tgid: 1, time: 2 },
        }
    }

    #[test]
    fn the_oldest_pieces_are_dropped_above_either_bound() {
        let mut data = UnroutedData::default();
        for index in 0..10 {
            data.keep(piece(index, BYTES_MAX / 4));
        }
        assert_eq!(data.bytes, BYTES_MAX);
        let positions: Vec<u64> = data.take().iter().map(|piece| piece.position).collect();
        assert_eq!(positions, [6, 7, 8, 9]);
        assert_eq!(data.bytes, 0);
        for index in 0..PIECES_MAX as u64 + 5 {
            data.keep(piece(index, 1));
        }
        assert_eq!(data.bytes, PIECES_MAX);
        assert_eq!(data.take().front().map(|piece| piece.position), Some(5));
    }
}
