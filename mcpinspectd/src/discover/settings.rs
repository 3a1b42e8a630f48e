//! The limits of discovery.

/// What bounds a [`super::Tracker`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes per end that are examined before a stream is given up as something else.
    pub sniff_budget: u64,
    /// Bytes that the beginning of a stream may have while it looks like one long message.
    pub max_message: u64,
    /// Bytes that all sniff buffers may hold together.
    pub max_buffered: usize,
    /// Whether what is written is compared with what is read.
    pub compare_ends: bool,
    /// Sessions that are followed at a time. A session above this limit is left alone.
    pub max_sessions: usize,
    /// Ledgers of ended streams that are kept. Their sums are kept in any case.
    pub max_accounts: usize,
}
