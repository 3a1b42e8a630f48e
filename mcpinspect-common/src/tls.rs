//! What the probes in TLS libraries learn about the function they are at, and what they report about processes.

/// What a call of a function means: the cookie of a place at the function's beginning.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsEntry {
    /// It moves bytes, or makes an object, and returns how many or where it is.
    Moves = 0,
    /// It moves bytes, and will write how many to where its fourth argument points.
    MovesCounted = 1,
    /// It makes an object as good as new.
    Clears = 2,
    /// Like [`Self::Moves`], but its first argument is a stack of layers (NSPR), which may have none for TLS.
    MovesLayered = 3,
    /// The same, and its fourth argument has flags, one of which leaves the bytes where they are.
    MovesLayeredUnlessPeeked = 4,
    /// It moves bytes through such a stack in a way that is not followed.
    LeavesLayered = 5,
}

/// What the return of a function means: the cookie of a place at the function's end.
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsExit {
    /// It has decrypted bytes.
    Read = 0,
    /// It has encrypted bytes.
    Written = 1,
    /// It returns a new object.
    Makes = 2,
    /// It has written the address of a new object to where its first argument points.
    MakesAt = 3,
    /// It returns a stack of layers with a new object.
    MakesLayered = 4,
}

/// What a call of a function of Go's `crypto/tls` means: the cookie of its place.
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

/// Why a process and TLS are reported to user space: `aux` of [`crate::RecordKind::Library`].
#[repr(u64)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsNews {
    /// It has a TLS library, or may have one by now.
    MayBeThere = 0,
    /// It has begun a TLS connection, or accepted one.
    Greets = 1,
    /// It calls its library so often that the probes cost it too much.
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
    /// It is examined process by process.
    pub const PROCESSES: u32 = 1;
    /// It is examined wherever a library is mapped.
    pub const MACHINE: u32 = 2;
}
