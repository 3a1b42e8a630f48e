//! What is kept of a connection that may carry MCP, and told to user space when it is found.

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_uid_gid},
};
use mcpinspect_common::{
    CONNECTION_BUDGET, CONNECTION_POST_BUDGET, ConnectionReport, EndpointCounters, EndpointKey,
    EndpointKind, EndpointWatch, Operation, RecordKind, SHIP_REGARDLESS, Stat, UNIX_ADDRESS,
    left_alone_key, ring_share_slot,
};

use crate::{
    blind_spot, carrier, emit, endpoint,
    kernel::{self, probe},
    ledger, left_alone,
    maps::{CONNECTIONS_CLOSED, CONNECTIONS_OPENED, COUNTERS, LEFT_ALONE, WATCHES, count},
    offsets::*,
};

/// No connection carries more bytes than this. The bits above have other meanings in a position.
const POSITION: u64 = (1 << 48) - 1;

/// What is too large for a program's stack. At system calls, one slot per CPU is enough, see
/// [`crate::copy`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scratch {
    counters: EndpointCounters,
    report: ConnectionReport,
}

/// A connection whose first bytes are HTTP.
pub struct HttpConnection {
    pub key: EndpointKey,
    /// The address of its inode.
    pub inode: u64,
    /// By [`End`]: bytes that had crossed it before.
    pub position: [u64; 2],
    /// The [`End`] that its first bytes cross.
    pub end: u8,
    pub requests_at: u32,
    pub requests: u32,
    /// It begins with a request for a message, or may do so.
    pub is_post: bool,
    /// See [`ConnectionReport::greeting`].
    pub greeting: u64,
}

/// Registers a connection and reports it to user space. Returns whether it is registered.
#[inline(always)]
pub fn register(connection: &HttpConnection, scratch: &mut Scratch) -> bool {
    let HttpConnection {
        key,
        inode,
        position,
        end,
        requests_at,
        requests,
        is_post,
        greeting,
    } = *connection;
    let uid = bpf_get_current_uid_gid() as u32;
    if !has_room(uid) {
        count(Stat::ConnectionsRefused, 1);
        left_alone::leave(left_alone_key(&key), requests_at, requests);
        blind_spot::report_process(
            Operation::ConnectionBudget,
            (bpf_get_current_pid_tgid() >> 32) as u32,
        );
        return false;
    }
    let budget = if is_post {
        CONNECTION_POST_BUDGET
    } else {
        CONNECTION_BUDGET
    };
    let Scratch { counters, report } = scratch;
    if !insert(key, inode, position, budget, counters) {
        // Another thread was faster, or there is no room.
        // SAFETY: only the entry's presence is checked.
        return unsafe { WATCHES.get(key) }.is_some();
    }
    let socket = inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
    let sock: u64 = probe(socket, OFF_SOCKET_SK.load());
    let family: u16 = probe(sock, OFF_SOCK_FAMILY.load());
    report.position = position;
    report.network = probe(probe(sock, OFF_SOCK_NET.load()), OFF_NET_INUM.load());
    report.requests_at = requests_at;
    report.requests = requests;
    report.greeting = greeting;
    report.is_tls = u32::from(key.kind == EndpointKind::TlsSocket as u32);
    if family == carrier::AF_UNIX {
        unix_addresses(sock, key.ino, report);
    } else {
        addresses(sock, family, report);
    }
    let mut header = emit::header(RecordKind::Connected, end, key, 0);
    header.aux = u64::from(uid);
    if !emit::with_copy_of(header, report) {
        let _ = WATCHES.remove(key);
        let _ = COUNTERS.remove(key);
        // The ring is full, which is reported. What crosses next is examined like a beginning, or if it was left
        // alone before, the next request.
        if let Some(before) = requests.checked_sub(1) {
            left_alone::leave(left_alone_key(&key), requests_at, before);
        }
        return false;
    }
    opened_by(uid);
    let _ = LEFT_ALONE.remove(left_alone_key(&key));
    true
}

/// Inserts counters, built in a place for them, and a watch. Returns whether both are new.
#[inline(always)]
fn insert(
    key: EndpointKey,
    inode: u64,
    position: [u64; 2],
    budget: u64,
    counters: &mut EndpointCounters,
) -> bool {
    // SAFETY: a valid place.
    unsafe { endpoint::zero(counters) };
    counters.inode = inode;
    counters.position = position;
    // By reference: a copy would not fit on the stack.
    let counters: &EndpointCounters = counters;
    if COUNTERS
        .insert(key, counters, u64::from(BPF_NOEXIST))
        .is_err()
    {
        return false;
    }
    let watch = EndpointWatch {
        ship_limit: [
            (position[0] + budget) | SHIP_REGARDLESS,
            (position[1] + budget) | SHIP_REGARDLESS,
        ],
        counted: 1,
        compare_only: 0,
    };
    if WATCHES.insert(key, watch, u64::from(BPF_NOEXIST)).is_err() {
        let _ = COUNTERS.remove(key);
        count(Stat::RegistrationsFailed, 1);
        return false;
    }
    true
}

