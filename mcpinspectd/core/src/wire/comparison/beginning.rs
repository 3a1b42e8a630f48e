//! Where the writer's count starts, when that is not certain.
//!
//! Bytes may lie in a stream when it becomes known. The kernel sums them up, and the writer's count
//! starts after them. A write that has put its bytes in by then but has not returned is part of the
//! sum and is counted again when it returns: then the writer's count is too high by that write. Only
//! the first write can be such a write, so there are few offsets where the count may really start,
//! and the bytes of both ends tell which it is. The beginning is kept until they do, and the
//! question is answered once.

/// Most bytes to keep after the uncertain ones. Two offsets look alike only while the
/// stream repeats one byte, or one short message.
const KEPT: usize = 8 << 10;
/// Most bytes that may be unread at the beginning.
const UNREAD_MAX: u64 = 1 << 20;
/// Longer writes may be partially done: they need more than one page of a pipe.
const WHOLE_MAX: u64 = 4096;
/// Most offsets at which such a write may have started: it starts a line.
const LINES_MAX: usize = 64;
/// Equal bytes that prove an offset before time is up.
const ENOUGH: usize = 8;

/// The beginning of a stream, as both ends saw it.
#[derive(Debug)]
pub(super) struct Beginning {
    /// Where the writer's count starts, as the kernel found it.
    from: u64,
    /// Whether a read may have been in progress too.
    midstream: bool,
    /// Length of the first read.
    first_read: Option<u64>,
    /// What was read, from the first byte on.
    read: Vec<u8>,
    /// What was written, where it is kept, and its position by the writer's count.
    written: Vec<(u64, Vec<u8>)>,
    /// Length of the first write.
    first_write: Option<u64>,
    /// Bytes of `written`.
    kept: usize,
    /// Bytes that could be compared when last judged.
    judged: usize,
}

/// What the beginning shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Not enough yet.
    Undecided,
    /// The count starts where the kernel says.
    AsCounted,
    /// The count starts this many bytes later, or earlier where negative.
    Shifted(i64),
    /// The ends agree at no offset.
    Disagreement,
    /// Nothing that both ends have.
    Incomparable,
}

impl Beginning {
    /// The beginning of a stream whose writer starts to count at `from`; `None` if too much is unread.
    pub(super) fn new(from: u64, midstream: bool) -> Option<Self> {
        (from <= UNREAD_MAX).then_some(Self {
            from,
            midstream,
            first_read: None,
            read: Vec::new(),
            written: Vec::new(),
            first_write: None,
            kept: 0,
            judged: 0,
        })
    }

