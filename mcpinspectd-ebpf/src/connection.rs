//! Connections over TCP and Unix sockets: which of them may speak MCP.
//!
//! Any process may be a client or a server of MCP over HTTP, so every process is examined that has opened
//! or accepted an internet socket. Of Unix sockets, only accepted ones count: nearly every program connects to
//! some service, and the server's end sees both directions.
//!
//! A socket is examined once, when the first bytes cross it: if they are an HTTP request or response, it is
//! registered like a stream, and user space finds out the rest. Everything else is left alone. A connection that
//! turned out to carry something other than MCP may begin to carry it later; so if requests cross a socket that
//! was left alone, it is examined again at the second, the fourth, the eighth…
//!
//! Cost to other processes:
//! - none for one that never had an internet socket, and never accepted a Unix socket;
//! - a process that has: about four reads and one look-up for each call that carries bytes; at the end
//!   of a connection where requests cross, 8 bytes from user memory;
//! - a new connection that loads a page: some ten reads, an insertion, and the cost stated in [`crate::http_head`];
//! - a new connection that may carry MCP: some twenty reads, two insertions and one record.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::{
    ffi::c_void,
    intrinsics::{AtomicOrdering, atomic_and, atomic_or},
};

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_uid_gid, generated::bpf_loop},
    macros::map,
    maps::{LruHashMap, PerCpuArray},
};
use mcpinspect_common::{
    CONNECTION_BUDGET, CONNECTION_POST_BUDGET, ConnectionReport, End, EndpointCounters,
    EndpointKey, EndpointKind, EndpointWatch, LOOK_AT_BOTH, LeftAlone, NO_REQUESTS, Operation,
    RecordKind, SHIP_REGARDLESS, Stat, UNIX_ADDRESS, connection_bit, left_alone_key,
    ring_share_slot, tracked_slot,
};

use crate::{
    arguments::Arguments,
    blind_spot, descriptor, emit, endpoint,
    first_bytes::{
        self, first_word, is_page_request, is_post, is_request, is_response, is_settings,
    },
    http_head::{self, Piece},
    kernel::{self, Access, Probed, probe, user},
    ledger,
    maps::{CONNECTIONS_CLOSED, CONNECTIONS_OPENED, COUNTERS, LEFT_ALONE, TRACKED, WATCHES, count},
    offsets::*,
    tls_library,
    tls_pairing::{self, Crossing, Socket},
    user_buffers::{self, IoVec, Shape, UserBuffers},
    watch,
};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const SOCK_STREAM: u64 = 1;
/// The bits of a socket's type that are not flags.
const SOCK_TYPE: u64 = 0xf;
const IPPROTO_TCP: u16 = 6;
/// No connection carries more bytes than this. The bits above have other meanings in a position.
const POSITION: u64 = (1 << 48) - 1;
/// The standard input, and the descriptor that systemd passes a connection on.
const PASSED_ON: [u32; 2] = [0, 3];

/// Processes to remember in [`UNIX_ONLY`].
const UNIX_ONLY_MAX: u32 = 4096;

/// Processes that accepted a Unix socket before they had an internet socket, if they ever had.
#[map]
static UNIX_ONLY: LruHashMap<u32, u8> = LruHashMap::with_max_entries(UNIX_ONLY_MAX, 0);

/// What a socket may be an end of.
#[derive(Clone, Copy)]
enum Carrier {
    /// Nothing of interest.
    None,
    /// A TCP connection.
    Internet,
    /// A connection to a listening Unix socket, whose end it is.
    Unix,
}

/// Whether `tgid` may have a connection.
#[inline(always)]
pub fn is_marked(tgid: u32) -> bool {
    // SAFETY: reads an aligned word of a map that lives as long as the program.
    TRACKED.get_ptr(tracked_slot(tgid)).is_some_and(
        |words| unsafe { (&raw const (*words)[1]).read_volatile() } & connection_bit(tgid) != 0,
    )
}

/// Notes whether `tgid` may have a connection. The daemon's own are never examined.
#[inline(always)]
pub fn mark(tgid: u32, may: bool) {
    const ORDER: AtomicOrdering = AtomicOrdering::SeqCst;
    if tgid == OWN_TGID.load() {
        return;
    }
    if let Some(words) = TRACKED.get_ptr_mut(tracked_slot(tgid)) {
        let bit = connection_bit(tgid);
        // SAFETY: an aligned word of a map that lives as long as the program.
        unsafe {
            let word = &raw mut (*words)[1];
            if may {
                atomic_or::<u64, u64, ORDER>(word, bit);
            } else {
                atomic_and::<u64, u64, ORDER>(word, !bit);
            }
        }
    }
}

