//! Endpoints: the kernel objects behind descriptors, how far they are watched, and their counters.
//!
//! A descriptor does not identify a stream: servers move their pipes to other numbers, pass them to
//! other processes and read them in other threads. The inode behind the descriptor stays the same. A
//! pipe is one inode with a reading and a writing end. A socket pair is two inodes; each reads one
//! stream and writes the other.

/// The end of a stream at which a call was made.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The process took bytes out of the stream.
    Reader = 0,
    /// The process put bytes into the stream.
    Writer = 1,
}

impl End {
    /// The end that `value` encodes, if any.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Reader),
            1 => Some(Self::Writer),
            _ => None,
        }
    }
}

/// The kind of kernel object.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointKind {
    /// A pipe or a FIFO.
    Pipe = 1,
    /// One socket of a connected `AF_UNIX` stream pair.
    UnixSocket = 2,
    /// One end of a connection that may speak HTTP, see [`crate::ConnectionReport`].
    HttpSocket = 3,
    /// The plain text of one end of a TCP connection that carries TLS. The inode is the socket's.
    TlsSocket = 4,
}

impl EndpointKind {
    /// The kind that `value` encodes, if any.
    pub const fn from_u32(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::Pipe),
            2 => Some(Self::UnixSocket),
            3 => Some(Self::HttpSocket),
            4 => Some(Self::TlsSocket),
            _ => None,
        }
    }
}

/// The identity of an inode, unique among the live inodes of a machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointKey {
    /// Inode number.
    pub ino: u64,
    /// Device of its file system, in the kernel's own encoding (`major << 20 | minor`).
    pub dev: u32,
    /// An [`EndpointKind`].
    pub kind: u32,
}

/// How far an endpoint's bytes are shipped to user space. User space writes it; the probes only insert
/// it, once, with the sniffing budget.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointWatch {
    /// By [`End`]: payload is shipped for stream positions below this. 0 ships nothing, `u64::MAX`
    /// everything. See also [`crate::SHIP_REGARDLESS`].
    pub ship_limit: [u64; 2],
    /// Not 0 if bytes are counted at both ends, even if none are shipped.
    pub counted: u32,
    /// Not 0 if what is written here is shipped only for comparison with what is read: it is dropped
    /// while user space is behind.
    pub compare_only: u32,
}

/// Set in the writer's [`EndpointCounters::position`] until the bytes that were unread at the
/// registration have been summed up. Until then, calls are counted but not shipped, because it is
/// not yet known where in the stream their bytes belong.
pub const REGISTERING: u64 = 1 << 63;

/// What the probes count at an endpoint, even if no payload is shipped. Only the probes write it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// By [`End`]: bytes that crossed it since the endpoint was registered. The writer's count starts
    /// with the bytes that were unread then, so that position 0 is the first byte still to be
    /// read. See [`Self::counted`].
    pub position: [u64; 2],
    /// Where the writer's count started: what was unread when the endpoint was registered, and what was
    /// read meanwhile. Earlier bytes are never shipped from the writer's end.
    pub unread: u64,
    /// Length of the first write that was counted, if `unread` is not 0. If that write was in progress
    /// during the registration, `unread` may include its bytes too, and they are counted twice.
    pub first_write: u64,
    /// By [`End`]: bytes that should have been shipped and were not (ring full, page not resident).
    pub lost: [u64; 2],
    /// By [`End`]: the process that made the last call.
    pub last_tgid: [u32; 2],
    /// By [`End`]: 1 if the first byte cannot begin a JSON value or a blank line. Of such a stream only
    /// [`crate::NOT_JSON_BUDGET`] bytes are shipped, unless it is watched in full.
    pub not_json: [u32; 2],
    /// For a socket: the inode number of the socket that it is connected to; 0 if unknown.
    pub peer_ino: u64,
    /// The address of the inode, for the probes alone.
    pub inode: u64,
    /// When a survey last examined it, in nanoseconds since boot; 0 if none has.
    pub surveyed: u64,
    /// By [`End`]: whether anything held it open then, a descriptor in flight included. A socket's two
    /// are the same.
    pub held: [u32; 2],
    /// 1 if calls returned all the time while the unread bytes were summed up, so that the writer's
    /// count may start at a wrong byte.
    pub uncertain: u64,
}

impl EndpointCounters {
    /// Bytes counted at an end; 0 while it is unknown where the count starts.
    pub const fn counted(&self, end: End) -> u64 {
        let position = self.position[end as usize];
        if position & REGISTERING == 0 {
            position
        } else {
            0
        }
    }

    /// Whether the writer's count starts where `unread` says, except for a write in progress.
    pub const fn is_exact(&self) -> bool {
        self.position[End::Writer as usize] & REGISTERING == 0 && self.uncertain == 0
    }
}
