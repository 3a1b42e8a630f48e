//! One stream: what it turned out to be, and who was seen at its ends.

use mcpinspect_common::{End, EndpointKey};
use mcpinspect_core::mcp::sniff::Evidence;
use mcpinspect_core::model::{BlindMechanism, BootTime, GapReason};

use super::flow::Flow;
use super::sampling::Sampling;
use super::shares::{EvictionRank, NOBODY_KNOWN, Uid};
use super::sniff_buffer::SniffBuffer;
use crate::capture::Origin;

/// What a stream turned out to be.
#[derive(Debug)]
pub enum StreamState {
    /// Not known yet: its start is kept.
    Undecided(SniffBuffer),
    /// One direction of a session.
    InSession(Box<Flow>),
    /// Not followed, for now or for good.
    Ignored(Reason),
}

/// Why a stream is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It carries something else.
    NotMcp,
    /// The configuration excludes its program.
    Excluded,
    /// Its session is over, or it repeats one.
    Over,
    /// It is MCP, and there was no room for its session.
    NoRoom,
}

/// The start of a stream that is followed only from some position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Where the rest begins.
    pub to: u64,
    /// The reason given in events.
    pub reason: GapReason,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// The endpoint that it is written at; for a pipe, the one that it is read at.
    pub written_at: Option<EndpointKey>,
    /// What it turned out to be.
    pub state: StreamState,
    /// The user whose program was the first on it.
    pub owner: Uid,
    /// Its rank among the streams of its owner that may be evicted.
    pub rank: Option<EvictionRank>,
    /// What passed before it was followed.
    pub skipped: Option<Skipped>,
    /// How it is sampled while it is something else.
    pub sampling: Option<Sampling>,
    /// Where and when its reader saw the end, if that was before it became part of a session.
    pub ended: Option<Origin>,
    /// What to report about it once it is part of a session: why, and which process.
    pub suspicion: Option<(BlindMechanism, u32)>,
    /// Writers that were looked up.
    pub checked_writers: u8,
    /// By [`End`]: the process last seen there.
    pub last_seen: [Option<u32>; 2],
    /// How many bytes too many the writer's count has: see
    /// [`mcpinspect_common::EndpointCounters::first_write`].
    pub counted_twice: u64,
    /// When it was last determined who could read it.
    pub reader_sought: Option<BootTime>,
    /// Whether it was in use before the daemon started.
    pub joined: bool,
    /// Whether no process held it when last checked. Its records may still be on their way.
    pub unheld: bool,
}

impl Stream {
    /// A stream about which nothing is known.
    pub fn new(written_at: Option<EndpointKey>) -> Self {
        Self {
            written_at,
            state: StreamState::Undecided(SniffBuffer::default()),
            owner: NOBODY_KNOWN,
            rank: None,
            skipped: None,
            sampling: None,
            ended: None,
            suspicion: None,
            checked_writers: 0,
            last_seen: [None; 2],
            counted_twice: 0,
            reader_sought: None,
            joined: false,
            unheld: false,
        }
    }

    /// The process last seen at an end.
    pub fn last_at(&self, end: End) -> Option<u32> {
        self.last_seen[end as usize]
    }

    /// The direction of a session that it is, if it is one.
    pub fn flow(&self) -> Option<&Flow> {
        match &self.state {
            StreamState::InSession(flow) => Some(flow),
            StreamState::Undecided(_) | StreamState::Ignored(_) => None,
        }
    }

    /// Whether it may become part of a session: it is undecided, or ignored for no lasting reason.
    pub fn may_join(&self) -> bool {
        match self.state {
            StreamState::Undecided(_) | StreamState::Ignored(Reason::NoRoom) => true,
            StreamState::Ignored(Reason::NotMcp) => self.sampling.is_some(),
            StreamState::Ignored(Reason::Excluded | Reason::Over) | StreamState::InSession(_) => {
                false
            }
        }
    }

    /// What its start shows, while it is undecided.
    pub fn evidence(&self) -> Option<Evidence> {
        match &self.state {
            StreamState::Undecided(buffer) => Some(buffer.evidence()),
            StreamState::InSession(_) | StreamState::Ignored(_) => None,
        }
    }
}
