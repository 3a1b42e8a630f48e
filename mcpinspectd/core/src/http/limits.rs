//! Bounds on the memory and work that one connection costs.

/// What bounds a [`Connection`](super::Connection). Any excess is given up and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest head of a request or response, or block of compressed headers, in bytes.
    pub max_head: usize,
    /// The most fields of a head.
    pub max_fields: usize,
    /// The largest message, decompressed, in bytes.
    pub max_message: usize,
    /// Bytes of all unfinished messages of the connection; above that, the largest is given up.
    pub max_unfinished: usize,
    /// The most bytes that a compressed body may become. A body of events has no end of its own, so this
    /// counts only what came since the last event ended.
    pub max_decompressed: u64,
    /// The most bodies to decompress at once: each may take a window of 16 MiB.
    pub max_compressed: usize,
    /// The most open exchanges: HTTP/2's streams, or HTTP/1's pipelined requests without an answer.
    pub max_exchanges: usize,
    /// The most bytes of a body to keep while deciding whether it is MCP.
    pub max_undecided: usize,
    /// Exchanges in a row other than MCP, from the first one on, after which a connection is left alone.
    pub max_others: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_head: 64 << 10,
            max_fields: 128,
            max_message: 64 << 20,
            max_unfinished: 80 << 20,
            max_decompressed: 64 << 20,
            max_compressed: 4,
            max_exchanges: 256,
            max_undecided: 512,
            max_others: 32,
        }
    }
}
