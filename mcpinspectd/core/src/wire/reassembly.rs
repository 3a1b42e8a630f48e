//! Puts the pieces of one stream in order by position, and finds what is missing.
//!
//! The probes number every byte when it moves, even if its copy is lost afterwards. So a piece that
//! starts beyond the next expected byte means that a piece in between is still on its way
//! (two threads that read the same stream may finish in either order) or was lost. Pieces wait for a
//! moment; after that, the missing bytes become a gap of exactly their length.

use std::collections::BTreeMap;

/// How long a piece waits for the one before it, in nanoseconds. Pieces overtake each other by
/// microseconds.
const PATIENCE: u64 = 100_000_000;
/// Most bytes that wait. Above this, missing bytes are given up at once.
const WAITING_MAX: usize = 4 << 20;
/// Most pieces that wait.
const PIECES_MAX: usize = 4096;

/// One piece of the stream, in order from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The next bytes.
    Bytes {
        /// Where they start.
        position: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Lost bytes.
    Gap {
        /// Where they start.
        position: u64,
        /// How many.
        length: u64,
    },
}

#[derive(Debug)]
enum Waiting {
    Bytes(Vec<u8>),
    Hole(u64),
}

impl Waiting {
    fn length(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(length) => *length,
        }
    }
}

/// Orders one stream. Times are nanoseconds on any clock that does not jump.
#[derive(Debug)]
pub struct Reassembly {
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: usize,
    /// When the oldest waiting piece arrived.
    since: u64,
    captured: u64,
    lost: u64,
}

impl Reassembly {
    /// Orders a stream whose first byte is at `start`.
    pub fn new(start: u64) -> Self {
        Self {
            next: start,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            since: 0,
            captured: 0,
            lost: 0,
        }
    }

    /// The position of the next byte.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes emitted.
    pub fn captured(&self) -> u64 {
        self.captured
    }

    /// Bytes declared lost in gaps.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether pieces wait for one before them.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The memory that waiting pieces take, in bytes.
    pub fn memory(&self) -> usize {
        self.waiting_bytes + self.waiting.len() * size_of::<(u64, Waiting)>()
    }

