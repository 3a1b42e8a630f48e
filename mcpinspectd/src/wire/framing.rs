//! Splits one direction of a session into frames at newlines.
//!
//! MCP over stdio puts one JSON text on each line. A frame holds exactly the bytes between two
//! newlines, because hashes and tapes are made of them. A frame within one chunk borrows from it; a
//! frame that spans chunks is assembled in a buffer that exists only while it is needed, so a
//! hundred idle servers cost nothing.
//!
//! Two cases make this more than a split. A line may never end: above a maximum its bytes are
//! counted instead of kept, and the line is reported when it ends. And the capture may have a gap:
//! the line before it is dropped, and the line after it may be the rest of another. Such a line is
//! *tentative*, as is the first line of a stream that was joined midway. JSON settles the question:
//! no proper suffix of an object's text is itself an object, so a tentative line that parses is a
//! message, and one that does not is a fragment that need not be reported.

/// The default maximum for a line that is kept whole: 64 MiB.
///
/// Base64 images and documents of about ten mebibytes are real. A longer line is more likely an
/// accident or an attack, and every session may hold this much in each direction.
pub const DEFAULT_MAX_FRAME: usize = 64 * 1024 * 1024;

/// A buffer of up to this capacity is kept between frames that span chunks; a larger one is freed.
const KEPT_CAPACITY: usize = 16 * 1024;

/// The bytes between two newlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The exact bytes, never blank: without the newline, with a carriage return before it.
    pub bytes: &'a [u8],
    /// Where it starts, in bytes from the start of the stream.
    pub position: u64,
    /// Whether bytes were lost between the frame before and this one.
    pub gap_before: bool,
    /// Whether this may be the end of a line whose beginning was not seen.
    pub tentative: bool,
    /// Whether the stream ended before a newline did.
    pub unterminated: bool,
}

/// What comes out of a [`Framer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A line.
    Frame(Frame<'a>),
    /// A line above the maximum, reported when it ends. Its content was not kept.
    Oversize {
        /// Where it starts, in bytes from the start of the stream.
        position: u64,
        /// Its length without the newline.
        bytes: u64,
        /// Whether bytes were lost between the frame before and this one.
        gap_before: bool,
    },
}

/// What a [`Framer`] has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramerStats {
    /// Frames, tentative ones included.
    pub frames: u64,
    /// Blank lines, which are skipped.
    pub blank_lines: u64,
    /// Lines above the maximum.
    pub oversize: u64,
    /// Captured bytes that belong to no frame, because a gap or the maximum cut their line.
    pub bytes_discarded: u64,
    /// Gaps.
    pub gaps: u64,
    /// Bytes known lost in gaps.
    pub bytes_lost: u64,
}

/// Splits one stream into frames.
#[derive(Debug)]
pub struct Framer {
    max_frame: usize,
    /// The part of the current line that came in earlier chunks; empty while `skipping`.
    buffer: Vec<u8>,
    /// Bytes of the current line that were dropped because it is above the maximum.
    skipped: u64,
    skipping: bool,
    tentative: bool,
    gap_before: bool,
    /// Where the current line starts.
    line_start: u64,
    /// Where the next chunk is expected.
    next: u64,
    stats: FramerStats,
}

impl Framer {
    /// Frames a stream from its first byte.
    pub fn new(max_frame: usize) -> Self {
        Self {
            max_frame,
            buffer: Vec::new(),
            skipped: 0,
            skipping: false,
            tentative: false,
            gap_before: false,
            line_start: 0,
            next: 0,
            stats: FramerStats::default(),
        }
    }

    /// Frames a stream that is joined midway, at `position`.
    pub fn joined_at(position: u64, max_frame: usize) -> Self {
        Self {
            tentative: true,
            line_start: position,
            next: position,
            ..Self::new(max_frame)
        }
    }

    /// The counts so far.
    pub fn stats(&self) -> FramerStats {
        self.stats
    }

    /// Where the next bytes are expected, in bytes from the start of the stream.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Bytes of memory held for the current line.
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Drops the current line as if it were above the maximum already. For callers that have used
    /// up their memory for all streams.
    pub fn abandon_line(&mut self) {
        if !self.buffer.is_empty() {
            let kept = self.buffer.len() as u64;
            self.release();
            self.skipping = true;
            self.skipped = kept;
        }
    }

