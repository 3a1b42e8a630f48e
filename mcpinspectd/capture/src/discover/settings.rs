//! The limits of discovery.

use std::path::PathBuf;

/// What bounds a [`super::Tracker`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes per end to examine before a stream is given up as something else.
    pub sniff_budget: u64,
    /// Bytes that the start of a stream may have while it looks like one long message.
    pub max_message: u64,
    /// The memory that all sniff buffers may take together, in bytes.
    pub max_buffered: usize,
    /// The memory taken by what waits in all sessions together, in bytes.
    pub max_backlog: usize,
    /// Whether to compare what is written with what is read.
    pub compare_ends: bool,
    /// Sessions to follow at a time. Above this limit, users share the room for sessions.
    pub max_sessions: usize,
    /// Streams to know at a time, including those that may turn out to be MCP.
    pub max_streams: usize,
    /// Streams of one user to know at a time.
    pub max_streams_per_user: usize,
    /// Bytes that the programs started on one user's streams may take. All users together have twice that.
    pub max_programs_per_user: usize,
    /// The folder in which large unfinished messages of connections wait; in memory without one.
    pub scratch: Option<PathBuf>,
    /// Ledgers of ended streams to keep. Their sums are kept in any case.
    pub max_accounts: usize,
}