    /// Takes in a piece. Bytes that were already emitted are dropped.
    pub fn push(
        &mut self,
        position: u64,
        bytes: &[u8],
        now: u64,
        emit: &mut impl FnMut(Piece<'_>),
    ) {
        if position > self.next {
            self.hold(position, Waiting::Bytes(bytes.to_vec()), now);
            self.settle(now, emit);
        } else {
            self.emit_bytes(position, bytes, emit);
            self.advance(emit);
        }
    }

    /// Notes that `length` bytes at `position` will not arrive.
    pub fn missing(
        &mut self,
        position: u64,
        length: u64,
        now: u64,
        emit: &mut impl FnMut(Piece<'_>),
    ) {
        self.hold(position, Waiting::Hole(length), now);
        self.advance(emit);
    }

    /// Gives up bytes that other pieces have waited for too long. Call this regularly.
    pub fn settle(&mut self, now: u64, emit: &mut impl FnMut(Piece<'_>)) {
        if self.waiting.is_empty() {
            return;
        }
        let full = self.waiting_bytes > WAITING_MAX || self.waiting.len() > PIECES_MAX;
        if full || now.saturating_sub(self.since) > PATIENCE {
            self.give_up(emit);
            self.since = now;
        }
    }

    /// Ends the stream at `end`: bytes that have not arrived by now are lost.
    pub fn finish(&mut self, end: u64, emit: &mut impl FnMut(Piece<'_>)) {
        self.give_up(emit);
        self.skip_to(end, emit);
    }

    fn hold(&mut self, position: u64, piece: Waiting, now: u64) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        if let Waiting::Bytes(bytes) = &piece {
            self.waiting_bytes += bytes.len();
        }
        // Of two pieces at one position, the longer one has more of the stream.
        if let Some(old) = self.waiting.get(&position)
            && old.length() >= piece.length()
        {
            if let Waiting::Bytes(bytes) = &piece {
                self.waiting_bytes -= bytes.len();
            }
            return;
        }
        if let Some(Waiting::Bytes(old)) = self.waiting.insert(position, piece) {
            self.waiting_bytes -= old.len();
        }
    }

    /// Emits everything that waits, with gaps in between.
    pub fn give_up(&mut self, emit: &mut impl FnMut(Piece<'_>)) {
        while let Some((&position, _)) = self.waiting.first_key_value() {
            self.skip_to(position, emit);
            self.advance(emit);
        }
    }

    /// Emits the waiting pieces that come next.
    fn advance(&mut self, emit: &mut impl FnMut(Piece<'_>)) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > self.next {
                return;
            }
            let (position, piece) = entry.remove_entry();
            match piece {
                Waiting::Bytes(bytes) => {
                    self.waiting_bytes -= bytes.len();
                    self.emit_bytes(position, &bytes, emit);
                }
                Waiting::Hole(length) => self.skip_to(position.saturating_add(length), emit),
            }
        }
    }

    fn emit_bytes(&mut self, position: u64, bytes: &[u8], emit: &mut impl FnMut(Piece<'_>)) {
        let seen = usize::try_from(self.next - position).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(seen..).filter(|rest| !rest.is_empty()) else {
            return;
        };
        let position = self.next;
        self.next += bytes.len() as u64;
        self.captured += bytes.len() as u64;
        emit(Piece::Bytes { position, bytes });
    }

    fn skip_to(&mut self, position: u64, emit: &mut impl FnMut(Piece<'_>)) {
        if position > self.next {
            let length = position - self.next;
            self.lost += length;
            emit(Piece::Gap {
                position: self.next,
                length,
            });
            self.next = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The stream with lost bytes as `None`.
    fn collect(out: &mut Vec<Option<u8>>) -> impl FnMut(Piece<'_>) {
        |piece| match piece {
            Piece::Bytes { position, bytes } => {
                assert_eq!(position, out.len() as u64);
                out.extend(bytes.iter().copied().map(Some));
            }
            Piece::Gap { position, length } => {
                assert_eq!(position, out.len() as u64);
                out.extend(std::iter::repeat_n(
                    None,
                    usize::try_from(length).unwrap_or(0),
                ));
            }
        }
    }

    #[test]
    fn waits_for_a_piece_that_was_overtaken() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.push(3, b"def", 0, &mut collect(&mut out));
        stream.settle(PATIENCE, &mut collect(&mut out));
        assert_eq!(out, []);
        stream.push(0, b"abc", PATIENCE, &mut collect(&mut out));
        assert_eq!(out, b"abcdef".map(Some));
        assert_eq!((stream.captured(), stream.lost()), (6, 0));
    }

    #[test]
    fn gives_up_after_a_while() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.push(2, b"c", 0, &mut collect(&mut out));
        stream.settle(PATIENCE + 1, &mut collect(&mut out));
        assert_eq!(out, [None, None, Some(b'c')]);
        // Bytes declared lost stay lost.
        stream.push(0, b"ab", PATIENCE + 2, &mut collect(&mut out));
        assert_eq!(out.len(), 3);
        assert_eq!((stream.captured(), stream.lost()), (1, 2));
    }

    #[test]
    fn a_hole_is_lost_when_its_turn_comes() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.missing(1, 2, 0, &mut collect(&mut out));
        assert_eq!(out, []);
        stream.push(0, b"a", 0, &mut collect(&mut out));
        assert_eq!(out, [Some(b'a'), None, None]);
    }

    #[test]
    fn waits_within_bounds() {
        let mut stream = Reassembly::new(0);
        let piece = vec![0; 1 << 20];
        for index in 0..64 {
            stream.push(1 + (index << 20), &piece, 0, &mut |_| {});
            assert!(stream.waiting_bytes <= WAITING_MAX + piece.len());
        }
    }

    proptest! {
        /// Whatever the order, overlaps and losses: each byte comes out once, in its place, or is
        /// counted as lost.
        #[test]
        fn every_byte_is_accounted_for(
            pieces in prop::collection::vec((0_u64..200, 1_usize..40, any::<bool>()), 0..60),
        ) {
            let byte = |position: u64| u8::try_from(position % 251).unwrap_or(0);
            let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
            for (time, (position, length, lost)) in pieces.into_iter().enumerate() {
                if lost {
                    stream.missing(position, length as u64, time as u64, &mut collect(&mut out));
                } else {
                    let bytes: Vec<u8> = (position..).take(length).map(byte).collect();
                    stream.push(position, &bytes, time as u64, &mut collect(&mut out));
                }
            }
            stream.finish(300, &mut collect(&mut out));
            prop_assert_eq!(out.len(), 300);
            prop_assert_eq!(stream.captured() + stream.lost(), 300);
            for (position, found) in out.into_iter().enumerate() {
                prop_assert!(found.is_none_or(|found| found == byte(position as u64)));
            }
        }
    }
}