    /// Takes in the stream's next bytes.
    ///
    /// Bytes that were taken in before are skipped and a jump ahead becomes a gap, so a caller's
    /// mistake cannot put bytes in the wrong place.
    pub fn push(&mut self, position: u64, chunk: &[u8], mut emit: impl FnMut(Framed<'_>)) {
        if position > self.next {
            self.gap(self.next, position - self.next);
        }
        let seen = usize::try_from(self.next - position).unwrap_or(usize::MAX);
        let Some(chunk) = chunk.get(seen..) else {
            return;
        };
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', chunk) {
            let line = &chunk[start..newline];
            start = newline + 1;
            self.end_line(line, self.next + start as u64, false, &mut emit);
        }
        self.next += chunk.len() as u64;
        self.keep(&chunk[start..]);
    }

    /// Takes in a whole frame, of a transport that frames messages itself. It may contain newlines.
    ///
    /// A frame that was taken in before is skipped, and a jump ahead becomes a gap.
    pub fn message(&mut self, position: u64, bytes: &[u8], mut emit: impl FnMut(Framed<'_>)) {
        if position > self.next {
            self.gap(self.next, position - self.next);
        } else if position < self.next {
            return;
        }
        self.line_start = position;
        self.tentative = false;
        self.next += bytes.len() as u64;
        self.end_line(bytes, self.next, false, &mut emit);
    }

    /// Notes that `bytes_lost` bytes from `position` on were lost, and drops the current line.
    pub fn gap(&mut self, position: u64, bytes_lost: u64) {
        self.stats.gaps += 1;
        self.stats.bytes_lost += bytes_lost;
        self.stats.bytes_discarded += self.skipped + self.buffer.len() as u64;
        self.next = self.next.max(position.saturating_add(bytes_lost));
        self.release();
        self.line_start = self.next;
        self.gap_before = true;
        self.tentative = true;
    }

    /// Ends the stream. A last line without a newline is a frame, too.
    pub fn finish(&mut self, mut emit: impl FnMut(Framed<'_>)) {
        if self.skipping || !self.buffer.is_empty() {
            self.end_line(&[], self.next, true, &mut emit);
        }
    }

    /// Ends the current line with `tail`, its part in the current chunk.
    fn end_line(
        &mut self,
        tail: &[u8],
        next_line: u64,
        unterminated: bool,
        emit: &mut impl FnMut(Framed<'_>),
    ) {
        let position = std::mem::replace(&mut self.line_start, next_line);
        let tentative = std::mem::take(&mut self.tentative);
        let length = self.skipped + self.buffer.len() as u64 + tail.len() as u64;
        if self.skipping || length > self.max_frame as u64 {
            self.stats.oversize += 1;
            self.stats.bytes_discarded += length;
            self.release();
            let gap_before = std::mem::take(&mut self.gap_before);
            emit(Framed::Oversize {
                position,
                bytes: length,
                gap_before,
            });
            return;
        }
        let spans_chunks = !self.buffer.is_empty();
        if spans_chunks {
            self.append(tail);
        }
        let bytes = if spans_chunks {
            self.buffer.as_slice()
        } else {
            tail
        };
        if bytes.trim_ascii_start().is_empty() {
            // It may be the end of a torn line; blank text says nothing either way.
            self.stats.blank_lines += 1;
        } else {
            self.stats.frames += 1;
            let gap_before = std::mem::take(&mut self.gap_before);
            emit(Framed::Frame(Frame {
                bytes,
                position,
                gap_before,
                tentative,
                unterminated,
            }));
        }
        if spans_chunks {
            self.release();
        }
    }

    /// Keeps the beginning of a line for the next chunk.
    fn keep(&mut self, part: &[u8]) {
        if self.skipping {
            self.skipped += part.len() as u64;
        } else if self.buffer.len() + part.len() > self.max_frame {
            self.abandon_line();
            self.skipping = true;
            self.skipped += part.len() as u64;
        } else {
            self.append(part);
        }
    }

    /// Adds to the buffer. A large one grows by an eighth of its size: by its double, a line of 33 MiB would
    /// have room for 64.
    fn append(&mut self, part: &[u8]) {
        let needed = self.buffer.len() + part.len();
        if needed > self.buffer.capacity() && needed > KEPT_CAPACITY {
            let room = needed
                .saturating_add(needed / 8)
                .min(self.max_frame)
                .max(needed);
            self.buffer.reserve_exact(room - self.buffer.len());
        }
        self.buffer.extend_from_slice(part);
    }

    /// Forgets the current line, and frees the memory of a large one.
    fn release(&mut self) {
        self.skipping = false;
        self.skipped = 0;
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An owned [`Framed`].
    #[derive(Clone, Debug, PartialEq)]
    enum Seen {
        Frame {
            text: Vec<u8>,
            position: u64,
            gap: bool,
            tentative: bool,
            unterminated: bool,
        },
        Oversize {
            position: u64,
            bytes: u64,
            gap: bool,
        },
    }

    fn record(seen: &mut Vec<Seen>) -> impl FnMut(Framed<'_>) {
        |framed| {
            seen.push(match framed {
                Framed::Frame(Frame {
                    bytes,
                    position,
                    gap_before,
                    tentative,
                    unterminated,
                }) => Seen::Frame {
                    text: bytes.to_vec(),
                    position,
                    gap: gap_before,
                    tentative,
                    unterminated,
                },
                Framed::Oversize {
                    position,
                    bytes,
                    gap_before,
                } => Seen::Oversize {
                    position,
                    bytes,
                    gap: gap_before,
                },
            });
        }
    }

    fn frame(text: &str, position: u64) -> Seen {
        Seen::Frame {
            text: text.into(),
            position,
            gap: false,
            tentative: false,
            unterminated: false,
        }
    }

    fn run(max: usize, chunks: &[&[u8]]) -> (Vec<Seen>, FramerStats) {
        let mut framer = Framer::new(max);
        let mut seen = Vec::new();
        let mut position = 0;
        for chunk in chunks {
            framer.push(position, chunk, record(&mut seen));
            position += chunk.len() as u64;
        }
        framer.finish(record(&mut seen));
        (seen, framer.stats())
    }

    #[test]
    fn cuts_at_newlines_and_keeps_the_exact_bytes() {
        let (seen, stats) = run(100, &[b"a\nbb\r\n\n \t\r\nc", b"", b"c\n"]);
        assert_eq!(seen, [frame("a", 0), frame("bb\r", 2), frame("cc", 11)]);
        assert_eq!(
            stats,
            FramerStats {
                frames: 3,
                blank_lines: 2,
                ..FramerStats::default()
            }
        );
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        let (seen, _) = run(100, &[b"a\nb"]);
        assert_eq!(seen.len(), 2);
        assert!(matches!(&seen[1], Seen::Frame { text, unterminated: true, .. } if text == b"b"));
        assert_eq!(run(100, &[b"a\n"]).0.len(), 1);
        assert_eq!(run(100, &[]).0, []);
    }

    #[test]
    fn the_maximum_is_exact() {
        for (size, kept) in [
            (0, true),
            (1, true),
            (7, true),
            (8, true),
            (9, false),
            (100, false),
        ] {
            let line = [vec![b'x'; size], b"\nend\n".to_vec()].concat();
            for chunk in [1, 3, 8, 200] {
                let chunks: Vec<&[u8]> = line.chunks(chunk).collect();
                let (seen, stats) = run(8, &chunks);
                let end = frame("end", size as u64 + 1);
                if size == 0 {
                    assert_eq!(seen, [end]);
                } else if kept {
                    assert_eq!(seen, [frame(&"x".repeat(size), 0), end]);
                } else {
                    let over = Seen::Oversize {
                        position: 0,
                        bytes: size as u64,
                        gap: false,
                    };
                    assert_eq!(seen, [over, end]);
                    assert_eq!(stats.bytes_discarded, size as u64);
                }
            }
        }
    }

    #[test]
    fn an_endless_line_is_not_kept() {
        let mut framer = Framer::new(1 << 20);
        let chunk = vec![b'x'; 64 * 1024];
        let mut seen = Vec::new();
        for index in 0..1600_u64 {
            framer.push(index * chunk.len() as u64, &chunk, record(&mut seen));
            assert!(framer.memory() <= 2 << 20);
        }
        framer.finish(record(&mut seen));
        assert_eq!(
            seen,
            [Seen::Oversize {
                position: 0,
                bytes: 1600 * 64 * 1024,
                gap: false
            }]
        );
    }

    #[test]
    fn an_abandoned_line_is_reported_like_one_above_the_maximum() {
        let mut framer = Framer::new(1000);
        let mut seen = Vec::new();
        framer.abandon_line();
        framer.push(0, b"short", record(&mut seen));
        framer.abandon_line();
        framer.push(5, b" line\nnext\n", record(&mut seen));
        let over = Seen::Oversize {
            position: 0,
            bytes: 10,
            gap: false,
        };
        assert_eq!(seen, [over, frame("next", 11)]);
    }

    #[test]
    fn memory_of_a_large_line_is_freed() {
        let mut framer = Framer::new(DEFAULT_MAX_FRAME);
        framer.push(0, &vec![b'x'; 8 << 20], |_| {});
        assert!((8 << 20..=9 << 20).contains(&framer.memory()));
        framer.push(8 << 20, b"\n{", |_| {});
        assert!(framer.memory() <= KEPT_CAPACITY);
    }

    #[test]
    fn a_gap_drops_the_torn_line_and_makes_the_next_tentative() {
        let mut framer = Framer::new(100);
        let mut seen = Vec::new();
        framer.push(0, b"a\ntorn", record(&mut seen));
        framer.gap(6, 10);
        framer.push(16, b"rest\nwhole\n", record(&mut seen));
        let rest = Seen::Frame {
            text: b"rest".into(),
            position: 16,
            gap: true,
            tentative: true,
            unterminated: false,
        };
        assert_eq!(seen, [frame("a", 0), rest, frame("whole", 21)]);
        let stats = framer.stats();
        assert_eq!(
            (stats.bytes_discarded, stats.bytes_lost, stats.gaps),
            (4, 10, 1)
        );
    }

    #[test]
    fn a_gap_that_ends_before_a_newline_leaves_the_next_line_certain() {
        let mut framer = Framer::new(100);
        let mut seen = Vec::new();
        framer.gap(0, 10);
        framer.push(10, b"\nwhole\n", record(&mut seen));
        let whole = Seen::Frame {
            text: b"whole".into(),
            position: 11,
            gap: true,
            tentative: false,
            unterminated: false,
        };
        assert_eq!(seen, [whole]);
    }

    #[test]
    fn a_gap_in_an_oversize_line_forgets_it() {
        let mut framer = Framer::new(4);
        let mut seen = Vec::new();
        framer.push(0, b"oversize", record(&mut seen));
        framer.gap(8, 1);
        framer.push(9, b"ok\n", record(&mut seen));
        assert!(matches!(
            &seen[..],
            [Seen::Frame {
                tentative: true,
                gap: true,
                ..
            }]
        ));
        assert_eq!(framer.stats().bytes_discarded, 8);
    }

    #[test]
    fn wrong_positions_are_corrected() {
        let mut framer = Framer::new(100);
        let mut seen = Vec::new();
        framer.push(0, b"ab", record(&mut seen));
        framer.push(0, b"abc\n", record(&mut seen));
        framer.push(1, b"b", record(&mut seen));
        framer.push(7, b"d\n", record(&mut seen));
        assert_eq!(seen[0], frame("abc", 0));
        assert!(matches!(
            &seen[1],
            Seen::Frame {
                gap: true,
                position: 7,
                ..
            }
        ));
        assert_eq!(framer.stats().bytes_lost, 3);
    }

    #[test]
    fn whole_frames_keep_their_newlines_and_are_bounded() {
        let mut framer = Framer::new(8);
        let mut seen = Vec::new();
        framer.message(0, b"{\n}", record(&mut seen));
        framer.message(0, b"{\n}", record(&mut seen));
        framer.message(3, b"too large", record(&mut seen));
        framer.message(20, b"[]", record(&mut seen));
        framer.message(22, b" ", record(&mut seen));
        let over = Seen::Oversize {
            position: 3,
            bytes: 9,
            gap: false,
        };
        let after_a_gap = Seen::Frame {
            text: b"[]".into(),
            position: 20,
            gap: true,
            tentative: false,
            unterminated: false,
        };
        assert_eq!(seen, [frame("{\n}", 0), over, after_a_gap]);
        let stats = framer.stats();
        assert_eq!((stats.bytes_lost, stats.blank_lines), (8, 1));
        assert_eq!(framer.position(), 23);
    }

    #[test]
    fn a_stream_joined_midway_starts_tentative() {
        let mut framer = Framer::joined_at(1000, 100);
        let mut seen = Vec::new();
        framer.push(1000, b"rest\nwhole\n", record(&mut seen));
        assert!(matches!(
            seen[0],
            Seen::Frame {
                tentative: true,
                gap: false,
                position: 1000,
                ..
            }
        ));
        assert_eq!(seen[1], frame("whole", 1005));
    }

    proptest! {
        #[test]
        fn chunks_make_no_difference(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b' '), any::<u8>()], 0..400),
            cuts in proptest::collection::vec(0_usize..400, 0..40),
            max in 1_usize..40,
        ) {
            let whole = run(max, &[&text]);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= text.len()).collect();
            cuts.push(0);
            cuts.push(text.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(run(max, &chunks), whole);
        }

        #[test]
        fn every_byte_is_accounted_for(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'x'), 1 => Just(b'\n')], 0..200),
            max in 1_usize..20,
        ) {
            let (seen, stats) = run(max, &[&text]);
            let expected: Vec<&[u8]> = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(seen.len(), expected.len());
            for (seen, line) in seen.iter().zip(expected) {
                match seen {
                    Seen::Frame { text, .. } => prop_assert_eq!(text.as_slice(), line),
                    Seen::Oversize { bytes, .. } => prop_assert_eq!(*bytes, line.len() as u64),
                }
            }
            prop_assert_eq!(stats.frames + stats.oversize, seen.len() as u64);
        }
    }
}
