//! Compares what the two ends of a stream saw.
//!
//! The probes copy a call's bytes out of the caller's memory a moment after the kernel did. A
//! server cannot be trusted with that moment: a second thread can rewrite the buffer in between, so
//! that the record differs from what was sent. The client's end is out of the server's reach. So
//! both ends are captured and compared. Where they differ, the client's bytes count, and the
//! difference is reported.
//!
//! The reader's end defines the order, because it has the stream as it was. At the writer's end two
//! threads may return from their calls in a different order than their bytes went in, so writes may
//! swap places. A process that the probes do not follow yet may have written or read in between,
//! so one end's count may lag behind the other's, and a write that was in progress when the stream
//! became known may have been counted twice (`beginning`). None of this is a difference. Bytes that
//! cannot be compared, because one end's copy is missing, pass unchanged.

mod alignment;
mod beginning;
mod evidence;
mod writes;

use std::cmp::Ordering;
use std::time::Duration;

use mcpinspect_common::End;

use self::alignment::Pattern;
use self::beginning::{Beginning, Verdict};
use self::evidence::Evidence;
use self::writes::PendingWrites;
use crate::model::{BootTime, Content, Segment, StreamEvent};

/// Most bytes of the reader's end that wait for the writer's.
const WAITING_MAX: usize = writes::BYTES_MAX;
/// How long they wait.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How often the ends of a new stream may be shifted until they agree.
const ALIGNMENTS_MAX: u8 = 4;
/// How often the ends may differ before comparison stops. Finding the reason takes a walk through
/// everything that waits, and a server may well try to cause many of them.
const MISMATCHES_MAX: u32 = 64;
/// Equal bytes after which earlier mismatches no longer count.
const FORGIVEN_AFTER: u64 = 1 << 20;
/// Bytes of each end that a difference quotes.
const QUOTED: usize = 160;
/// Capacity of the read buffer that is kept while nothing waits.
const SPARE: usize = 4 << 10;

/// Where the two ends of a stream start to count. The reader always counts from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Both count from the stream's first byte.
    Together,
    /// This many bytes were unread when the stream became known: the writer counts from there. A write
    /// may have been in progress.
    Unread(u64),
    /// The same in the middle of a session, where a read may have been in progress too, and processes
    /// that were not followed may have moved bytes.
    Midstream(u64),
}

impl Start {
    fn written_from(self) -> u64 {
        match self {
            Self::Together => 0,
            Self::Unread(unread) | Self::Midstream(unread) => unread,
        }
    }
}

/// Compares the two ends of one stream.
#[derive(Debug)]
pub struct EndComparison {
    /// The client's end, whose bytes count.
    authority: End,
    /// Whether both ends are known to count from the same byte.
    aligned: bool,
    /// What both ends saw first, until it is certain where the writer's count starts.
    beginning: Option<Box<Beginning>>,
    /// Whether the stream became known in the middle of a session.
    midstream: bool,
    /// By how much the writer's count turned out to be wrong.
    correction: i64,
    /// Bytes that the writer may have counted twice: unread when the stream became known, and part
    /// of a write that was in progress then.
    counted_twice: u64,
    /// How often the ends were shifted to make them agree.
    alignments: u8,
    /// Bytes that were equal at both ends.
    equal: u64,
    /// Whether the ends are proven to count alike.
    evidence: Evidence,
    /// Position of the first byte of `read` that was not compared yet.
    position: u64,
    /// What was read; compared up to `consumed`.
    read: Vec<u8>,
    consumed: usize,
    /// Bytes after `consumed` that were already passed on.
    passed_on: usize,
    writes: PendingWrites,
    /// The writer's bytes before this position will not arrive.
    unseen_until: u64,
    /// How far the writer's count is behind the reader's: bytes of a writer that was not seen.
    /// Negative for bytes of a reader that was not seen.
    behind: i64,
    /// Since when the first byte of `read` has waited.
    since: BootTime,
    /// How often the ends differed, and `equal` the last time they did.
    mismatches: u32,
    mismatched_at: u64,
    /// Whether the ends turned out not to be comparable.
    given_up: bool,
}

