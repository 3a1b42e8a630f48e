//! Puts the segments of one stream in order by position, and finds what is missing.
//!
//! The probes number every byte when it moves, even if its copy is lost afterwards. So a segment that
//! starts beyond the next expected byte means that a segment in between is still on its way
//! (two threads that read the same stream may finish in either order) or was lost. Segments wait for a
//! moment; after that, the missing bytes become a gap of exactly their length.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::{BootTime, Content, GapReason, Segment};

/// How long a segment waits for the one before it. Segments overtake each other by
/// microseconds.
const TIMEOUT: Duration = Duration::from_millis(100);
/// Most bytes that wait. Above this, missing bytes are given up at once.
const WAITING_MAX: usize = 4 << 20;
/// Most segments that wait.
const SEGMENTS_MAX: usize = 4096;

/// Orders one stream.
#[derive(Debug)]
pub struct Reassembly {
    next: u64,
    /// What came too early, by position.
    waiting: BTreeMap<u64, Content<'static>>,
    waiting_bytes: usize,
    /// When the oldest waiting segment arrived.
    since: BootTime,
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
            since: BootTime::default(),
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

    /// Whether segments wait for one before them.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The memory that waiting segments take, in bytes.
    pub fn memory(&self) -> usize {
        self.waiting_bytes + self.waiting.len() * size_of::<(u64, Content<'_>)>()
    }

    /// Takes in a segment. Bytes that were already emitted are dropped.
    pub fn push(
        &mut self,
        segment: &Segment<'_>,
        now: BootTime,
        emit: &mut impl FnMut(Segment<'_>),
    ) {
        let position = segment.position;
        match &segment.content {
            Content::Bytes(_) if position > self.next => {
                self.hold(segment, now);
                self.settle(now, emit);
            }
            Content::Bytes(bytes) => {
                self.emit_bytes(position, bytes, emit);
                self.advance(emit);
            }
            Content::Lost { .. } => {
                self.hold(segment, now);
                self.advance(emit);
            }
        }
    }

    /// Gives up bytes that other segments have waited for too long. Call this regularly.
    pub fn settle(&mut self, now: BootTime, emit: &mut impl FnMut(Segment<'_>)) {
        if self.waiting.is_empty() {
            return;
        }
        let full = self.waiting_bytes > WAITING_MAX || self.waiting.len() > SEGMENTS_MAX;
        if full || now.since(self.since) > TIMEOUT {
            self.give_up(GapReason::RingFull, emit);
            self.since = now;
        }
    }

    /// Ends the stream at `end`: bytes that have not arrived by now are lost, for `reason`.
    pub fn finish(&mut self, end: u64, reason: GapReason, emit: &mut impl FnMut(Segment<'_>)) {
        self.give_up(reason, emit);
        self.skip_to(end, reason, emit);
    }

    fn hold(&mut self, segment: &Segment<'_>, now: BootTime) {
        if self.waiting.is_empty() {
            self.since = now;
        }
        let (position, content) = (segment.position, &segment.content);
        // Of two segments at one position, the longer one has more of the stream.
        if let Some(old) = self.waiting.get(&position)
            && old.length() >= content.length()
        {
            return;
        }
        self.waiting_bytes += content.memory();
        if let Some(old) = self.waiting.insert(position, content.clone().into_owned()) {
            self.waiting_bytes -= old.memory();
        }
    }

    /// Emits everything that waits, with gaps in between for `reason`.
    pub fn give_up(&mut self, reason: GapReason, emit: &mut impl FnMut(Segment<'_>)) {
        while let Some((&position, _)) = self.waiting.first_key_value() {
            self.skip_to(position, reason, emit);
            self.advance(emit);
        }
    }

    /// Emits the waiting segments that come next. Those that are lost keep their own reasons.
    fn advance(&mut self, emit: &mut impl FnMut(Segment<'_>)) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > self.next {
                return;
            }
            let (position, content) = entry.remove_entry();
            self.waiting_bytes -= content.memory();
            match content {
                Content::Bytes(bytes) => self.emit_bytes(position, &bytes, emit),
                Content::Lost { length, reason } => {
                    self.skip_to(position.saturating_add(length), reason, emit);
                }
            }
        }
    }

    fn emit_bytes(&mut self, position: u64, bytes: &[u8], emit: &mut impl FnMut(Segment<'_>)) {
        let seen = usize::try_from(self.next - position).unwrap_or(usize::MAX);
        let Some(bytes) = bytes.get(seen..).filter(|rest| !rest.is_empty()) else {
            return;
        };
        let position = self.next;
        self.next += bytes.len() as u64;
        self.captured += bytes.len() as u64;
        emit(Segment::new(position, bytes));
    }

    fn skip_to(&mut self, position: u64, reason: GapReason, emit: &mut impl FnMut(Segment<'_>)) {
        if position > self.next {
            let length = position - self.next;
            self.lost += length;
            emit(Segment::lost(self.next, length, reason));
            self.next = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: BootTime = BootTime(0);

    /// The stream with lost bytes as `None`.
    fn collect(out: &mut Vec<Option<u8>>) -> impl FnMut(Segment<'_>) {
        |segment| {
            assert_eq!(segment.position, out.len() as u64);
            match &segment.content {
                Content::Bytes(bytes) => out.extend(bytes.iter().copied().map(Some)),
                Content::Lost { length, .. } => {
                    let length = usize::try_from(*length).unwrap_or(0);
                    out.extend(std::iter::repeat_n(None, length));
                }
            }
        }
    }

    fn bytes(position: u64, bytes: &[u8]) -> Segment<'_> {
        Segment::new(position, bytes)
    }

    fn lost(position: u64, length: u64) -> Segment<'static> {
        Segment::lost(position, length, GapReason::PageNotResident)
    }

    #[test]
    fn waits_for_a_piece_that_was_overtaken() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.push(&bytes(3, b"def"), NOW, &mut collect(&mut out));
        stream.settle(NOW + TIMEOUT, &mut collect(&mut out));
        assert_eq!(out, []);
        stream.push(&bytes(0, b"abc"), NOW + TIMEOUT, &mut collect(&mut out));
        assert_eq!(out, b"abcdef".map(Some));
        assert_eq!((stream.captured(), stream.lost()), (6, 0));
    }

    #[test]
    fn gives_up_after_a_while() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.push(&bytes(2, b"c"), NOW, &mut collect(&mut out));
        stream.settle(BootTime(1) + TIMEOUT, &mut collect(&mut out));
        assert_eq!(out, [None, None, Some(b'c')]);
        // Bytes declared lost stay lost.
        stream.push(
            &bytes(0, b"ab"),
            BootTime(2) + TIMEOUT,
            &mut collect(&mut out),
        );
        assert_eq!(out.len(), 3);
        assert_eq!((stream.captured(), stream.lost()), (1, 2));
    }

    #[test]
    fn a_hole_is_lost_when_its_turn_comes() {
        let (mut stream, mut out) = (Reassembly::new(0), Vec::new());
        stream.push(&lost(1, 2), NOW, &mut collect(&mut out));
        assert_eq!(out, []);
        stream.push(&bytes(0, b"a"), NOW, &mut collect(&mut out));
        assert_eq!(out, [Some(b'a'), None, None]);
    }

    #[test]
    fn a_loss_keeps_its_reason_whatever_overtakes_it() {
        let (mut stream, mut reasons) = (Reassembly::new(0), Vec::new());
        let mut emit = |segment: Segment<'_>| {
            if let Content::Lost { reason, .. } = segment.content {
                reasons.push(reason);
            }
        };
        stream.push(&bytes(5, b"f"), NOW, &mut emit);
        stream.push(&lost(1, 2), NOW, &mut emit);
        // In place of "a" and of "de", nothing comes.
        stream.settle(BootTime(1) + TIMEOUT, &mut emit);
        let (full, page) = (GapReason::RingFull, GapReason::PageNotResident);
        assert_eq!(reasons, [full, page, full]);
    }

    #[test]
    fn waits_within_bounds() {
        let mut stream = Reassembly::new(0);
        let piece = vec![0; 1 << 20];
        for index in 0..64 {
            stream.push(&bytes(1 + (index << 20), &piece), NOW, &mut |_| {});
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
            for (time, (position, length, is_lost)) in pieces.into_iter().enumerate() {
                let segment = if is_lost {
                    lost(position, length as u64)
                } else {
                    let bytes: Vec<u8> = (position..).take(length).map(byte).collect();
                    Segment::new(position, bytes)
                };
                stream.push(&segment, BootTime(time as u64), &mut collect(&mut out));
            }
            stream.finish(300, GapReason::RingFull, &mut collect(&mut out));
            prop_assert_eq!(out.len(), 300);
            prop_assert_eq!(stream.captured() + stream.lost(), 300);
            for (position, found) in out.into_iter().enumerate() {
                prop_assert!(found.is_none_or(|found| found == byte(position as u64)));
            }
        }
    }
}
