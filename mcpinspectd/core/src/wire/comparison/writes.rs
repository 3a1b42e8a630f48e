//! The writer's side of a comparison: writes that were seen but not yet found at the reader's end.

use std::collections::VecDeque;

use super::alignment::is_distinctive;

/// Most bytes kept: more than a pipe or a socket holds.
pub(super) const BYTES_MAX: usize = 1 << 20;
/// Most writes kept.
const WRITES_MAX: usize = 4096;
/// How many later writes may have overtaken one.
const OVERTAKERS: usize = 8;

/// One write, or a part of a long one.
#[derive(Debug)]
pub(super) struct Write {
    /// Where it starts, in the reader's count.
    pub(super) position: u64,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
    /// How many of its bytes have been found at the reader's end.
    pub(super) matched: usize,
    /// Whether a later write was read first.
    pub(super) overtaken: bool,
}

/// Writes ordered by position. `bytes` is always the sum of their lengths.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    writes: VecDeque<Write>,
    bytes: usize,
}

impl PendingWrites {
    /// Bytes kept.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory they take, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.writes.len() * size_of::<Write>()
    }

    /// Where the last one ends.
    pub(super) fn end(&self) -> Option<u64> {
        let last = self.writes.back()?;
        Some(last.position.saturating_add(last.bytes.len() as u64))
    }

    /// Inserts a write by its position. Returns false if there is no room for it.
    pub(super) fn insert(&mut self, position: u64, bytes: &[u8]) -> bool {
        if self.bytes + bytes.len() > BYTES_MAX || self.writes.len() >= WRITES_MAX {
            return false;
        }
        self.bytes += bytes.len();
        let at = self
            .writes
            .partition_point(|write| write.position <= position);
        self.writes.insert(
            at,
            Write {
                position,
                bytes: bytes.to_vec(),
                matched: 0,
                overtaken: false,
            },
        );
        true
    }

    /// The first write.
    pub(super) fn front(&self) -> Option<&Write> {
        self.writes.front()
    }

    /// The first write, to note how much of it was found.
    pub(super) fn front_mut(&mut self) -> Option<&mut Write> {
        self.writes.front_mut()
    }

    /// Removes the first write.
    pub(super) fn pop_front(&mut self) {
        if let Some(front) = self.writes.pop_front() {
            self.bytes -= front.bytes.len();
        }
    }

    /// Removes all writes.
    pub(super) fn clear(&mut self) {
        self.writes.clear();
        self.bytes = 0;
    }

    /// Removes the writes that start before `position`.
    pub(super) fn forget_before(&mut self, position: u64) {
        while self.front().is_some_and(|front| front.position < position) {
            self.pop_front();
        }
    }

    /// Moves the write that was actually read first to the front, where it starts at `position`.
    /// `read` is what the reader has from there on, after what the first write matched so far.
    /// Returns whether there is such a write.
    pub(super) fn take_overtaker(&mut self, read: &[u8], position: u64) -> bool {
        let Some(front) = self.writes.front() else {
            return false;
        };
        let seen = &front.bytes[..front.matched];
        let found = (1..self.writes.len().min(OVERTAKERS)).find(|index| {
            self.writes[*index]
                .bytes
                .strip_prefix(seen)
                .is_some_and(|rest| {
                    let common = rest.len().min(read.len());
                    common > 0
                        && rest[..common] == read[..common]
                        && is_distinctive(&rest[..common])
                })
        });
        let Some(mut overtaker) = found.and_then(|index| {
            let length = self.writes[index].bytes.len() as u64;
            for overtaken in self.writes.range_mut(..index) {
                overtaken.position += length;
                overtaken.overtaken = true;
            }
            self.writes.remove(index)
        }) else {
            return false;
        };
        if let Some(front) = self.writes.front_mut() {
            overtaker.matched = std::mem::take(&mut front.matched);
            overtaker.position = position - overtaker.matched as u64;
        }
        self.writes.push_front(overtaker);
        true
    }

    /// The bytes of writes that follow on each other, with the position of the first of them. Small writes tell
    /// more together.
    pub(super) fn runs(&self) -> Vec<(u64, Vec<u8>)> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for write in &self.writes {
            match runs.last_mut() {
                Some((at, run)) if *at + run.len() as u64 == write.position => {
                    run.extend_from_slice(&write.bytes);
                }
                _ => runs.push((write.position, write.bytes.clone())),
            }
        }
        runs
    }

    /// Moves all writes by `by` bytes and forgets what was matched. Anything that would then start before the
    /// stream is cut off.
    pub(super) fn shift(&mut self, by: i64) {
        let writes = std::mem::take(&mut self.writes);
        self.writes = writes
            .into_iter()
            .filter_map(|mut write| {
                match write.position.checked_add_signed(by) {
                    Some(position) => write.position = position,
                    None => {
                        let before = usize::try_from(write.position.abs_diff(by.unsigned_abs()));
                        write.bytes.drain(..before.ok()?.min(write.bytes.len()));
                        write.position = 0;
                    }
                }
                write.matched = 0;
                Some(write)
            })
            .collect();
        self.bytes = self.writes.iter().map(|write| write.bytes.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(writes: &PendingWrites) -> Vec<(u64, &[u8])> {
        writes
            .writes
            .iter()
            .map(|write| (write.position, write.bytes.as_slice()))
            .collect()
    }

    fn pending(texts: &[(u64, &[u8])]) -> PendingWrites {
        let mut writes = PendingWrites::default();
        for (position, bytes) in texts {
            assert!(writes.insert(*position, bytes));
        }
        writes
    }

    #[test]
    fn writes_are_kept_in_the_order_of_their_positions() {
        let writes = pending(&[(4, b"four"), (0, b"zero"), (8, b"eight")]);
        assert_eq!(
            texts(&writes),
            [(0, &b"zero"[..]), (4, b"four"), (8, b"eight")]
        );
        assert_eq!(writes.bytes(), 13);
    }

    #[test]
    fn the_sum_of_the_lengths_follows_every_change() {
        let mut writes = pending(&[(2, b"ab"), (4, b"cdef"), (8, b"gh")]);
        writes.pop_front();
        assert_eq!(writes.bytes(), 6);
        writes.shift(-6);
        assert_eq!(texts(&writes), [(0, &b"ef"[..]), (2, b"gh")]);
        assert_eq!(writes.bytes(), 4);
        writes.forget_before(2);
        assert_eq!(writes.bytes(), 2);
        writes.clear();
        assert_eq!((writes.bytes(), writes.front().is_none()), (0, true));
    }

    #[test]
    fn there_is_room_for_a_bounded_number_of_bytes_and_writes() {
        let mut writes = pending(&[(0, &[b'x'; BYTES_MAX])]);
        assert!(!writes.insert(1, b"y"));
        writes.clear();
        for position in 0..WRITES_MAX as u64 {
            assert!(writes.insert(position, b"y"));
        }
        assert!(!writes.insert(0, b"y"));
    }

    #[test]
    fn an_overtaker_comes_to_the_front() {
        let mut writes = pending(&[(0, b"first"), (5, b"second")]);
        assert!(writes.take_overtaker(b"secondfirst", 0));
        assert_eq!(texts(&writes), [(0, &b"second"[..]), (6, b"first")]);
        writes.pop_front();
        assert!(writes.front().is_some_and(|first| first.overtaken));
        assert!(!writes.take_overtaker(b"third", 6));
    }

    #[test]
    fn writes_that_follow_on_each_other_are_a_run() {
        let writes = pending(&[(3, b"def"), (0, b"abc"), (7, b"h")]);
        let runs = [(0, b"abcdef".to_vec()), (7, b"h".to_vec())];
        assert_eq!(writes.runs(), runs);
    }
}
