//! The ledger: how a session proves that its record is complete, and what the capture did overall.

use serde::Serialize;

use super::{Direction, SessionId};

/// What sessions' streams carried: all of them since the start, including those still open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that the kernel saw being written.
    pub written: u64,
    /// How many of them were captured.
    pub captured: u64,
    /// How many of them are known to be lost.
    pub lost: u64,
}

/// One direction's account. In a complete record the first three are equal and the fourth is zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamLedger {
    /// The session.
    pub session_id: SessionId,
    /// The direction.
    pub direction: Direction,
    /// Bytes that the kernel saw being written.
    pub bytes_written: u64,
    /// Bytes that the kernel saw being read.
    pub bytes_read: u64,
    /// Bytes that were passed on for framing.
    pub bytes_captured: u64,
    /// Bytes that were declared lost, each in a gap event.
    pub bytes_lost: u64,
}

/// What the capture did, counted at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CaptureTotals {
    /// Records that the probes wrote.
    pub records: u64,
    /// Payload bytes in them.
    pub bytes: u64,
    /// Records that did not fit into the ring.
    pub records_lost: u64,
    /// Payload bytes lost with them, of streams that turned out to be MCP or not.
    pub bytes_lost: u64,
    /// Payload bytes that could not be read from a process.
    pub bytes_faulted: u64,
    /// Process and stream records that did not fit.
    pub lifecycle_lost: u64,
    /// Streams that could not be followed because too many were known.
    pub registrations_failed: u64,
    /// System calls that the probes could not examine; the bytes they moved are not accounted for.
    pub calls_missed: u64,
    /// Records that were not understood.
    pub undecodable: u64,
    /// Sessions that were not followed because too many were open.
    pub sessions_refused: u64,
    /// How often bytes bypassed the probes at one end of a stream and were seen at the other, so that
    /// nothing was lost.
    pub blind_spots_covered: u64,
}

/// The totals of one sink, for a status line or the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkTally {
    /// The sink's name.
    pub sink: &'static str,
    /// Events that arrived.
    pub delivered: u64,
    /// Events that the other side refused, or that found no receiver.
    pub failed: u64,
    /// Events that found a full queue.
    pub dropped: u64,
    /// Events still waiting.
    pub waiting: u64,
}
