//! The ledger: how a session proves that its record is complete.

use serde::Serialize;

use crate::model::{Direction, SessionId};

/// What sessions' streams carried: all of them since the start, those under way included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Bytes that the kernel saw being written.
    pub written: u64,
    /// Bytes captured of them.
    pub captured: u64,
    /// Bytes known lost of them.
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
    /// Bytes that were handed on for framing.
    pub bytes_captured: u64,
    /// Bytes that were declared lost, each in a gap event.
    pub bytes_lost: u64,
}