/// Notes a call that may have opened or accepted a socket. Returns whether it is of that kind.
#[inline(always)]
pub fn opened<A: Access>(operation: u8, arguments: &Arguments, result: u64) -> bool {
    const SOCKET: u8 = Operation::Socket as u8;
    const ACCEPT: u8 = Operation::Accept as u8;
    let carrier = match operation {
        SOCKET => {
            let family = arguments.first::<A>() as u32 as u16;
            if is_internet(family) && arguments.second::<A>() & SOCK_TYPE == SOCK_STREAM {
                Carrier::Internet
            } else {
                Carrier::None
            }
        }
        ACCEPT => carrier(descriptor::file::<A>(A::current_task(), result as u32)),
        _ => return false,
    };
    if CONNECTIONS.load() != 1 {
        return true;
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    match carrier {
        Carrier::None => {}
        Carrier::Internet => {
            if !is_marked(tgid) || UNIX_ONLY.remove(tgid).is_ok() {
                mark(tgid, true);
                tls_library::may_be_there::<A>();
            }
        }
        Carrier::Unix => {
            if !is_marked(tgid) {
                let _ = UNIX_ONLY.insert(tgid, 1, 0);
                mark(tgid, true);
            }
        }
    }
    true
}

/// A new process may have its parent's connections.
#[inline(always)]
pub fn on_fork(parent: u32, child: u32) {
    mark(child, is_marked(parent));
}

/// A new program may have a connection as its standard input, or where systemd puts one.
#[inline(always)]
pub fn on_exec(task: u64, tgid: u32) {
    if !is_marked(tgid) {
        return;
    }
    let [input, passed] = PASSED_ON;
    if !is_end(descriptor::file::<Probed>(task, input))
        && !is_end(descriptor::file::<Probed>(task, passed))
    {
        mark(tgid, false);
    }
}

/// A descriptor that was open before the daemon started.
#[inline(always)]
pub fn on_descriptor(tgid: u32, file: u64) {
    if CONNECTIONS.load() == 1 && is_end(file) {
        mark(tgid, true);
    }
}

/// The connection behind `file`, if its bytes are counted. `total` bytes have crossed
/// it at `end`, from or to `buffers`: if nothing is known about it, these are examined.
#[inline(always)]
pub fn watched(file: u64, end: End, buffers: UserBuffers, total: u64) -> Option<EndpointKey> {
    let inode = descriptor::socket_inode(file)?;
    let ino: u64 = probe(inode, OFF_INODE_INO.load());
    let key = descriptor::connection_key(ino);
    if let Some(left) = LEFT_ALONE.get_ptr_mut(ino) {
        if !is_for(left, end as u32) {
            return None;
        }
    } else if let Some(is_counted) = watch::is_counted(key) {
        return is_counted.then_some(key);
    }
    // An array of messages moved an unknown number of bytes. No one speaks HTTP that way.
    if total == 0 || buffers.shape == Shape::Messages {
        return None;
    }
    let look = LOOK.get_ptr_mut(0)?;
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    unsafe {
        (&raw mut (*look).inode).write(inode);
        (&raw mut (*look).ino).write(ino);
        (&raw mut (*look).shape).write(buffers.shape as u64);
        (&raw mut (*look).address).write(buffers.address);
        (&raw mut (*look).total).write(total);
        (&raw mut (*look).end).write(end as u64);
        (&raw mut (*look).is_registered).write(0);
    }
    // SAFETY: `look_step` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(1, look_step as *mut c_void, core::ptr::null_mut(), 0);
    }
    // SAFETY: as above.
    let is_registered = unsafe { (&raw const (*look).is_registered).read_volatile() };
    (is_registered != 0).then_some(key)
}

/// Whether what crosses `end` may cause a connection that was left alone to be examined again.
#[inline(always)]
fn is_for(left: *const LeftAlone, end: u32) -> bool {
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    let at = unsafe { (&raw const (*left).requests_at).read_volatile() };
    at == end || at == LOOK_AT_BOTH
}

