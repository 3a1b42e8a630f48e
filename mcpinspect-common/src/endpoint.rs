//! An endpoint: the kernel object behind a descriptor, and what is counted about it.
//!
//! A stream is never named by a descriptor: servers move their wire to other numbers, pass it to
//! other processes and read it from other threads. The inode behind it stays the same. A pipe is
//! one inode with a reading and a writing end; a socket pair is two inodes, each of which reads
//! one stream and writes the other.

/// Which end of a stream a call was made at.
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

/// What sort of object an endpoint is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EndpointKind {
    /// A pipe or a FIFO.
    Pipe = 1,
    /// One socket of a connected `AF_UNIX` stream pair.
    UnixSocket = 2,
}

impl EndpointKind {
    /// The kind that `value` encodes, if any.
    pub const fn from_u32(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::Pipe),
            2 => Some(Self::UnixSocket),
            _ => None,
        }
    }
}

/// An inode's name: unique among the live inodes of a machine.
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

/// How far an endpoint's bytes are shipped to user space. Written by user space; the probes only
/// insert it, once, with the sniffing budget.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointWatch {
    /// By [`End`]: payload is shipped for stream positions below this. 0 ships nothing and
    /// `u64::MAX` everything.
    pub ship_limit: [u64; 2],
    /// Not 0 where bytes are counted at both ends, also where none are shipped.
    pub counted: u32,
    /// Not 0 where what is written here is shipped only to be compared with what is read: it gives
    /// way while user space is behind.
    pub compare_only: u32,
}

/// What the probes count at an endpoint, also where no payload is shipped. Written by the probes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// By [`End`]: bytes that crossed it, counted from when the endpoint was registered. The
    /// writer's count starts at what was unread then, so that position 0 is the first byte that
    /// was still to be read.
    pub position: [u64; 2],
    /// What was unread when the endpoint was registered: where the writer's count started.
    pub unread: u64,
    /// Bytes of the first write that was counted, where anything was unread before. If it was under
    /// way during the registration, its bytes are in `unread` too, and counted twice.
    pub first_write: u64,
    /// By [`End`]: bytes that should have been shipped and were not (ring full, page not there).
    pub lost: [u64; 2],
    /// By [`End`]: the process that called last.
    pub last_tgid: [u32; 2],
    /// By [`End`]: 1 where the first byte cannot begin a JSON value or a blank line: such a stream is
    /// shipped for [`crate::NOT_JSON_BUDGET`] bytes only, as long as it is not watched in full.
    pub not_json: [u32; 2],
    /// For a socket: the inode number of the socket it is connected to; 0 where not known.
    pub peer_ino: u64,
}
