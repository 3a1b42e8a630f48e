//! The records in the ring buffer: a header, followed by `len` bytes of payload.

/// What a record reports.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordKind {
    /// Bytes of a stream; payload: the bytes.
    Data = 1,
    /// A reader reached the end of its stream.
    EndOfStream = 2,
    /// A process started a program whose standard input or output may carry MCP; payload: a
    /// [`crate::ExecReport`] and the arguments that follow it; `aux`: the real user id of the process.
    Exec = 3,
    /// A tracked process has exited.
    Exit = 4,
    /// An endpoint was registered by the descriptor iterator; payload: one [`EndpointReport`].
    Registered = 5,
    /// Bytes crossed a watched stream in a way that cannot be copied; `position`: how many; `aux`: the
    /// [`crate::Operation`].
    BlindSpot = 6,
    /// Counting begins for a TCP connection that may speak MCP; payload: a
    /// [`crate::ConnectionReport`]; `end`: where its first bytes crossed; `aux`: the real user id of the
    /// process.
    Connected = 7,
    /// Something about a process and TLS; `aux`: a [`crate::TlsNews`].
    Library = 8,
    /// A process has begun a TLS connection; payload: its greeting from the type on, as far as it fits into
    /// [`crate::CLIENT_HELLO_MAX`].
    ClientHello = 9,
}

impl RecordKind {
    /// The kind that `value` encodes, if any.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::Data),
            2 => Some(Self::EndOfStream),
            3 => Some(Self::Exec),
            4 => Some(Self::Exit),
            5 => Some(Self::Registered),
            6 => Some(Self::BlindSpot),
            7 => Some(Self::Connected),
            8 => Some(Self::Library),
            9 => Some(Self::ClientHello),
            _ => None,
        }
    }
}

/// Bits of [`RecordHeader::flags`].
pub struct RecordFlags;

impl RecordFlags {
    /// The payload could not be copied (page not resident): `aux` is its length, `len` is 0.
    pub const FAULT: u8 = 1;
    /// The payload was taken from the stream and not copied to its reader: `aux` is its length, `len` is 0.
    pub const UNCOPIED: u8 = 2;
}

/// The header of every record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// A [`RecordKind`].
    pub kind: u8,
    /// An [`crate::End`].
    pub end: u8,
    /// [`RecordFlags`].
    pub flags: u8,
    /// The share of the ring that the record is counted against ([`crate::ring_share_slot`]); 0 if none.
    pub share: u8,
    /// Valid payload bytes that follow.
    pub len: u32,
    /// The endpoint, if the record concerns one.
    pub key: crate::EndpointKey,
    /// Stream position of the payload's first byte.
    pub position: u64,
    /// Time on `CLOCK_BOOTTIME`, in nanoseconds.
    pub time: u64,
    /// The calling process (thread group), in the initial pid namespace.
    pub tgid: u32,
    /// The calling thread.
    pub tid: u32,
    /// Depends on the kind: see [`RecordKind`] and [`RecordFlags`].
    pub aux: u64,
}

/// What a registration found at one descriptor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointReport {
    /// The endpoint; all zero if the descriptor is neither a pipe nor a stream socket.
    pub key: crate::EndpointKey,
    /// For a socket: the inode number of its peer; 0 if unknown.
    pub peer_ino: u64,
    /// The descriptor's number.
    pub fd: u32,
    /// 1 if the endpoint is new, 0 if it was registered before.
    pub fresh: u32,
}
