//! One stream: what it turned out to be, and who was seen at its ends.

use mcpinspect_common::{End, EndpointKey};

use super::flow::Flow;
use super::sniff_buffer::SniffBuffer;
use crate::mcp::sniff::Evidence;

/// What a stream turned out to be.
#[derive(Debug)]
pub enum StreamState {
    /// Not known yet: its beginning is kept.
    Undecided(Box<SniffBuffer>),
    /// One direction of a session.
    InSession(Flow),
    /// Something else, or excluded.
    Ignored,
}

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// The endpoint that it is written at; for a pipe, the one that it is read at.
    pub written_at: Option<EndpointKey>,
    /// What it turned out to be.
    pub state: StreamState,
    /// By [`End`]: the process that was seen there last.
    pub last_seen: [Option<u32>; 2],
    /// Bytes that the writer's count has too many: see
    /// [`mcpinspect_common::EndpointCounters::first_write`].
    pub counted_twice: u64,
    /// Whether it was in use before the daemon started.
    pub joined: bool,
    /// Whether no process held it at the last look. Its records may still be on their way.
    pub unheld: bool,
}

impl Stream {
    /// A stream about which nothing is known.
    pub fn new(written_at: Option<EndpointKey>) -> Self {
        Self {
            written_at,
            state: StreamState::Undecided(Box::default()),
            last_seen: [None; 2],
            counted_twice: 0,
            joined: false,
            unheld: false,
        }
    }

    /// The process that was last seen at an end.
    pub fn last_at(&self, end: End) -> Option<u32> {
        self.last_seen[end as usize]
    }

    /// The session's direction that it is, if it is one.
    pub fn flow(&self) -> Option<&Flow> {
        match &self.state {
            StreamState::InSession(flow) => Some(flow),
            StreamState::Undecided(_) | StreamState::Ignored => None,
        }
    }

    /// What its beginning shows, while it is undecided.
    pub fn evidence(&self) -> Option<Evidence> {
        match &self.state {
            StreamState::Undecided(buffer) => Some(buffer.evidence()),
            StreamState::InSession(_) | StreamState::Ignored => None,
        }
    }
}
