//! Splits one direction of a session into frames at newlines.
//!
//! MCP over stdio puts one JSON text on each line. A frame holds exactly the bytes between two
//! newlines, because hashes and tapes are made from them. A frame within one chunk borrows from it; a
//! frame that spans chunks is [held](super::held) only while it is needed, so a hundred idle servers cost
//! nothing.
//!
//! Two cases make this more than a split. A line may never end: above a maximum its bytes are
//! counted instead of kept, and the line is reported when it ends. And the capture may have a gap:
//! the line before it is dropped, and the line after it may be the rest of another. Such a line is
//! *tentative*, as is the first line of a stream that was joined midway. JSON settles the question:
//! no proper suffix of an object's text is itself an object, so a tentative line that parses is a
//! message, and one that does not is a fragment that need not be reported.

use super::held::{BufferUsage, Held};

/// The default maximum for a line that is kept whole: 64 MiB.
///
/// Base64 images and documents of about ten mebibytes exist. A longer line is more likely an
/// accident or an attack, and every session may hold this much in each direction.
pub const DEFAULT_MAX_FRAME: usize = 64 * 1024 * 1024;

/// Room for unfinished messages besides the largest one, in bytes.
pub const UNFINISHED_BESIDE: usize = 16 << 20;

/// The bytes between two newlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The exact bytes, never blank: without the newline, but with any carriage return before it.
    pub bytes: &'a [u8],
    /// Where it starts, in bytes from the start of the stream.
    pub position: u64,
    /// Whether bytes were lost between the previous frame and this one.
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
        /// Whether bytes were lost between the previous frame and this one.
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
    held: Held,
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
            held: Held::default(),
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

    /// What the current line occupies.
    pub fn usage(&self) -> BufferUsage {
        self.held.usage()
    }

    /// The current line.
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// The current line, to move it to a file.
    pub fn held_mut(&mut self) -> &mut Held {
        &mut self.held
    }

    /// Drops the current line as if it already exceeded the maximum. For callers that have used
    /// up their memory for all streams.
    pub fn abandon_line(&mut self) {
        if !self.held.is_empty() {
            let kept = self.held.len() as u64;
            self.release();
            self.skipping = true;
            self.skipped = kept;
        }
    }

    /// Takes in the stream's next bytes.
    ///
    /// Bytes that were already taken in are skipped and a jump ahead becomes a gap, so a caller's
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
    /// A frame that was already taken in is skipped, and a jump ahead becomes a gap.
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
        self.stats.bytes_discarded += self.skipped + self.held.len() as u64;
        self.next = self.next.max(position.saturating_add(bytes_lost));
        self.release();
        self.line_start = self.next;
        self.gap_before = true;
        self.tentative = true;
    }

    /// Ends the stream. A last line without a newline is a frame too.
    pub fn finish(&mut self, mut emit: impl FnMut(Framed<'_>)) {
        if self.skipping || !self.held.is_empty() {
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
        let length = self.skipped + self.held.len() as u64 + tail.len() as u64;
        let is_kept = !self.skipping && length <= self.max_frame as u64;
        let told = is_kept
            && self.whole_line(tail, |bytes, stats, gap| {
                if bytes.trim_ascii_start().is_empty() {
                    // It may be the end of a torn line; blank text says nothing either way.
                    stats.blank_lines += 1;
                } else {
                    stats.frames += 1;
                    emit(Framed::Frame(Frame {
                        bytes,
                        position,
                        gap_before: std::mem::take(gap),
                        tentative,
                        unterminated,
                    }));
                }
            });
        if !told {
            self.stats.oversize += 1;
            self.stats.bytes_discarded += length;
            let gap_before = std::mem::take(&mut self.gap_before);
            emit(Framed::Oversize {
                position,
                bytes: length,
                gap_before,
            });
        }
        self.release();
    }

    /// Lets `tell` read the current line, which ends with `tail`. Returns whether it could be read.
    fn whole_line(
        &mut self,
        tail: &[u8],
        tell: impl FnOnce(&[u8], &mut FramerStats, &mut bool),
    ) -> bool {
        let (stats, gap_before) = (&mut self.stats, &mut self.gap_before);
        if self.held.is_empty() {
            tell(tail, stats, gap_before);
            return true;
        }
        let held = &mut self.held;
        let told = held
            .extend(tail, self.max_frame)
            .and_then(|()| held.read(|bytes| tell(bytes, stats, gap_before)));
        if let Err(error) = &told {
            tracing::warn!("lost a large message, because its file cannot be read: {error}");
        }
        told.is_ok()
    }

    /// Keeps the start of a line for the next chunk.
    fn keep(&mut self, part: &[u8]) {
        if self.skipping {
            self.skipped += part.len() as u64;
            return;
        }
        let held = self.held.len();
        let fits = held + part.len() <= self.max_frame;
        if !fits || self.held.extend(part, self.max_frame).is_err() {
            self.release();
            self.skipping = true;
            self.skipped = (held + part.len()) as u64;
        }
    }

    /// Forgets the current line.
    fn release(&mut self) {
        self.skipping = false;
        self.skipped = 0;
        self.held.clear();
    }
}

#[cfg(test)]
mod tests;
