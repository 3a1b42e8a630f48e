//! The start of a stream, kept until it is clear what the stream carries.

use mcpinspect_common::End;
use mcpinspect_core::mcp::sniff::{Evidence, evidence};
use mcpinspect_core::model::BootTime;

/// The first bytes of an undecided stream, as each end saw them. Takes no memory before the first: most
/// streams that are known never carry any.
#[derive(Debug, Default)]
pub struct SniffBuffer(Option<Box<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    /// By [`End`].
    ends: [Prefix; 2],
    /// What the bytes show so far, and how many of them were judged.
    beginning: Judged,
    /// The same for a writer's end first seen somewhere within the first message. It
    /// shows what the stream is if later messages do, and never what it is not.
    within: Judged,
    /// Whether more than the budget was requested, because this looks like one long first message.
    extended: bool,
}

/// What some bytes show.
#[derive(Clone, Copy, Debug)]
struct Judged {
    evidence: Evidence,
    bytes: usize,
}

/// Contiguous bytes from the start of a stream, as one end saw them.
#[derive(Debug, Default)]
pub struct Prefix {
    /// Position of the first byte: not 0 if bytes were written before the stream was known.
    base: u64,
    bytes: Vec<u8>,
    /// Where each piece ends, and when it came.
    pieces: Vec<(usize, BootTime)>,
    /// Whether bytes after `bytes` are missing, so that no more can be kept.
    torn: bool,
}

impl Default for Judged {
    fn default() -> Self {
        Self {
            evidence: Evidence::Undecided {
                json_rpc_like: false,
            },
            bytes: 0,
        }
    }
}

impl SniffBuffer {
    /// Keeps a piece of a stream that is followed from position `from` on. Returns what the buffer shows
    /// now if it was worth judging again: a line is complete, or there is much more than last time.
    pub fn push(
        &mut self,
        from: u64,
        end: End,
        position: u64,
        bytes: &[u8],
        time: BootTime,
    ) -> Option<Evidence> {
        let contents = self.0.get_or_insert_default();
        contents.push(from, end, position, bytes, time)
    }

    /// What the bytes show so far.
    pub fn evidence(&self) -> Evidence {
        self.contents()
            .map_or(Judged::default().evidence, Contents::evidence)
    }

    /// Notes that more than the budget is needed. Returns false if that was already known.
    pub fn extend(&mut self) -> bool {
        let contents = self.0.get_or_insert_default();
        !std::mem::replace(&mut contents.extended, true)
    }

    /// Whether more than the budget is needed.
    pub fn is_extended(&self) -> bool {
        self.contents().is_some_and(|contents| contents.extended)
    }

    /// Whether the longer end begins with something that can begin neither a message nor a blank line.
    pub fn begins_as_text(&self) -> bool {
        self.contents().is_some_and(Contents::begins_as_text)
    }

    /// The memory that is taken by what is kept, in bytes.
    pub fn memory(&self) -> usize {
        self.ends().map(Prefix::memory).sum()
    }

    /// Length of the longer end in bytes.
    pub fn length(&self) -> usize {
        self.ends()
            .map(|prefix| prefix.bytes.len())
            .max()
            .unwrap_or(0)
    }

    /// What each end saw, by [`End`].
    pub fn into_ends(self) -> [Prefix; 2] {
        self.0.map(|contents| contents.ends).unwrap_or_default()
    }

    fn contents(&self) -> Option<&Contents> {
        self.0.as_deref()
    }

    fn ends(&self) -> impl Iterator<Item = &Prefix> {
        self.contents()
            .into_iter()
            .flat_map(|contents| &contents.ends)
    }
}

impl Contents {
    fn push(
        &mut self,
        from: u64,
        end: End,
        position: u64,
        bytes: &[u8],
        time: BootTime,
    ) -> Option<Evidence> {
        let prefix = &mut self.ends[end as usize];
        if !prefix.push(position, bytes, time) {
            return None;
        }
        let is_within = end == End::Writer && prefix.base > from;
        let length = prefix.bytes.len();
        let before = if is_within {
            self.within.bytes
        } else {
            self.beginning.bytes
        };
        let more =
            length > before && (length >= 2 * before || memchr::memchr(b'\n', bytes).is_some());
        if !more {
            return None;
        }
        if is_within {
            self.within = Judged {
                evidence: evidence(&prefix.bytes),
                bytes: length,
            };
        } else {
            self.judge();
        }
        Some(self.evidence())
    }

    /// Judges the longer of the ends that have the start.
    fn judge(&mut self) {
        let [reader, writer] = &self.ends;
        let longer = if self.within.bytes == 0 && writer.bytes.len() > reader.bytes.len() {
            writer
        } else {
            reader
        };
        self.beginning = Judged {
            evidence: evidence(&longer.bytes),
            bytes: longer.bytes.len(),
        };
    }

