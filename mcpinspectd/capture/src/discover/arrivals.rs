//! When the bytes of a stream arrived that have not come out yet.
//!
//! Bytes may be held back: until those before them arrive, or until it is clear whether both ends
//! have the same ones. They come out with the time at which they arrived, which is their place among
//! the bytes of the session's other stream.

use std::collections::VecDeque;

use mcpinspect_core::model::{BootTime, Content, Segment, StreamEvent};

/// Most pieces to keep apart; any excess counts as one piece.
const PIECES_MAX: usize = 4096;
/// Pieces for which there is room while none waits.
const SPARE: usize = 16;

/// Takes what comes out of a stream, with the time at which it arrived.
pub type Emit<'e> = dyn FnMut(StreamEvent<'_>, BootTime) + 'e;

/// One piece that arrived.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    start: u64,
    end: u64,
    time: BootTime,
}

/// The pieces by position. Each has bytes that have not come out.
#[derive(Debug, Default)]
pub struct Arrivals {
    pieces: VecDeque<Arrival>,
    /// Where the next byte comes out.
    next: u64,
}

impl Arrivals {
    /// Notes that bytes have arrived.
    pub fn note(&mut self, start: u64, length: u64, time: BootTime) {
        let end = start.saturating_add(length);
        if length == 0 || end <= self.next {
            return;
        }
        if self.pieces.len() >= PIECES_MAX
            && let Some(last) = self.pieces.back_mut()
        {
            last.end = last.end.max(end);
            return;
        }
        let at = self.pieces.partition_point(|piece| piece.start <= start);
        self.pieces.insert(at, Arrival { start, end, time });
    }

    /// The memory they take, in bytes.
    pub fn memory(&self) -> usize {
        self.pieces.capacity() * size_of::<Arrival>()
    }

    /// When the oldest byte arrived that has not come out.
    pub fn oldest(&self) -> Option<BootTime> {
        self.pieces.iter().map(|piece| piece.time).min()
    }

    /// Passes on what comes out now, split where arrival times differ.
    pub fn emit(&mut self, event: StreamEvent<'_>, now: BootTime, emit: &mut Emit<'_>) {
        match event {
            StreamEvent::Segment(Segment {
                mut position,
                content: Content::Bytes(bytes),
            }) => {
                let mut bytes = &*bytes;
                while !bytes.is_empty() {
                    let (end, time) = self.at(position).unwrap_or((u64::MAX, now));
                    let length = usize::try_from(end - position).unwrap_or(usize::MAX);
                    let (piece, rest) = bytes.split_at(length.min(bytes.len()));
                    emit(Segment::new(position, piece).into(), time);
                    position += piece.len() as u64;
                    bytes = rest;
                    self.came_out(position);
                }
            }
            StreamEvent::Segment(lost) => {
                let end = lost.end();
                self.came_out(end);
                // Just before what follows it.
                let time = self.at(end).map_or(now, |(_, time)| time);
                emit(lost.into(), time);
            }
            StreamEvent::Difference { position, .. } => {
                let time = self.at(position).map_or(now, |(_, time)| time);
                emit(event, time);
            }
            StreamEvent::End => emit(event, now),
        }
    }

    /// The piece that a byte belongs to, or else the next one: where it ends, and when it arrived.
    fn at(&self, position: u64) -> Option<(u64, BootTime)> {
        let piece = self.pieces.iter().find(|piece| piece.end > position)?;
        Some((piece.end, piece.time))
    }

    fn came_out(&mut self, next: u64) {
        self.next = self.next.max(next);
        while self
            .pieces
            .front()
            .is_some_and(|piece| piece.end <= self.next)
        {
            self.pieces.pop_front();
        }
        if self.pieces.is_empty() && self.pieces.capacity() > SPARE {
            self.pieces = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::GapReason;

    use super::*;

    fn bytes(position: u64, bytes: &[u8]) -> StreamEvent<'_> {
        Segment::new(position, bytes).into()
    }

    /// What comes out, with its times.
    fn out(arrivals: &mut Arrivals, event: StreamEvent<'_>) -> Vec<(String, BootTime)> {
        let mut out = Vec::new();
        arrivals.emit(event, BootTime(99), &mut |event, time| {
            let text = match event {
                StreamEvent::Segment(Segment { position, content }) => match content {
                    Content::Bytes(bytes) => {
                        format!("{position} {}", String::from_utf8_lossy(&bytes))
                    }
                    Content::Lost { length, .. } => format!("{position}+{length}"),
                },
                StreamEvent::Difference { position, .. } => format!("{position} differs"),
                StreamEvent::End => "end".to_owned(),
            };
            out.push((text, time));
        });
        out
    }

    fn said(what: &str, time: u64) -> (String, BootTime) {
        (what.to_owned(), BootTime(time))
    }

    #[test]
    fn bytes_come_out_with_the_moments_of_their_arrival() {
        let mut arrivals = Arrivals::default();
        arrivals.note(3, 3, BootTime(11));
        arrivals.note(0, 3, BootTime(12));
        assert_eq!(arrivals.oldest(), Some(BootTime(11)));
        assert_eq!(
            out(&mut arrivals, bytes(0, b"abcde")),
            [said("0 abc", 12), said("3 de", 11)]
        );
        assert_eq!(arrivals.oldest(), Some(BootTime(11)), "a byte is left");
        assert_eq!(out(&mut arrivals, bytes(5, b"f")), [said("5 f", 11)]);
        assert_eq!(arrivals.oldest(), None);
        assert_eq!(out(&mut arrivals, bytes(6, b"g")), [said("6 g", 99)]);
        arrivals.note(2, 5, BootTime(13));
        assert_eq!(arrivals.oldest(), None, "came out before");
    }

    #[test]
    fn a_gap_comes_with_what_is_behind_it() {
        let mut arrivals = Arrivals::default();
        arrivals.note(10, 5, BootTime(20));
        let gap = |position, length| Segment::lost(position, length, GapReason::RingFull).into();
        assert_eq!(out(&mut arrivals, gap(0, 10)), [said("0+10", 20)]);
        assert_eq!(
            out(&mut arrivals, bytes(10, b"01234")),
            [said("10 01234", 20)]
        );
        assert_eq!(out(&mut arrivals, gap(15, 1)), [said("15+1", 99)]);
    }

    #[test]
    fn a_bounded_number_of_pieces_is_told_apart() {
        let mut arrivals = Arrivals::default();
        for index in 0..2 * PIECES_MAX as u64 {
            arrivals.note(index, 1, BootTime(index));
        }
        assert_eq!(arrivals.pieces.len(), PIECES_MAX);
        let all = vec![b'x'; 2 * PIECES_MAX];
        assert_eq!(out(&mut arrivals, bytes(0, &all)).len(), PIECES_MAX);
        assert_eq!(arrivals.oldest(), None);
    }
}