/// Counts what crosses a connection that was left alone. Returns the number of the request, if the connection
/// must be examined again because of it.
#[inline(always)]
pub fn next_request(
    left: *mut LeftAlone,
    end: u32,
    piece: Piece,
    may_ask_for_events: impl FnOnce(Piece) -> bool,
) -> Option<u32> {
    if !is_for(left, end) {
        return None;
    }
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    unsafe {
        let word = first_word(piece);
        if !is_post(word, piece.length) {
            if !is_page_request(word, piece.length) {
                return None;
            }
            next_of(&raw mut (*left).pages)?;
            if !may_ask_for_events(piece) {
                return None;
            }
        }
        next_of(&raw mut (*left).requests)
    }
}

/// Counts, and returns the number if it is a power of two.
///
/// # Safety
/// `counter` is an aligned word of a map entry.
#[inline(always)]
unsafe fn next_of(counter: *mut u32) -> Option<u32> {
    // SAFETY: the caller vouches for it.
    let number = unsafe { counter.read_volatile() }.wrapping_add(1);
    // SAFETY: the caller vouches for it.
    unsafe { counter.write_volatile(number) };
    (number & number.wrapping_sub(1) == 0).then_some(number)
}

/// What is too large for a program's stack. At system calls, one slot per CPU is enough, see
/// [`crate::copy`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Scratch {
    counters: EndpointCounters,
    report: ConnectionReport,
}

#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// The examination of a socket. It lives in a map because the verifier does not track values through one: its
/// results are checked once, and not for every kind of call.
#[repr(C)]
#[derive(Clone, Copy)]
struct Look {
    inode: u64,
    ino: u64,
    /// A [`Shape`].
    shape: u64,
    /// Where the call's buffers are.
    address: u64,
    /// How many bytes the call moved.
    total: u64,
    end: u64,
    is_registered: u64,
}

/// The current examination. One slot per CPU is enough, see [`crate::copy`].
#[map]
static LOOK: PerCpuArray<Look> = PerCpuArray::with_max_entries(1, 0);

unsafe extern "C" fn look_step(_index: u32, _context: *mut c_void) -> i64 {
    if let Some(look) = LOOK.get_ptr_mut(0) {
        // SAFETY: this CPU's slot; no other program uses it meanwhile.
        let look = unsafe { &mut *look };
        look.is_registered = u64::from(look_at(look));
    }
    1
}

