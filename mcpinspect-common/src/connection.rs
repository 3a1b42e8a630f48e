//! Connections that speak HTTP, over TCP or Unix sockets: what the kernel reports about them, and which are
//! left alone.
//!
//! A socket is an endpoint like a pipe, with one difference: a single socket sees both directions, so
//! one end of a connection is enough. Positions count from the connection's first byte, so that both
//! ends, if both are on this machine, mean the same byte by the same position. Of a connection over Unix
//! sockets, which do not count, only the server's end is reported.

/// The payload of [`crate::RecordKind::Connected`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionReport {
    /// The address of this end. IPv4 addresses are mapped into IPv6 (`::ffff:a.b.c.d`). With Unix sockets,
    /// [`UNIX_ADDRESS`] and a number that all connections to the same listening socket share.
    pub local: [u8; 16],
    /// The address of the other end. With Unix sockets, [`UNIX_ADDRESS`] and a number that no other connection
    /// has.
    pub remote: [u8; 16],
    /// By [`crate::End`]: bytes that crossed this socket before it was registered. Unix sockets do not count: all
    /// that matters is whether there were any.
    pub position: [u64; 2],
    /// The inode number of the network namespace.
    pub network: u32,
    /// The port of this end.
    pub local_port: u16,
    /// The port of the other end.
    pub remote_port: u16,
    /// The [`crate::End`] at which requests cross this socket: a server reads them.
    pub requests_at: u32,
    /// See [`LeftAlone::requests`].
    pub requests: u32,
    /// 1 if this is the plain text of a connection that carries TLS: positions count from its first byte.
    pub is_tls: u32,
    /// With Unix sockets: the process that has connected, as the kernel noted it (`SO_PEERCRED`). 0 otherwise.
    pub peer: u32,
    /// With TLS: some of the random bytes that the connection began with, see [`TlsPartyKey`]. 0 otherwise.
    pub greeting: u64,
    /// With Unix sockets: how much of `place` counts, in bytes. 0 otherwise.
    pub place_length: u64,
    /// With Unix sockets: where the server listens, a path or an abstract name as in `sun_path` (unix(7)), in the
    /// order of its bytes. What follows has no meaning.
    pub place: [u64; PLACE_WORDS],
}

/// Words that a path of a Unix socket has room in: 108 bytes, rounded up.
pub const PLACE_WORDS: usize = 14;

/// The first half of an address that stands for a Unix socket. As an IPv6 address it is multicast, which no
/// TCP connection has.
pub const UNIX_ADDRESS: [u8; 8] = [0xff; 8];

/// An end of a connection that carries TLS: under this key, the probes note which process was there when the
/// connection began.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlsPartyKey {
    /// Some of the random bytes that its client chose.
    pub greeting: u64,
    /// The [`crate::End`] that they cross there: a client writes them.
    pub end: u64,
}

/// A socket whose bytes are of no interest for now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftAlone {
    /// The [`crate::End`] at which requests cross the socket; [`NO_REQUESTS`] if it is no longer
    /// examined.
    pub requests_at: u32,
    /// Requests that may belong to MCP since it was left alone. It is examined again at the first, the second,
    /// the fourth, the eighth…
    pub requests: u32,
    /// Other requests since then. The first, the second, the fourth… is searched for a mention of events.
    pub pages: u32,
}

/// The key for remembering a connection as left alone: the bytes of a socket and the plain text in
/// them are two things.
pub const fn left_alone_key(key: &crate::EndpointKey) -> u64 {
    if key.kind == crate::EndpointKind::TlsSocket as u32 {
        key.ino | 1 << 63
    } else {
        key.ino
    }
}

/// A value of [`LeftAlone::requests_at`]: nowhere.
pub const NO_REQUESTS: u32 = 2;

/// A value of [`LeftAlone::requests_at`]: the end is unknown.
pub const LOOK_AT_BOTH: u32 = 3;

/// Connections that can be known at a time, as a share of the endpoints that there is room for: one fourth. One
/// user can have a fourth of these.
pub const CONNECTIONS_SHARE: u32 = 4;

/// Sockets to remember as left alone. One that is forgotten is examined again.
pub const LEFT_ALONE_MAX: u32 = 65_536;

/// Bytes to ship in each direction of a connection that begins with a request for a message, until
/// user space has examined it.
pub const CONNECTION_POST_BUDGET: u64 = 4 << 20;

/// The same for one that begins with any other request.
pub const CONNECTION_BUDGET: u64 = 16 << 10;