    /// The memory it takes, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.read.capacity() + self.kept + self.written.len() * size_of::<(u64, Vec<u8>)>()
    }

    /// Takes in the next piece of the reader's end. Returns false if a piece is missing before it.
    pub(super) fn read(&mut self, position: u64, bytes: &[u8]) -> bool {
        let length = bytes.len() as u64;
        self.first_read.get_or_insert(length);
        if !self.is_full() {
            if position != self.read.len() as u64 {
                return false;
            }
            self.read.extend_from_slice(bytes);
        }
        true
    }

    /// Takes in what was seen at the writer's end.
    pub(super) fn written(&mut self, position: u64, bytes: &[u8]) {
        self.first_write.get_or_insert(bytes.len() as u64);
        let kept = bytes.len().min(KEPT - self.kept);
        if kept > 0 {
            self.kept += kept;
            self.written.push((position, bytes[..kept].to_vec()));
        }
    }

    /// Whether all of the reader's end that is ever kept is here.
    fn is_full(&self) -> bool {
        self.read.len() as u64 >= self.from + KEPT as u64
    }

    /// Says where the count starts. `last` asks for the best answer available. Looks closely only
    /// if there is noticeably more than last time.
    pub(super) fn verdict(&mut self, last: bool) -> Verdict {
        // What is written may be in progress for as long as it is being read.
        let last = last || self.is_full() && self.first_write.is_some();
        let from = usize::try_from(self.from).unwrap_or(usize::MAX);
        let comparable = self.read.len().saturating_sub(from).min(self.kept);
        if !last && (comparable == 0 || comparable < self.judged + self.judged / 8) {
            return Verdict::Undecided;
        }
        self.judged = comparable;
        self.judge(last)
    }

    fn judge(&self, last: bool) -> Verdict {
        let candidates: Vec<(i64, usize)> = self
            .shifts()
            .into_iter()
            .filter_map(|shift| Some((shift, self.agreement(shift)?)))
            .collect();
        if let Some(equal) = self.agreement(0) {
            let is_only = equal > 0 && candidates.is_empty();
            return if is_only || last && equal > 0 {
                Verdict::AsCounted
            } else if last && candidates.iter().all(|(_, equal)| *equal == 0) {
                Verdict::Incomparable
            } else {
                Verdict::Undecided
            };
        }
        let mut proven = candidates.iter().filter(|(_, equal)| *equal > 0);
        let only = proven.next().filter(|_| proven.next().is_none());
        let best = candidates.iter().max_by_key(|(_, equal)| *equal);
        // In the middle of a session, a few equal bytes have other explanations.
        let least = if self.midstream { ENOUGH } else { 1 };
        match (only, best) {
            (Some((shift, equal)), _) if *equal >= ENOUGH => Verdict::Shifted(*shift),
            (_, Some((shift, equal))) if last && *equal >= least => Verdict::Shifted(*shift),
            (_, Some(_)) if !last => Verdict::Undecided,
            _ => Verdict::Disagreement,
        }
    }

    /// By how much the count may be wrong.
    fn shifts(&self) -> Vec<i64> {
        let (Some(length), Some((first, _))) = (self.first_write, self.written.first()) else {
            return Vec::new();
        };
        // What follows the start and is not here is the first write itself.
        let hidden = first.saturating_sub(self.from);
        let whole = if hidden > 0 { hidden } else { length };
        let twice: Vec<i64> = if whole > WHOLE_MAX {
            self.lines(whole).filter_map(signed).collect()
        } else if whole <= self.from || self.midstream {
            signed(whole).into_iter().collect()
        } else {
            Vec::new()
        };
        let mut shifts: Vec<i64> = twice.iter().map(|bytes| -bytes).collect();
        if self.midstream
            && let Some(read) = self.first_read.and_then(signed)
        {
            shifts.push(read);
            shifts.extend(twice.iter().map(|bytes| read - bytes));
            shifts.retain(|shift| *shift != 0);
        }
        shifts
    }

    /// Bytes from the beginning of a line to the writer's start, up to `most`; the nearest lines.
    fn lines(&self, most: u64) -> impl Iterator<Item = u64> {
        let from = usize::try_from(self.from).unwrap_or(usize::MAX);
        let unread = &self.read[..from.min(self.read.len())];
        memchr::memrchr_iter(b'\n', unread)
            .map(|newline| newline as u64 + 1)
            .chain([0])
            .map(|begin| self.from - begin)
            .filter(move |bytes| (1..=most).contains(bytes))
            .take(LINES_MAX)
    }

    /// How many bytes that both ends have are equal if the count is wrong by `shift`; `None` if one
    /// differs.
    fn agreement(&self, shift: i64) -> Option<usize> {
        let mut equal = 0;
        for (position, bytes) in &self.written {
            let (at, skipped) = match position.checked_add_signed(shift) {
                Some(at) => (at, 0),
                None => (0, position.abs_diff(shift.unsigned_abs())),
            };
            let bytes = usize::try_from(skipped)
                .ok()
                .and_then(|skipped| bytes.get(skipped..))
                .unwrap_or_default();
            let read = usize::try_from(at)
                .ok()
                .and_then(|at| self.read.get(at..))
                .unwrap_or_default();
            let common = bytes.len().min(read.len());
            if bytes[..common] != read[..common] {
                return None;
            }
            equal += common;
        }
        Some(equal)
    }
}