    fn evidence(&self) -> Evidence {
        match (self.beginning.evidence, self.within.evidence) {
            (Evidence::Mcp { .. } | Evidence::NotMcp { .. }, _) => self.beginning.evidence,
            (_, Evidence::Mcp { .. }) => self.within.evidence,
            _ => self.beginning.evidence,
        }
    }

    fn begins_as_text(&self) -> bool {
        let [reader, writer] = &self.ends;
        let writer = Some(writer).filter(|_| self.within.bytes == 0);
        let first = Some(reader).into_iter().chain(writer);
        let first = first.flat_map(|prefix| prefix.bytes.first()).next();
        first.is_some_and(|first| {
            !matches!(first, b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef)
        })
    }
}

impl Prefix {
    /// Appends a piece if it is the next one. Returns whether it was.
    pub fn push(&mut self, position: u64, bytes: &[u8], time: BootTime) -> bool {
        if self.bytes.is_empty() {
            self.base = position;
        }
        let next = self.base + self.bytes.len() as u64;
        self.torn |= position > next;
        if self.torn || position != next {
            return false;
        }
        self.bytes.extend_from_slice(bytes);
        self.pieces.push((self.bytes.len(), time));
        true
    }

    /// The memory it takes, in bytes.
    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(self.pieces.as_slice())
    }

    /// When the first piece came.
    pub fn first_time(&self) -> Option<BootTime> {
        self.pieces.first().map(|(_, time)| *time)
    }

    /// The pieces: position, bytes, time.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8], BootTime)> {
        let mut start = 0;
        self.pieces.iter().map(move |&(end, time)| {
            let from = std::mem::replace(&mut start, end);
            (self.base + from as u64, &self.bytes[from..end], time)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootTime = BootTime(0);

    #[test]
    fn a_prefix_is_contiguous() {
        let mut prefix = Prefix::default();
        assert!(prefix.push(7, b"abc", BootTime(1)));
        assert!(!prefix.push(7, b"abc", BootTime(2)), "again");
        assert!(prefix.push(10, b"d", BootTime(3)));
        assert!(!prefix.push(12, b"f", BootTime(4)), "a byte is missing");
        assert!(!prefix.push(11, b"e", BootTime(5)), "and too late");
        let pieces: Vec<_> = prefix.pieces().collect();
        assert_eq!(
            pieces,
            [(7, &b"abc"[..], BootTime(1)), (10, b"d", BootTime(3))]
        );
    }

    #[test]
    fn the_buffer_is_judged_at_newlines_and_whenever_it_has_doubled() {
        let mut buffer = SniffBuffer::default();
        let mut position = 0;
        let mut push = |buffer: &mut SniffBuffer, bytes: &[u8]| {
            let judged = buffer.push(0, End::Reader, position, bytes, NOW).is_some();
            position += bytes.len() as u64;
            judged
        };
        assert!(push(&mut buffer, b"x"));
        assert!(push(&mut buffer, b"x"));
        assert!(!push(&mut buffer, b"x"));
        assert!(push(&mut buffer, b"x"));
        assert!(push(&mut buffer, b"\n"));
        assert!(!push(&mut buffer, b"x"));
        assert_eq!(buffer.length(), 6);
    }

    #[test]
    fn the_longer_end_is_judged() {
        let mut buffer = SniffBuffer::default();
        buffer.push(0, End::Reader, 0, b"{", NOW);
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
        let evidence = buffer.push(0, End::Writer, 0, line, NOW);
        assert!(matches!(evidence, Some(Evidence::Mcp { .. })));
        assert_eq!(buffer.length(), line.len());
        assert_eq!(
            buffer.memory(),
            line.len() + 1 + 2 * size_of::<(usize, BootTime)>()
        );
    }

    #[test]
    fn an_end_that_begins_within_a_message_shows_only_what_a_stream_is() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
        let mut buffer = SniffBuffer::default();
        let log = b"{\"level\":\"info\"}\n";
        let evidence = buffer.push(0, End::Writer, 9, log, NOW);
        let undecided = Evidence::Undecided {
            json_rpc_like: false,
        };
        assert_eq!(evidence, Some(undecided));
        assert!(!buffer.begins_as_text());
        // The reader's end is judged by itself, though it is shorter.
        let evidence = buffer.push(0, End::Reader, 0, b"\n", NOW);
        assert_eq!(evidence, Some(undecided));
        let mut by_reader = SniffBuffer::default();
        by_reader.push(0, End::Writer, 30, &[b'x'; 1000], NOW);
        let evidence = by_reader.push(0, End::Reader, 0, line, NOW);
        assert!(matches!(evidence, Some(Evidence::Mcp { .. })));
        let evidence = buffer.push(0, End::Writer, 9 + log.len() as u64, line, NOW);
        assert!(matches!(evidence, Some(Evidence::Mcp { .. })));
    }

    #[test]
    fn it_is_extended_once() {
        let mut buffer = SniffBuffer::default();
        assert!(!buffer.is_extended());
        assert!(buffer.extend());
        assert!(!buffer.extend());
        assert!(buffer.is_extended());
    }
}