impl EndComparison {
    /// Compares a stream that the client reads (`authority` is [`End::Reader`]) or writes.
    pub fn new(authority: End, start: Start) -> Self {
        let written_from = start.written_from();
        let midstream = matches!(start, Start::Midstream(_));
        let aligned = !midstream && written_from == 0;
        let beginning = (!aligned)
            .then(|| Beginning::new(written_from, midstream))
            .flatten();
        Self {
            authority,
            aligned,
            beginning: beginning.map(Box::new),
            midstream,
            correction: 0,
            counted_twice: written_from,
            alignments: 0,
            equal: 0,
            evidence: Evidence::default(),
            position: 0,
            read: Vec::new(),
            consumed: 0,
            passed_on: 0,
            writes: PendingWrites::default(),
            unseen_until: written_from,
            behind: 0,
            since: BootTime::default(),
            mismatches: 0,
            mismatched_at: 0,
            given_up: false,
        }
    }

    /// Bytes that were equal at both ends.
    pub fn equal(&self) -> u64 {
        self.equal
    }

    /// By how many bytes the writer's count is too low, as the first bytes showed; negative if it is
    /// too high.
    pub fn correction(&self) -> i64 {
        self.correction
    }

    /// Takes in the next segment of the reader's end, in order.
    pub fn read(
        &mut self,
        segment: Segment<'_>,
        now: BootTime,
        emit: &mut dyn FnMut(StreamEvent<'_>),
    ) {
        let position = segment.position;
        match &segment.content {
            Content::Lost { .. } => {
                self.beginning = None;
                self.skip(usize::MAX, now, emit);
                self.position = segment.end();
                self.writes.forget_before(self.position);
                self.unseen_until = self.unseen_until.max(self.position);
                emit(segment.into());
            }
            Content::Bytes(_) if self.given_up => emit(segment.into()),
            Content::Bytes(bytes) => {
                if self.is_waiting() {
                    self.trim();
                } else {
                    self.position = position;
                    self.since = now;
                }
                self.read.extend_from_slice(bytes);
                let in_order = |kept: &mut Box<Beginning>| kept.read(position, bytes);
                if self.beginning.as_mut().is_some_and(in_order) {
                    self.judge_beginning(false);
                } else {
                    self.beginning = None;
                }
                if self.authority == End::Reader {
                    self.pass_on(emit);
                }
                self.compare(now, emit);
                self.release(emit);
                if self.read.len() - self.consumed > WAITING_MAX {
                    self.force_progress(now, emit);
                }
            }
        }
    }

    /// Takes in bytes that were seen at the writer's end.
    pub fn written(
        &mut self,
        position: u64,
        bytes: &[u8],
        now: BootTime,
        emit: &mut dyn FnMut(StreamEvent<'_>),
    ) {
        if self.given_up {
            return;
        }
        if let Some(beginning) = &mut self.beginning {
            beginning.written(position, bytes);
            self.judge_beginning(false);
        }
        let position = position.saturating_add_signed(self.behind);
        let end = position.saturating_add(bytes.len() as u64);
        if end <= self.position.max(self.unseen_until) {
            // A write longer than the stream's buffer returns once most of it has been read.
            return;
        }
        if !self.writes.insert(position, bytes) {
            // The reader is not seen, or far behind.
            self.unseen_until = end;
            self.writes.clear();
            return;
        }
        self.compare(now, emit);
        self.release(emit);
    }

    /// Whether bytes of the reader's end wait for the writer's.
    pub fn is_waiting(&self) -> bool {
        self.consumed < self.read.len()
    }

    /// The memory taken by what waits, in bytes.
    pub fn memory(&self) -> usize {
        let beginning = self.beginning.as_ref().map_or(0, |kept| kept.memory());
        self.read.capacity() + self.writes.memory() + beginning
    }

    /// Frees what waits: it is passed on without having been compared.
    pub fn skip_all(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        self.beginning = None;
        if let Some(end) = self.writes.end() {
            self.unseen_until = self.unseen_until.max(end);
        }
        self.writes = PendingWrites::default();
        self.skip(usize::MAX, now, emit);
        self.read = Vec::new();
    }

    /// Continues without what is overdue. Call this regularly.
    pub fn settle(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        if self.is_waiting() && now.since(self.since) > TIMEOUT {
            self.force_progress(now, emit);
        }
    }

    /// Ends the comparison: nothing more comes from the writer's end.
    pub fn finish(&mut self, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        while self.is_waiting() {
            self.force_progress(self.since, emit);
        }
    }

    /// Compares as much as both ends have.
    fn compare(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        while self.is_waiting() {
            if self.position < self.unseen_until {
                let unseen = self.unseen_until - self.position;
                self.skip(usize::try_from(unseen).unwrap_or(usize::MAX), now, emit);
                continue;
            }
            let read = &self.read[self.consumed..];
            let Some(front) = self.writes.front_mut() else {
                return;
            };
            if front.position + front.matched as u64 != self.position {
                if front.position > self.position {
                    return;
                }
                // Its start was passed on without having been compared.
                match usize::try_from(self.position - front.position) {
                    Ok(passed) if passed < front.bytes.len() => front.matched = passed,
                    _ => self.writes.pop_front(),
                }
                continue;
            }
            let rest = &front.bytes[front.matched..];
            let common = rest.len().min(read.len());
            if rest[..common] == read[..common] {
                front.matched += common;
                let whole = front.matched == front.bytes.len();
                self.equal += common as u64;
                if !self.aligned {
                    self.evidence.equal(&read[..common]);
                }
                self.pass(common, now, emit);
                if whole {
                    self.writes.pop_front();
                }
            } else if self.beginning.is_some() {
                // More of it will tell where the count starts.
                return;
            } else if !self.align_beginning(now, emit) {
                let read = &self.read[self.consumed..];
                if !self.writes.take_overtaker(read, self.position) {
                    return;
                }
                self.evidence.interrupt();
            }
        }
    }

    /// Corrects the writer's count if the first bytes show that it is wrong, and forgets them once they
    /// have shown what they can. `last` asks for the best answer available.
    fn judge_beginning(&mut self, last: bool) {
        let verdict = match &mut self.beginning {
            Some(beginning) => beginning.verdict(last),
            None => return,
        };
        if verdict == Verdict::Undecided {
            return;
        }
        self.beginning = None;
        // In the middle of a session there are more reasons than this one.
        self.aligned = !self.midstream && verdict != Verdict::Incomparable;
        if let Verdict::Shifted(by) = verdict {
            self.correction = by;
            self.counted_twice = 0;
            self.unseen_until = self.unseen_until.saturating_add_signed(by.max(0));
            self.shift(by);
        }
    }

    /// Whether the ends may count from different bytes.
    fn is_uncertain(&self) -> bool {
        !self.aligned && !self.evidence.is_proof()
    }

    /// Aligns the ends at the beginning of a stream, where they may count from different bytes.
    /// Returns whether one of them was shifted.
    fn align_beginning(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) -> bool {
        self.is_uncertain() && self.alignments < ALIGNMENTS_MAX && self.realign(now, emit) && {
            self.alignments += 1;
            true
        }
    }

    /// Advances by at least one step, whatever is missing.
    fn force_progress(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        let Some(front) = self.writes.front() else {
            return self.skip(usize::MAX, now, emit);
        };
        let missing = front.position.saturating_sub(self.position);
        if missing > 0 {
            if self.align_beginning(now, emit) {
                return self.compare(now, emit);
            }
            self.skip(usize::try_from(missing).unwrap_or(usize::MAX), now, emit);
            return self.compare(now, emit);
        }
        if self.beginning.is_some() {
            self.judge_beginning(true);
            self.beginning = None;
            return self.compare(now, emit);
        }
        let Some(front) = self.writes.front() else {
            return;
        };
        let length = front.bytes.len() as u64;
        if front.overtaken && length <= self.counted_twice {
            // It was never read although later bytes were, and may have been counted before.
            self.counted_twice -= length;
            self.writes.pop_front();
            self.shift(-i64::try_from(length).unwrap_or(0));
            return self.compare(now, emit);
        }
        if self.equal - self.mismatched_at > FORGIVEN_AFTER {
            self.mismatches = 0;
        }
        self.mismatches += 1;
        self.mismatched_at = self.equal;
        if self.mismatches > MISMATCHES_MAX {
            return self.give_up(now, emit);
        }
        if self.realign(now, emit) {
            return self.compare(now, emit);
        }
        if self.is_uncertain() {
            return self.start_over(now, emit);
        }
        self.report_difference(now, emit);
        self.compare(now, emit);
    }

    /// Reports that the first write differs from what was read, and continues after it.
    fn report_difference(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        let (Some(front), read) = (self.writes.front(), &self.read[self.consumed..]) else {
            return;
        };
        let rest = &front.bytes[front.matched..];
        let common = rest.len().min(read.len());
        let same = rest.iter().zip(read).take_while(|(a, b)| a == b).count();
        emit(StreamEvent::Difference {
            position: self.position + same as u64,
            length: (common - same) as u64,
            read: read[same..common.min(same + QUOTED)].into(),
            written: rest[same..common.min(same + QUOTED)].into(),
        });
        if common > self.passed_on {
            let position = self.position + self.passed_on as u64;
            emit(Segment::new(position, &rest[self.passed_on..common]).into());
        }
        self.advance(common, now);
        // The rest of the write is compared with what is read next.
        if let Some(front) = self.writes.front_mut() {
            front.matched += common;
            if front.matched == front.bytes.len() {
                self.writes.pop_front();
            }
        }
    }

    /// Stops comparing this stream.
    fn give_up(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        tracing::debug!(
            position = self.position,
            "the ends of a stream cannot be aligned; they are no longer compared"
        );
        self.given_up = true;
        self.writes.clear();
        self.skip(usize::MAX, now, emit);
    }

    /// Leaves what is here uncompared, and tries again with what comes next.
    fn start_over(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        self.writes.clear();
        self.alignments = 0;
        self.skip(usize::MAX, now, emit);
    }

    /// Looks for an offset from which both ends continue alike, one of them having more in between, and
    /// shifts the writer's count accordingly. Returns whether there is one.
    fn realign(&mut self, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) -> bool {
        let Some(front) = self.writes.front() else {
            return false;
        };
        let seen = match front.position.cmp(&self.position) {
            Ordering::Greater => 0,
            _ => front.matched,
        };
        let read = [&front.bytes[..seen], &self.read[self.consumed..]].concat();
        let first = front.position;
        let from = self.position.saturating_sub(seen as u64);
        let runs = self.writes.runs();
        let more = runs.first().and_then(|(_, run)| {
            let after = usize::from(first == from);
            Pattern::new(run)?.offset_in(&read, after)
        });
        if let Some(more) = more {
            self.shift((from + more as u64).cast_signed() - first.cast_signed());
            self.skip(more.saturating_sub(seen), now, emit);
            return true;
        }
        let at = Pattern::new(&read).and_then(|read| {
            runs.iter().find_map(|(at, run)| {
                let after = usize::from(*at == from);
                Some(at + read.offset_in(run, after)? as u64)
            })
        });
        let Some(at) = at else {
            return false;
        };
        self.shift(from.cast_signed() - at.cast_signed());
        self.evidence.interrupt();
        true
    }

    /// Corrects the writer's count.
    fn shift(&mut self, by: i64) {
        self.behind = self.behind.saturating_add(by);
        self.writes.shift(by);
    }

    /// Finishes with the next `length` bytes, where present, which were not compared.
    fn skip(&mut self, length: usize, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        self.evidence.interrupt();
        self.pass(length, now, emit);
    }

    /// Finishes with the next `length` bytes, where present.
    fn pass(&mut self, length: usize, now: BootTime, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        let length = length.min(self.read.len() - self.consumed);
        let all = &self.read[self.consumed..];
        if length > self.passed_on {
            let position = self.position + self.passed_on as u64;
            emit(Segment::new(position, &all[self.passed_on..length]).into());
        }
        self.advance(length, now);
    }

    /// Passes on what was read, unless the write at the same position is here too and differs: which
    /// end is right shows once no other write can have come first.
    fn release(&mut self, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        let differs = self
            .writes
            .front()
            .is_some_and(|front| front.position <= self.position);
        if !differs {
            self.pass_on(emit);
        }
    }

    /// Passes on everything that was read, compared or not.
    fn pass_on(&mut self, emit: &mut dyn FnMut(StreamEvent<'_>)) {
        let all = &self.read[self.consumed..];
        if self.passed_on < all.len() {
            let position = self.position + self.passed_on as u64;
            emit(Segment::new(position, &all[self.passed_on..]).into());
            self.passed_on = all.len();
        }
    }

    fn advance(&mut self, length: usize, now: BootTime) {
        self.consumed += length;
        self.passed_on = self.passed_on.saturating_sub(length);
        self.position += length as u64;
        self.since = now;
        if !self.is_waiting() {
            self.read.clear();
            self.consumed = 0;
            if self.read.capacity() > SPARE {
                self.read = Vec::new();
            }
        }
    }

    /// Moves what waits to the front once most of the buffer was consumed.
    fn trim(&mut self) {
        if self.consumed > self.read.len() / 2 {
            self.read.drain(..self.consumed);
            self.consumed = 0;
        }
    }
}

#[cfg(test)]
mod tests;