fn signed(bytes: u64) -> Option<i64> {
    i64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{}}\n";

    /// `LINE` was written in single bytes. `unread` of them lay in the pipe when it became known, and
    /// the last of those was counted again if `twice`. The reader has read `read` bytes.
    fn single_bytes(unread: usize, twice: bool, read: usize) -> Beginning {
        let mut beginning = Beginning::new(unread as u64, false).expect("few bytes");
        let written = &LINE[unread - usize::from(twice)..];
        for (at, byte) in (unread as u64..).zip(written) {
            beginning.written(at, std::slice::from_ref(byte));
        }
        assert!(beginning.read(0, &LINE[..read]));
        beginning
    }

    #[test]
    fn the_bytes_tell_whether_the_first_write_was_counted_twice() {
        for unread in 1..LINE.len() - 1 {
            let mut single = single_bytes(unread, false, LINE.len());
            assert_eq!(single.verdict(true), Verdict::AsCounted, "{unread}");
            let mut twice = single_bytes(unread, true, LINE.len());
            assert_eq!(twice.verdict(true), Verdict::Shifted(-1), "{unread}");
        }
    }

    #[test]
    fn nothing_is_said_before_it_is_certain() {
        let mut early = single_bytes(10, true, 10);
        assert_eq!(early.verdict(false), Verdict::Undecided, "both may be");
        let mut few = single_bytes(10, true, 15);
        assert_eq!(few.verdict(false), Verdict::Undecided, "few bytes agree");
        assert_eq!(few.verdict(true), Verdict::Shifted(-1));
        assert_eq!(
            single_bytes(10, true, 30).verdict(false),
            Verdict::Shifted(-1)
        );
    }

    #[test]
    fn a_long_write_may_have_been_under_way_in_part() {
        let long: String = (0..20_000).map(|number| format!("{number},")).collect();
        let long = long.as_bytes();
        for part in [1, 4096, 40_000, 65_000] {
            let before = b"{\"id\":1}\n";
            let unread = (before.len() + part) as u64;
            let mut beginning = Beginning::new(unread, false).expect("few bytes");
            assert!(beginning.read(0, &[before, &long[..part]].concat()));
            beginning.written(unread, &long[..65_536]);
            assert!(beginning.read(unread, &long[part..part + 1000]));
            let shift = i64::try_from(part).expect("small");
            assert_eq!(beginning.verdict(false), Verdict::Shifted(-shift));
        }
    }

    #[test]
    fn in_the_middle_of_a_session_a_read_may_have_been_under_way_too() {
        let mut beginning = Beginning::new(0, true).expect("few bytes");
        assert!(beginning.read(0, &LINE[..20]));
        assert!(beginning.read(20, &LINE[20..]));
        beginning.written(0, &LINE[20..]);
        assert_eq!(beginning.verdict(false), Verdict::Shifted(20));
        let mut beginning = Beginning::new(0, true).expect("few bytes");
        beginning.written(0, &LINE[..20]);
        beginning.written(20, &LINE[20..]);
        assert!(beginning.read(0, &LINE[20..]));
        assert_eq!(beginning.verdict(false), Verdict::Shifted(-20));
    }

    #[test]
    fn ends_that_agree_nowhere_disagree() {
        let mut beginning = Beginning::new(5, false).expect("few bytes");
        beginning.written(5, b"truth");
        assert!(beginning.read(0, b".....false"));
        assert_eq!(beginning.verdict(false), Verdict::Disagreement);
        assert!(!beginning.read(11, b"x"), "a byte is missing");
    }

    #[test]
    fn little_is_kept() {
        let mut beginning = Beginning::new(100, false).expect("few bytes");
        let mut at = 0;
        for _ in 0..1000 {
            beginning.written(100 + at, &[b'x'; 1000]);
            assert!(beginning.read(at, &[b'x'; 1000]));
            at += 1000;
        }
        assert!(beginning.read.len() + beginning.kept < 3 * KEPT);
        assert_eq!(beginning.verdict(false), Verdict::AsCounted);
        assert!(Beginning::new(UNREAD_MAX + 1, false).is_none());
    }
}