/// Bytes that have crossed a connection at either [`End`], by TCP's own count.
#[inline(always)]
pub fn crossed(sock: u64) -> [u64; 2] {
    let waiting: u32 = probe::<u32>(sock, OFF_TCP_RCV_NXT.load())
        .wrapping_sub(probe(sock, OFF_TCP_COPIED_SEQ.load()));
    let unsent: u32 = probe::<u32>(sock, OFF_TCP_WRITE_SEQ.load())
        .wrapping_sub(probe(sock, OFF_TCP_SND_NXT.load()));
    let received: u64 = probe(sock, OFF_TCP_BYTES_RECEIVED.load());
    let sent: u64 = probe(sock, OFF_TCP_BYTES_SENT.load());
    let again: u64 = probe(sock, OFF_TCP_BYTES_RETRANS.load());
    [
        received.saturating_sub(u64::from(waiting)) & POSITION,
        (sent.saturating_sub(again) + u64::from(unsent)) & POSITION,
    ]
}

#[inline(always)]
fn addresses(sock: u64, family: u16, report: &mut ConnectionReport) {
    report.peer = 0;
    report.place_length = 0;
    report.local_port = probe(sock, OFF_SOCK_NUM.load());
    report.remote_port = u16::from_be(probe(sock, OFF_SOCK_DPORT.load()));
    if family == carrier::AF_INET6 {
        // SAFETY: fields of the structure.
        unsafe {
            kernel::copy(&raw mut report.local, sock, OFF_SOCK_LOCAL6.load());
            kernel::copy(&raw mut report.remote, sock, OFF_SOCK_REMOTE6.load());
        }
    } else {
        map_into(&mut report.local, probe(sock, OFF_SOCK_LOCAL4.load()));
        map_into(&mut report.remote, probe(sock, OFF_SOCK_REMOTE4.load()));
    }
}

/// A Unix socket's address is one object for the listening socket and all that it has accepted.
#[inline(always)]
fn unix_addresses(sock: u64, ino: u64, report: &mut ConnectionReport) {
    report.local_port = 0;
    report.remote_port = 0;
    let address: u64 = probe(sock, OFF_UNIX_ADDR.load());
    write_unix(&mut report.local, address);
    // The family comes before the path.
    let family = size_of::<u16>() as u32;
    let length: u32 = probe(address, OFF_UNIX_ADDRESS_LEN.load());
    report.place_length = u64::from(length).saturating_sub(u64::from(family));
    // SAFETY: a field of the structure. User space cuts off what is behind the path.
    unsafe {
        let path = OFF_UNIX_ADDRESS_NAME.load() + family;
        kernel::copy(&raw mut report.place, address, path);
    }
    write_unix(&mut report.remote, ino);
    let peer: u64 = probe(sock, OFF_SOCK_PEER_PID.load());
    // Its first number is the one outside of all containers.
    report.peer = if peer == 0 {
        0
    } else {
        probe(peer, OFF_PID_NUMBERS.load())
    };
}

#[inline(always)]
fn write_unix(address: &mut [u8; 16], number: u64) {
    let words = address.as_mut_ptr().cast::<u64>();
    // SAFETY: sixteen bytes, aligned like the structure that they are in.
    unsafe {
        words.write(u64::from_ne_bytes(UNIX_ADDRESS));
        words.add(1).write(number);
    }
}

/// Writes an IPv4 address, as it is in memory, as an IPv6 address.
#[inline(always)]
fn map_into(address: &mut [u8; 16], v4: u32) {
    const MAPPED: u64 = 0xffff_0000;
    let words = address.as_mut_ptr().cast::<u64>();
    // SAFETY: sixteen bytes, aligned like the structure that they begin.
    unsafe {
        words.write(0);
        words.add(1).write(MAPPED | u64::from(v4) << 32);
    }
}

/// Whether a user may have one more connection.
#[inline(always)]
fn has_room(uid: u32) -> bool {
    // Slot 0 belongs to no one: all connections are counted there.
    let max = u64::from(CONNECTIONS_MAX.load());
    known_of(u32::from(ring_share_slot(uid))) < max / 4 && known_of(0) < max
}

#[inline(always)]
fn known_of(slot: u32) -> u64 {
    let (Some(opened), Some(closed)) = (
        CONNECTIONS_OPENED.get_ptr(slot),
        CONNECTIONS_CLOSED.get_ptr(slot),
    ) else {
        return 0;
    };
    // SAFETY: values of arrays, which stay; both only ever grow, by atomic additions.
    unsafe { opened.read_volatile().wrapping_sub(closed.read_volatile()) }
}

#[inline(always)]
fn opened_by(uid: u32) {
    for slot in [0, u32::from(ring_share_slot(uid))] {
        if let Some(opened) = CONNECTIONS_OPENED.get_ptr_mut(slot) {
            // SAFETY: a value of an array, which stays.
            unsafe { ledger::add(opened, 1) };
        }
    }
}
