//! Making an endpoint known: its watch, its counters, and what was unread in it at that moment.

use aya_ebpf::bindings::BPF_NOEXIST;
use mcpinspect_common::{Counters, End, EndpointKey, EndpointKind, EndpointReport, Stat, Watch};

use crate::{
    descriptor,
    kernel::probe,
    maps::{COUNTERS, WATCHES, count},
    offsets::*,
};

const AF_UNIX: u16 = 1;
const SOCK_STREAM: u16 = 1;
/// Pipe slots that are summed up: the largest pipe that an unprivileged process can have (1 MiB).
const PIPE_SLOTS: u32 = 256;
/// Queued socket buffers that are summed up: more than a socket of the default size can hold.
const QUEUE_LENGTH: u32 = 512;

/// Registers what `file` is, if it can carry a wire. Gives the report for user space.
#[inline(always)]
pub fn register(file: u64, fd: u32) -> EndpointReport {
    let mut report = EndpointReport::default();
    let Some((key, inode)) = descriptor::endpoint(file) else {
        return report;
    };
    if key.kind == EndpointKind::Pipe as u32 {
        report.fresh = insert(key, 0, pipe_unread(inode)) as u32;
    } else {
        let Some((peer, unread, peer_unread)) = socket_pair(file) else {
            return report;
        };
        report.peer_ino = peer.ino;
        // What is unread here was written at the peer, and the other way round.
        report.fresh = insert(key, peer.ino, peer_unread) as u32;
        insert(peer, key.ino, unread);
    }
    report.key = key;
    report.fd = fd;
    report
}

/// Inserts an endpoint that is not known yet; its writer starts after what is unread.
#[inline(always)]
fn insert(key: EndpointKey, peer_ino: u64, written_unread: u64) -> bool {
    let mut counters = Counters {
        peer_ino,
        ..Counters::default()
    };
    counters.position[End::Writer as usize] = written_unread;
    // Counters first: whoever finds the watch shall find them.
    let fresh = COUNTERS
        .insert(key, counters, u64::from(BPF_NOEXIST))
        .is_ok();
    let watch = Watch {
        limit: [SNIFF_BUDGET.load(); 2],
        counted: 1,
    };
    let watched = WATCHES.insert(key, watch, u64::from(BPF_NOEXIST)).is_ok();
    // SAFETY: only the presence of the entry is looked at.
    if !watched && unsafe { WATCHES.get(key) }.is_none() {
        count(Stat::RegistrationsFailed, 1);
    }
    fresh && watched
}

/// Bytes that wait in a pipe.
#[inline(always)]
fn pipe_unread(inode: u64) -> u64 {
    let pipe: u64 = probe(inode, OFF_INODE_PIPE.load());
    let (head, tail): (u32, u32) = if SIZE_PIPE_INDEX.load() == 2 {
        let head: u16 = probe(pipe, OFF_PIPE_HEAD.load());
        let tail: u16 = probe(pipe, OFF_PIPE_TAIL.load());
        (u32::from(head), u32::from(tail))
    } else {
        (
            probe(pipe, OFF_PIPE_HEAD.load()),
            probe(pipe, OFF_PIPE_TAIL.load()),
        )
    };
    if head == tail {
        return 0;
    }
    let slots: u64 = probe(pipe, OFF_PIPE_BUFS.load());
    let mask = probe::<u32>(pipe, OFF_PIPE_RING_SIZE.load()).wrapping_sub(1);
    let mut unread = 0;
    for step in 0..PIPE_SLOTS {
        let index = tail.wrapping_add(step);
        if index == head {
            break;
        }
        let slot = slots + u64::from(index & mask) * u64::from(SIZE_PIPE_BUFFER.load());
        unread += u64::from(probe::<u32>(slot, OFF_PIPE_BUFFER_LEN.load()));
    }
    unread
}

/// The peer of a connected `AF_UNIX` stream socket, with what is unread here and there.
#[inline(always)]
fn socket_pair(file: u64) -> Option<(EndpointKey, u64, u64)> {
    // A kernel whose AF_UNIX is a module does not describe it: its sockets are not followed.
    if OFF_UNIX_PEER.load() == 0 {
        return None;
    }
    let socket: u64 = probe(file, OFF_FILE_PRIVATE_DATA.load());
    let sock: u64 = probe(socket, OFF_SOCKET_SK.load());
    if sock == 0
        || probe::<u16>(socket, OFF_SOCKET_TYPE.load()) != SOCK_STREAM
        || probe::<u16>(sock, OFF_SOCK_FAMILY.load()) != AF_UNIX
    {
        return None;
    }
    let peer: u64 = probe(sock, OFF_UNIX_PEER.load());
    if peer == 0 {
        return None;
    }
    let peer_socket: u64 = probe(peer, OFF_SOCK_SOCKET.load());
    if peer_socket == 0 {
        return None;
    }
    let inode = peer_socket + u64::from(OFF_SOCKET_ALLOC_INODE.load());
    let key = descriptor::key(inode, EndpointKind::UnixSocket);
    Some((key, queue_unread(sock), queue_unread(peer)))
}

/// Bytes that wait in a socket's receive queue.
#[inline(always)]
fn queue_unread(sock: u64) -> u64 {
    let queue = sock + u64::from(OFF_SOCK_QUEUE.load());
    let mut unread = 0;
    let mut buffer: u64 = probe(queue, OFF_SKB_NEXT.load());
    for _ in 0..QUEUE_LENGTH {
        if buffer == queue || buffer == 0 {
            break;
        }
        let length: u32 = probe(buffer, OFF_SKB_LEN.load());
        let consumed: u32 = probe(buffer, OFF_SKB_CB.load() + OFF_UNIX_CB_CONSUMED.load());
        unread += u64::from(length.wrapping_sub(consumed));
        buffer = probe(buffer, OFF_SKB_NEXT.load());
    }
    unread
}