/// Registers a connection if its first bytes are HTTP; leaves it alone otherwise.
#[inline(always)]
fn look_at(look: &Look) -> bool {
    let end = look.end as u32 & 1;
    let piece = first_piece(look.shape, look.address, look.total);
    let mut requests = 0;
    let mut is_page = false;
    let word = if let Some(left) = LEFT_ALONE.get_ptr_mut(look.ino) {
        let next = next_request(left, end, piece, http_head::may_ask_for_events);
        let Some(number) = next else {
            return false;
        };
        requests = number;
        first_word(piece)
    } else {
        let word = first_word(piece);
        is_page = first_bytes::is_page(word, piece);
        word
    };
    let socket = look.inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
    let sock: u64 = probe(socket, OFF_SOCKET_SK.load());
    if sock == 0 {
        return false;
    }
    let length = piece.length;
    let is_unix = match carrier_of(socket, sock) {
        Carrier::Unix => true,
        Carrier::Internet if probe::<u16>(sock, OFF_SOCK_PROTOCOL.load()) == IPPROTO_TCP => false,
        Carrier::Internet | Carrier::None => {
            leave(look.ino, NO_REQUESTS, 0);
            return false;
        }
    };
    if is_page {
        leave(look.ino, end, 0);
        return false;
    }
    let mut position = if is_unix {
        // A response answers something. Anything else may be the first.
        let before = u64::from(end == End::Writer as u32 && is_response(word, length));
        [before; 2]
    } else {
        crossed(sock)
    };
    // What this call moved is counted next. Constant indices: older verifiers cannot bound a variable one.
    if !is_unix && end == End::Reader as u32 {
        position[0] = position[0].saturating_sub(look.total);
    } else if !is_unix {
        position[1] = position[1].saturating_sub(look.total);
    }
    let is_post = is_post(word, length);
    let requests_at = if is_post || is_request(word, length) {
        end
    } else if is_response(word, length) || is_settings(word, length) {
        1 - end
    } else if is_unix {
        leave(look.ino, NO_REQUESTS, 0);
        return false;
    } else {
        let before = if end == End::Reader as u32 {
            position[0]
        } else {
            position[1]
        };
        let is_coming = tls_pairing::greeting(&Crossing {
            socket: Socket {
                ino: look.ino,
                inode: look.inode,
                greeted: 0,
            },
            end,
            address: piece.address,
            length,
            word,
            before,
        });
        if is_coming {
            return false;
        }
        // If it was in use before, this may be any part.
        let was_used = position[0] | position[1] != 0;
        leave(
            look.ino,
            if was_used { LOOK_AT_BOTH } else { NO_REQUESTS },
            0,
        );
        return false;
    };
    if is_unix && requests_at != End::Reader as u32 {
        // The end that was accepted sends requests: this is not HTTP.
        leave(look.ino, NO_REQUESTS, 0);
        return false;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    let found = Found {
        key: descriptor::connection_key(look.ino),
        inode: look.inode,
        position,
        end: end as u8,
        requests_at,
        requests,
        is_post,
        greeting: 0,
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    register(&found, unsafe { &mut *scratch })
}

/// A connection whose first bytes are HTTP.
pub struct Found {
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
pub fn register(found: &Found, scratch: &mut Scratch) -> bool {
    let Found {
        key,
        inode,
        position,
        end,
        requests_at,
        requests,
        is_post,
        greeting,
    } = *found;
    let uid = bpf_get_current_uid_gid() as u32;
    if !has_room(uid) {
        count(Stat::ConnectionsRefused, 1);
        leave(left_alone_key(&key), requests_at, requests);
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
    if family == AF_UNIX {
        unix_addresses(sock, key.ino, report);
    } else {
        addresses(sock, family, report);
    }
    let mut header = emit::header(RecordKind::Connected, end, key, 0);
    header.aux = u64::from(uid);
    if !emit::with_copy_of(header, report) {
        let _ = WATCHES.remove(key);
        let _ = COUNTERS.remove(key);
        leave(left_alone_key(&key), requests_at, requests);
        return false;
    }
    opened_by(uid);
    let _ = LEFT_ALONE.remove(left_alone_key(&key));
    true
}

#[inline(always)]
fn leave(key: u64, requests_at: u32, requests: u32) {
    let left = LeftAlone {
        requests_at,
        requests,
        pages: 0,
    };
    // If there is no room, it is examined again.
    let _ = LEFT_ALONE.insert(key, left, 0);
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
fn crossed(sock: u64) -> [u64; 2] {
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
    report.local_port = probe(sock, OFF_SOCK_NUM.load());
    report.remote_port = u16::from_be(probe(sock, OFF_SOCK_DPORT.load()));
    if family == AF_INET6 {
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
    write_unix(&mut report.local, probe(sock, OFF_UNIX_ADDR.load()));
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

/// Whether a file may be an end of a connection of interest.
#[inline(always)]
fn is_end(file: u64) -> bool {
    !matches!(carrier(file), Carrier::None)
}

/// What a file may be an end of.
#[inline(always)]
fn carrier(file: u64) -> Carrier {
    let Some(inode) = descriptor::socket_inode(file) else {
        return Carrier::None;
    };
    let socket = inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
    carrier_of(socket, probe(socket, OFF_SOCKET_SK.load()))
}

/// What a socket may be an end of.
#[inline(always)]
fn carrier_of(socket: u64, sock: u64) -> Carrier {
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
fn is_internet(family: u16) -> bool {
    family == AF_INET || family == AF_INET6
}

/// Whether a Unix socket was accepted, or listens: it has an address.
#[inline(always)]
fn is_accepted(sock: u64) -> bool {
    // A kernel whose AF_UNIX is a module has no BTF for it.
    OFF_UNIX_ADDR.load() != 0 && probe::<u64>(sock, OFF_UNIX_ADDR.load()) != 0
}

/// The first of a call's buffers, up to the length that the call used.
#[inline(always)]
fn first_piece(shape: u64, address: u64, total: u64) -> Piece {
    let vector = if shape == Shape::Buffer as u64 {
        return Piece {
            address,
            length: total,
        };
    } else if shape == Shape::Vector as u64 {
        address
    } else {
        user_buffers::message_vector(address)
    };
    let first = user::<IoVec>(vector);
    Piece {
        address: first.map_or(0, |first| first.base),
        length: first.map_or(0, |first| first.length).min(total),
    }
}
