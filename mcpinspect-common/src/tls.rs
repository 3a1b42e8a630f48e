//! What the probes in TLS libraries are told of the function that they are at, and what they tell of processes.

/// What it means that a function is called: the cookie of a place at a function's beginning.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsEntry {
    /// It moves bytes, or makes an object, and returns how many or where it is.
    Moves = 0,
    /// It moves bytes, and will write how many where its fourth argument says.
    MovesCounted = 1,
    /// It makes an object as good as new.
    Clears = 2,
}

/// What it means that a function returns: the cookie of a place at a function's end.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsExit {
    /// It has decrypted bytes.
    Read = 0,
    /// It has encrypted bytes.
    Written = 1,
    /// It returns a new object.
    Makes = 2,
    /// It has written where a new object is where its first argument says.
    MakesAt = 3,
}

/// What it means that a function of Go's `crypto/tls` is called: the cookie of its place.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoEntry {
    /// It will have decrypted bytes: the [`crate::End`] of the same number.
    Reads = 0,
    /// It will have encrypted bytes.
    Writes = 1,
    /// A connection begins.
    Handshakes = 2,
}

/// Why user space is told of a process and TLS: `aux` of [`crate::RecordKind::Library`].
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsNews {
    /// It has a library for it, or may have one by now.
    MayBeThere = 0,
    /// It has begun a TLS connection, or accepted one.
    Greets = 1,
    /// It calls its library so often that the probes cost it more than they may.
    Busy = 2,
}

impl TlsNews {
    /// What `value` encodes, if anything.
    pub const fn from_u64(value: u64) -> Option<Self> {
        match value {
            0 => Some(Self::MayBeThere),
            1 => Some(Self::Greets),
            2 => Some(Self::Busy),
            _ => None,
        }
    }
}

/// Values of the probes' global `TLS`.
pub mod tls_scope {
    /// TLS is left alone.
    pub const OFF: u32 = 0;
    /// It is looked into process by process.
    pub const PROCESSES: u32 = 1;
    /// It is looked into wherever a library is mapped.
    pub const MACHINE: u32 = 2;
}
