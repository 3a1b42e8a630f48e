//! Statistics of the probes themselves: one slot each in a per-CPU array.

/// What is counted over all streams.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stat {
    /// Records written to the ring.
    Records = 0,
    /// Payload bytes written to the ring.
    Bytes = 1,
    /// Records that did not fit into the ring.
    RecordsLost = 2,
    /// Payload bytes of those records.
    BytesLost = 3,
    /// Payload bytes that could not be read from the process (page not resident).
    BytesFaulted = 4,
    /// Endpoints that were not registered because the table was full.
    RegistrationsFailed = 5,
    /// Process records (exec, exit, registration) that did not fit into the ring.
    LifecycleLost = 6,
    /// TCP connections that were not examined because a user, or all users together, had too many.
    ConnectionsRefused = 7,
}

impl Stat {
    /// The number of statistics.
    pub const COUNT: u32 = 8;

    /// All of them, in slot order.
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::Records,
        Self::Bytes,
        Self::RecordsLost,
        Self::BytesLost,
        Self::BytesFaulted,
        Self::RegistrationsFailed,
        Self::LifecycleLost,
        Self::ConnectionsRefused,
    ];
}
