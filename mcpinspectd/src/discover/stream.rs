//! One stream from its first byte: what it shows, and, once that is clear, its bytes in order.

use mcpinspect_common::{End, EndpointKey};

use crate::mcp::sniff::{Evidence, evidence};
use crate::model::Direction;
use crate::wire::comparison::EndComparison;
use crate::wire::reassembly::Reassembly;

/// Index of a session in the tracker.
pub type SessionIndex = u64;

/// What has become of a stream.
#[derive(Debug)]
pub enum Fate {
    /// It may be MCP.
    Sniffed(Box<Beginning>),
    /// It is.
    Carried(Flow),
    /// It is not, or is none of our business.
    Ignored,
}

/// A stream of which the beginning is kept until it is clear what it is.
#[derive(Debug)]
pub struct Beginning {
    /// By [`End`].
    ends: [Prefix; 2],
    /// What it shows so far.
    pub evidence: Evidence,
    /// Bytes that were judged.
    judged: usize,
    /// Whether more than the budget was asked for, because it looks like one long first message.
    pub extended: bool,
}

/// Contiguous bytes from a stream's beginning, as one end saw them.
#[derive(Debug, Default)]
pub struct Prefix {
    /// Where the first byte stands: behind the start where that was written before the stream was
    /// known.
    base: u64,
    bytes: Vec<u8>,
    /// Where each piece ends, and when it came (`CLOCK_BOOTTIME`, nanoseconds).
    pieces: Vec<(usize, u64)>,
    /// Whether something behind `bytes` is missing, so that nothing more can be kept.
    torn: bool,
}

impl Default for Beginning {
    fn default() -> Self {
        Self {
            ends: <[Prefix; 2]>::default(),
            evidence: Evidence::Undecided {
                json_rpc_like: false,
            },
            judged: 0,
            extended: false,
        }
    }
}

impl Beginning {
    /// Keeps a piece. Gives whether it is worth judging again: a line is complete, or much more is
    /// there than last time.
    pub fn keep(&mut self, end: End, position: u64, bytes: &[u8], time: u64) -> bool {
        let prefix = &mut self.ends[end as usize];
        if !prefix.keep(position, bytes, time) {
            return false;
        }
        let length = prefix.bytes.len();
        length > self.judged
            && (length >= 2 * self.judged || memchr::memchr(b'\n', bytes).is_some())
    }

    /// Judges the longer of what the two ends saw.
    pub fn judge(&mut self) {
        let [reader, writer] = &self.ends;
        let longer = if writer.bytes.len() > reader.bytes.len() {
            writer
        } else {
            reader
        };
        self.judged = longer.bytes.len();
        self.evidence = evidence(&longer.bytes);
    }

    /// Bytes that are kept.
    pub fn memory(&self) -> usize {
        self.ends.iter().map(|prefix| prefix.bytes.len()).sum()
    }

    /// Bytes of the longer end.
    pub fn length(&self) -> usize {
        self.ends
            .iter()
            .map(|prefix| prefix.bytes.len())
            .max()
            .unwrap_or(0)
    }

    /// What was kept of one end.
    pub fn take(&mut self, end: End) -> Prefix {
        std::mem::take(&mut self.ends[end as usize])
    }
}

impl Prefix {
    /// Appends a piece, if it is the next one. Gives whether it was.
    pub fn keep(&mut self, position: u64, bytes: &[u8], time: u64) -> bool {
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

    /// The pieces: position, bytes, time.
    pub fn pieces(&self) -> impl Iterator<Item = (u64, &[u8], u64)> {
        let mut start = 0;
        self.pieces.iter().map(move |&(end, time)| {
            let from = std::mem::replace(&mut start, end);
            (self.base + from as u64, &self.bytes[from..end], time)
        })
    }
}

/// A stream that is one direction of a session.
#[derive(Debug)]
pub struct Flow {
    /// The session.
    pub session: SessionIndex,
    /// The direction.
    pub direction: Direction,
    /// Its order.
    pub reassembly: Reassembly,
    /// The end whose bytes are handed on. The reader's: what arrived is in the order in which it
    /// arrived, and of what a server says the reader is the client, which the server cannot touch.
    pub source: End,
    /// What the writer's end saw before the reader was seen, should it never be.
    pub fallback: Prefix,
    /// Both ends side by side, as long as the reader's is the source.
    pub ends: Option<Box<EndComparison>>,
    /// Whether its reader has seen the end.
    pub ended: bool,
    /// Positions (writer, reader) at the last look, and since when they have not moved.
    pub still: (u64, u64, u64),
}

impl Flow {
    /// Of what was counted at the two ends, what was at the one whose bytes are handed on.
    pub fn counted(&self, written: u64, read: u64) -> u64 {
        match self.source {
            End::Reader => read,
            End::Writer => written,
        }
    }
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// The endpoint that it is written at; the same as its name for a pipe.
    pub written_at: Option<EndpointKey>,
    /// What has become of it.
    pub fate: Fate,
    /// By [`End`]: the process that was seen there last.
    pub actors: [Option<u32>; 2],
    /// Bytes that the writer's count has too many: see [`mcpinspect_common::EndpointCounters::first_write`].
    pub counted_twice: u64,
    /// Whether it was under way when the daemon joined.
    pub joined: bool,
    /// Whether nobody held it at the last look. Records of it may still be on their way.
    pub unheld: bool,
}

impl Stream {
    /// Whether what is written is compared with what is read.
    pub fn is_compared(&self) -> bool {
        matches!(&self.fate, Fate::Carried(flow) if flow.ends.is_some())
    }

    /// A stream of which nothing is known yet.
    pub fn new(written_at: Option<EndpointKey>) -> Self {
        Self {
            written_at,
            fate: Fate::Sniffed(Box::default()),
            actors: [None; 2],
            counted_twice: 0,
            joined: false,
            unheld: false,
        }
    }

    /// What the stream's beginning shows, while that is kept.
    pub fn evidence(&self) -> Option<Evidence> {
        match &self.fate {
            Fate::Sniffed(beginning) => Some(beginning.evidence),
            Fate::Carried(_) | Fate::Ignored => None,
        }
    }
}
