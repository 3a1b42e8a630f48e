//! What the two ends of a stream saw, side by side.
//!
//! The probes copy a call's bytes out of the memory of whoever makes it, a moment after the kernel
//! did. A server is not to be trusted with that moment: a second thread can rewrite its buffer in
//! between, and what was recorded is not what was sent. The client's end is out of its reach. So both
//! ends are looked at; where they differ, the client's bytes are the ones that count, and that they
//! differ is said.
//!
//! The reader's end gives the order: it has the stream as it was. At the writer's end two threads may
//! come back from their calls in another order than their bytes went in, so its pieces may change
//! places; and a process that the probes do not follow yet may have written or read in between, so
//! that one end's count is behind the other's. Neither is a difference. What cannot be compared,
//! because one end's bytes are missing, is passed on as it is.

use std::collections::VecDeque;

use mcpinspect_common::End;
use memchr::memmem;

use super::reassembly::Piece;

/// Bytes of one end that wait for those of the other at most: more than a pipe or a socket holds.
const WAITING_MAX: usize = 1 << 20;
/// Writes that wait at most.
const PIECES_MAX: usize = 4096;
/// How long they wait, in nanoseconds.
const PATIENCE: u64 = 100_000_000;
/// How many of the writer's pieces may have overtaken one.
const OVERTAKERS: usize = 8;
/// Bytes that have to be equal before a difference is believed, where the two counts may not have
/// begun at the same byte.
const PROOF: usize = 32;
/// How often the ends are moved until they agree, at most.
const BEGINNINGS_MAX: u8 = 4;
/// The shortest write that proves as much.
const PROOF_MIN: usize = 16;
/// How often the ends may differ before they are compared no more, and how many equal bytes make up
/// for it. To look for the reason takes a walk through all that waits, and a server may well want
/// many of them.
const DOUBTS_MAX: u32 = 64;
const REASSURING: u64 = 1 << 20;
/// Bytes that are shown of each end where they differ.
const SHOWN: usize = 160;

/// What comes out.
#[derive(Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// The stream goes on.
    Piece(Piece<'a>),
    /// The ends differ.
    Disagreement {
        /// The first byte that does.
        position: u64,
        /// From there to the end of the write.
        length: u64,
        /// What was read, from there on; bounded.
        read: &'a [u8],
        /// What was written, from there on; bounded.
        written: &'a [u8],
    },
}

/// A write, or a part of a long one.
#[derive(Debug)]
struct Written {
    position: u64,
    bytes: Vec<u8>,
    /// How many of its bytes were found at the reader's end.
    matched: usize,
    /// Whether a later one came first.
    overtaken: bool,
}

/// Both ends of one stream. Times are nanoseconds on any clock that does not jump.
#[derive(Debug)]
pub struct Ends {
    /// The client's end: whose bytes count.
    authority: End,
    /// Whether both ends surely count from the same byte.
    aligned: bool,
    /// Bytes that the writer may have been counted twice for: of what was unread when the stream became
    /// known, by a write that was under way then.
    twice: u64,
    /// How often the ends were moved until they agreed.
    beginnings: u8,
    /// Bytes that were equal.
    equal: u64,
    /// Bytes of whole writes among them. Messages have their beginnings in common.
    proven: usize,
    /// Position of the first byte in `read`.
    position: u64,
    /// What was read and not compared yet, from `consumed` on.
    read: Vec<u8>,
    consumed: usize,
    /// How many of them were handed on already.
    handed_on: usize,
    written: VecDeque<Written>,
    written_bytes: usize,
    /// Up to here the writer's bytes will not come.
    unseen_until: u64,
    /// What the writer's count is behind the reader's: bytes of a writer that was not seen. Below 0
    /// those of a reader that was not.
    behind: i64,
    /// Since when the first byte of `read` waits.
    since: u64,
    /// How often they differed, and what was equal then.
    doubts: u32,
    doubted_at: u64,
    /// Whether it turned out that the ends cannot be compared.
    given_up: bool,
}

