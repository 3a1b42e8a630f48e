//! Counters of the probes themselves, one slot each in a per-CPU array.

/// What is counted, across all streams.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stat {
    /// Records written to the ring.
    Records = 0,
    /// Payload bytes written to the ring.
    Bytes = 1,
    /// Records that did not fit into the ring.
    RecordsLost = 2,
    /// Payload bytes lost with them.
    BytesLost = 3,
    /// Payload bytes that could not be read from the process (page not resident).
    BytesFaulted = 4,
    /// Endpoints that could not be registered because the table was full.
    RegistrationsFailed = 5,
    /// Process records (exec, exit, registration) that did not fit into the ring.
    LifecycleLost = 6,
}

impl Stat {
    /// How many there are.
    pub const COUNT: u32 = 7;

    /// All of them, in slot order.
    pub const ALL: [Self; Self::COUNT as usize] = [
        Self::Records,
        Self::Bytes,
        Self::RecordsLost,
        Self::BytesLost,
        Self::BytesFaulted,
        Self::RegistrationsFailed,
        Self::LifecycleLost,
    ];
}
