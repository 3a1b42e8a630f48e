//! Which sockets may be an end of a connection that speaks MCP.

use crate::{descriptor, kernel::probe, offsets::*};

pub const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
pub const AF_INET6: u16 = 10;
pub const SOCK_STREAM: u64 = 1;

/// What a socket may be an end of.
#[derive(Clone, Copy)]
pub enum Carrier {
    /// Nothing of interest.
    None,
    /// A TCP connection.
    Internet,
    /// A connection to a listening Unix socket, whose end it is.
    Unix,
}

/// Whether a file may be an end of a connection of interest.
#[inline(always)]
pub fn is_end(file: u64) -> bool {
    !matches!(of_file(file), Carrier::None)
}

/// What a file may be an end of.
#[inline(always)]
pub fn of_file(file: u64) -> Carrier {
    let Some(inode) = descriptor::socket_inode(file) else {
        return Carrier::None;
    };
    let socket = inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
    of_socket(socket, probe(socket, OFF_SOCKET_SK.load()))
}

/// What a socket may be an end of.
#[inline(always)]
pub fn of_socket(socket: u64, sock: u64) -> Carrier {
    let family: u16 = probe(sock, OFF_SOCK_FAMILY.load());
    if probe::<u16>(socket, OFF_SOCKET_TYPE.load()) != SOCK_STREAM as u16 {
        Carrier::None
    } else if is_internet(family) {
        Carrier::Internet
    } else if family == AF_UNIX && is_accepted(sock) {
        Carrier::Unix
    } else {
        Carrier::None
    }
}

#[inline(always)]
pub fn is_internet(family: u16) -> bool {
    family == AF_INET || family == AF_INET6
}

/// Whether a Unix socket was accepted, or listens: it has an address.
#[inline(always)]
fn is_accepted(sock: u64) -> bool {
    // A kernel whose AF_UNIX is a module has no BTF for it.
    OFF_UNIX_ADDR.load() != 0 && probe::<u64>(sock, OFF_UNIX_ADDR.load()) != 0
}