impl Ends {
    /// A stream that is written by the server (`authority` is the reader) or by the client, of which
    /// the reader's first byte is at 0 and the writer's at `written_from`.
    pub fn new(authority: End, written_from: u64, aligned: bool) -> Self {
        Self {
            authority,
            aligned,
            twice: written_from,
            beginnings: 0,
            equal: 0,
            proven: 0,
            position: 0,
            read: Vec::new(),
            consumed: 0,
            written: VecDeque::new(),
            written_bytes: 0,
            unseen_until: written_from,
            behind: 0,
            since: 0,
            handed_on: 0,
            doubts: 0,
            doubted_at: 0,
            given_up: false,
        }
    }

    /// Bytes that were the same at both ends.
    pub fn equal(&self) -> u64 {
        self.equal
    }

    /// Takes in what comes out of the order of the reader's end.
    pub fn read(&mut self, piece: Piece<'_>, now: u64, say: &mut impl FnMut(Said<'_>)) {
        match piece {
            Piece::Gap { position, length } => {
                self.pass(usize::MAX, now, say);
                self.position = position + length;
                self.forget_written_before(self.position);
                say(Said::Piece(piece));
            }
            Piece::Bytes { .. } if self.given_up => say(Said::Piece(piece)),
            Piece::Bytes { position, bytes } => {
                if self.is_waiting() {
                    self.trim();
                } else {
                    self.position = position;
                    self.since = now;
                }
                self.read.extend_from_slice(bytes);
                if self.authority == End::Reader {
                    self.hand_on(say);
                }
                self.compare(now, say);
                self.release(say);
                if self.read.len() - self.consumed > WAITING_MAX {
                    self.give_way(now, say);
                }
            }
        }
    }

    /// Takes in what was seen at the writer's end.
    pub fn written(
        &mut self,
        position: u64,
        bytes: &[u8],
        now: u64,
        say: &mut impl FnMut(Said<'_>),
    ) {
        if self.given_up {
            return;
        }
        let length = bytes.len() as u64;
        let position = position.saturating_add_signed(self.behind);
        let end = position.saturating_add(length);
        if end <= self.position.max(self.unseen_until) {
            // A write that is longer than the stream has room is over when most of it was read.
            return;
        }
        if self.written_bytes + bytes.len() > WAITING_MAX || self.written.len() >= PIECES_MAX {
            // Its reader is not seen, or far behind.
            self.unseen_until = end;
            self.written.clear();
            self.written_bytes = 0;
            return;
        }
        self.written_bytes += bytes.len();
        let at = self
            .written
            .partition_point(|piece| piece.position <= position);
        self.written.insert(
            at,
            Written {
                position,
                bytes: bytes.to_vec(),
                matched: 0,
                overtaken: false,
            },
        );
        self.compare(now, say);
        self.release(say);
    }

    /// Whether bytes of the reader's end wait for those of the writer's.
    pub fn is_waiting(&self) -> bool {
        self.consumed < self.read.len()
    }

    /// Goes on without what has been waited for too long. To be called now and then.
    pub fn settle(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) {
        if self.is_waiting() && now.saturating_sub(self.since) > PATIENCE {
            self.give_way(now, say);
        }
    }

    /// Nothing more comes from the writer's end.
    pub fn finish(&mut self, say: &mut impl FnMut(Said<'_>)) {
        while self.is_waiting() {
            self.give_way(self.since, say);
        }
    }

    /// Compares as much as both ends have.
    fn compare(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) {
        while self.is_waiting() {
            if self.position < self.unseen_until {
                let unseen = self.unseen_until - self.position;
                self.pass(usize::try_from(unseen).unwrap_or(usize::MAX), now, say);
                continue;
            }
            let read = &self.read[self.consumed..];
            let Some(front) = self.written.front_mut() else {
                return;
            };
            if front.position + front.matched as u64 != self.position {
                if front.position > self.position {
                    return;
                }
                // A part of it was passed on already without having been compared.
                match usize::try_from(self.position - front.position) {
                    Ok(passed) if passed < front.bytes.len() => front.matched = passed,
                    _ => self.drop_front(),
                }
                continue;
            }
            let rest = &front.bytes[front.matched..];
            let common = rest.len().min(read.len());
            if rest[..common] == read[..common] {
                front.matched += common;
                let whole = front.matched == front.bytes.len();
                self.equal += common as u64;
                self.pass(common, now, say);
                if whole && let Some(front) = self.written.front() {
                    self.proven += front.bytes.len();
                    self.drop_front();
                }
            } else if !self.find_beginning(now, say) && !self.take_overtaker() {
                return;
            }
        }
    }

    /// Lays the ends side by side at the beginning of a stream of which they may count from different
    /// bytes. Gives whether they moved.
    fn find_beginning(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) -> bool {
        let uncertain = !self.aligned && self.proven < PROOF && self.beginnings < BEGINNINGS_MAX;
        uncertain && self.realign(now, say) && {
            self.beginnings += 1;
            true
        }
    }

    /// Puts the piece in front that was in fact written first. Gives whether there is one.
    fn take_overtaker(&mut self) -> bool {
        let read = &self.read[self.consumed..];
        let Some(front) = self.written.front() else {
            return false;
        };
        let seen = &front.bytes[..front.matched];
        let found = (1..self.written.len().min(OVERTAKERS)).find(|index| {
            self.written[*index]
                .bytes
                .strip_prefix(seen)
                .is_some_and(|rest| {
                    !rest.is_empty() && (read.starts_with(rest) || rest.starts_with(read))
                })
        });
        let Some(mut piece) = found.and_then(|index| {
            let length = self.written[index].bytes.len() as u64;
            for overtaken in self.written.range_mut(..index) {
                overtaken.position += length;
                overtaken.overtaken = true;
            }
            self.written.remove(index)
        }) else {
            return false;
        };
        if let Some(front) = self.written.front_mut() {
            piece.matched = std::mem::take(&mut front.matched);
            piece.position = self.position - piece.matched as u64;
        }
        self.written.push_front(piece);
        true
    }

    /// Goes on at least a step, whatever is missing.
    fn give_way(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) {
        let Some(front) = self.written.front() else {
            return self.pass(usize::MAX, now, say);
        };
        if front.position > self.position {
            let missing = front.position - self.position;
            self.pass(usize::try_from(missing).unwrap_or(usize::MAX), now, say);
            return self.compare(now, say);
        }
        let length = front.bytes.len() as u64;
        if front.overtaken && length <= self.twice {
            // It was never read although later bytes were, and may have been counted before.
            self.twice -= length;
            self.drop_front();
            self.shift(-i64::try_from(length).unwrap_or(0));
            return self.compare(now, say);
        }
        if self.equal - self.doubted_at > REASSURING {
            self.doubts = 0;
        }
        self.doubts += 1;
        self.doubted_at = self.equal;
        if self.doubts > DOUBTS_MAX {
            return self.give_up(now, say);
        }
        if self.realign(now, say) {
            return self.compare(now, say);
        }
        if !self.aligned && self.proven < PROOF {
            return self.give_up(now, say);
        }
        let (Some(front), read) = (self.written.front(), &self.read[self.consumed..]) else {
            return;
        };
        let rest = &front.bytes[front.matched..];
        let common = rest.len().min(read.len());
        let same = rest.iter().zip(read).take_while(|(a, b)| a == b).count();
        say(Said::Disagreement {
            position: self.position + same as u64,
            length: (common - same) as u64,
            read: &read[same..common.min(same + SHOWN)],
            written: &rest[same..common.min(same + SHOWN)],
        });
        if common > self.handed_on {
            say(Said::Piece(Piece::Bytes {
                position: self.position + self.handed_on as u64,
                bytes: &rest[self.handed_on..common],
            }));
        }
        self.advance(common, now);
        // What is left of the write is compared with what is read next.
        if let Some(front) = self.written.front_mut() {
            front.matched += common;
            if front.matched == front.bytes.len() {
                self.drop_front();
            }
        }
        self.compare(now, say);
    }

    /// Compares no more of this stream.
    fn give_up(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) {
        tracing::debug!(
            position = self.position,
            "the ends of a stream cannot be laid side by side; they are not compared"
        );
        self.given_up = true;
        self.written.clear();
        self.written_bytes = 0;
        self.pass(usize::MAX, now, say);
    }

    /// Looks for the place where both ends go on alike, one of them having more in between. Gives
    /// whether there is one.
    fn realign(&mut self, now: u64, say: &mut impl FnMut(Said<'_>)) -> bool {
        let Some(front) = self.written.front() else {
            return false;
        };
        let seen = front.matched;
        let read = [&front.bytes[..seen], &self.read[self.consumed..]].concat();
        if let Some(needle) = proof(&front.bytes)
            && let Some(more) = memmem::find_iter(&read, needle).find(|at| *at > 0)
        {
            self.shift(i64::try_from(more).unwrap_or(0));
            self.pass(more.saturating_sub(seen), now, say);
            return true;
        }
        let Some(needle) = proof(&read) else {
            return false;
        };
        let mut before = 0;
        let less = self.written.iter().find_map(|piece| {
            let mut places = memmem::find_iter(&piece.bytes, needle).map(|at| before + at);
            let place = places.find(|place| *place > 0);
            before += piece.bytes.len();
            place
        });
        if let Some(less) = less {
            self.shift(-i64::try_from(less).unwrap_or(0));
        }
        less.is_some()
    }

    /// Corrects the writer's count.
    fn shift(&mut self, by: i64) {
        self.behind = self.behind.saturating_add(by);
        let corrected = std::mem::take(&mut self.written);
        self.written = corrected
            .into_iter()
            .filter_map(|mut piece| {
                match piece.position.checked_add_signed(by) {
                    Some(position) => piece.position = position,
                    // It began before the stream that was read.
                    None => {
                        let before = usize::try_from(piece.position.abs_diff(by.unsigned_abs()));
                        piece.bytes.drain(..before.ok()?.min(piece.bytes.len()));
                        piece.position = 0;
                    }
                }
                piece.matched = 0;
                Some(piece)
            })
            .collect();
        self.written_bytes = self.written.iter().map(|piece| piece.bytes.len()).sum();
    }

    /// Is done with the next `length` bytes, as far as they are there.
    fn pass(&mut self, length: usize, now: u64, say: &mut impl FnMut(Said<'_>)) {
        let length = length.min(self.read.len() - self.consumed);
        let all = &self.read[self.consumed..];
        if length > self.handed_on {
            say(Said::Piece(Piece::Bytes {
                position: self.position + self.handed_on as u64,
                bytes: &all[self.handed_on..length],
            }));
        }
        self.advance(length, now);
    }

    /// Hands on what was read, unless what was written is here too and differs: who is right shows
    /// when no other write can have been first.
    fn release(&mut self, say: &mut impl FnMut(Said<'_>)) {
        let differs = self
            .written
            .front()
            .is_some_and(|front| front.position <= self.position);
        if !differs {
            self.hand_on(say);
        }
    }

    fn hand_on(&mut self, say: &mut impl FnMut(Said<'_>)) {
        let all = &self.read[self.consumed..];
        if self.handed_on < all.len() {
            say(Said::Piece(Piece::Bytes {
                position: self.position + self.handed_on as u64,
                bytes: &all[self.handed_on..],
            }));
            self.handed_on = all.len();
        }
    }

    fn advance(&mut self, length: usize, now: u64) {
        self.consumed += length;
        self.handed_on = self.handed_on.saturating_sub(length);
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

    /// Moves what waits to the front, when much was consumed.
    fn trim(&mut self) {
        if self.consumed > self.read.len() / 2 {
            self.read.drain(..self.consumed);
            self.consumed = 0;
        }
    }

    fn drop_front(&mut self) {
        if let Some(front) = self.written.pop_front() {
            self.written_bytes -= front.bytes.len();
        }
    }

    fn forget_written_before(&mut self, position: u64) {
        while self
            .written
            .front()
            .is_some_and(|front| front.position < position)
        {
            self.drop_front();
        }
        self.unseen_until = self.unseen_until.max(position);
    }
}

/// What shows that two ends go on alike, if there is enough of it.
fn proof(bytes: &[u8]) -> Option<&[u8]> {
    (bytes.len() >= PROOF_MIN).then(|| &bytes[..bytes.len().min(PROOF)])
}

/// A buffer of this size is kept for the next piece.
const SPARE: usize = 64 << 10;

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
