//! Connections over TCP and Unix sockets: which of them may speak MCP.
//!
//! Any process may be a client or a server of MCP over HTTP, so every process is examined that has opened
//! or accepted an internet socket. Of Unix sockets, only accepted ones count: nearly every program connects to
//! some service, and the server's end sees both directions.
//!
//! A socket is examined once, when the first bytes cross it: if they are an HTTP request or response, it is
//! registered like a stream ([`connection_entry`]), and user space finds out the rest. Everything else is left
//! alone, until requests cross it that may begin to carry MCP ([`left_alone`]).
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
    helpers::{bpf_get_current_pid_tgid, generated::bpf_loop},
    macros::map,
    maps::{LruHashMap, PerCpuArray},
};
use mcpinspect_common::{
    End, EndpointKey, LOOK_AT_BOTH, NO_REQUESTS, Operation, connection_bit, tracked_slot,
};

use crate::{
    arguments::Arguments,
    carrier::{self, Carrier},
    connection_entry::{self, HttpConnection, Scratch},
    descriptor,
    first_bytes::{self, first_word, is_http_2, is_post, is_request, is_response, is_settings},
    http_head::{self, Piece},
    kernel::{Access, Probed, probe, user},
    left_alone,
    maps::{LEFT_ALONE, TRACKED},
    offsets::*,
    tls_library,
    tls_pairing::{self, Crossing, Socket},
    user_buffers::{self, IoVec, Shape, UserBuffers},
    watch,
};

/// The bits of a socket's type that are not flags.
const SOCK_TYPE: u64 = 0xf;
const IPPROTO_TCP: u16 = 6;
/// The standard input, and the descriptor that systemd passes a connection on.
const PASSED_ON: [u32; 2] = [0, 3];

/// Processes to remember in [`UNIX_ONLY`].
const UNIX_ONLY_MAX: u32 = 4096;

/// Processes that accepted a Unix socket before they had an internet socket, if they ever had.
#[map]
static UNIX_ONLY: LruHashMap<u32, u8> = LruHashMap::with_max_entries(UNIX_ONLY_MAX, 0);

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
            if carrier::is_internet(family)
                && arguments.second::<A>() & SOCK_TYPE == carrier::SOCK_STREAM
            {
                Carrier::Internet
            } else {
                Carrier::None
            }
        }
        ACCEPT => carrier::of_file(descriptor::file::<A>(A::current_task(), result as u32)),
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
    if !carrier::is_end(descriptor::file::<Probed>(task, input))
        && !carrier::is_end(descriptor::file::<Probed>(task, passed))
    {
        mark(tgid, false);
    }
}

/// A descriptor that was open before the daemon started.
#[inline(always)]
pub fn on_descriptor(tgid: u32, file: u64) {
    if CONNECTIONS.load() == 1 && carrier::is_end(file) {
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
        if !left_alone::is_for(left, end as u32) {
            return None;
        }
    } else if let Some(is_counted) = watch::is_counted(key) {
        return is_counted.then_some(key);
    }
    // An array of messages moved an unknown number of bytes. No one speaks HTTP that way.
    if total == 0 || buffers.shape == Shape::Messages {
        return None;
    }
    let inspection = INSPECTION.get_ptr_mut(0)?;
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    unsafe {
        (&raw mut (*inspection).inode).write(inode);
        (&raw mut (*inspection).ino).write(ino);
        (&raw mut (*inspection).shape).write(buffers.shape as u64);
        (&raw mut (*inspection).address).write(buffers.address);
        (&raw mut (*inspection).total).write(total);
        (&raw mut (*inspection).end).write(end as u64);
        (&raw mut (*inspection).is_registered).write(0);
    }
    // SAFETY: `inspect_step` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(1, inspect_step as *mut c_void, core::ptr::null_mut(), 0);
    }
    // SAFETY: as above.
    let is_registered = unsafe { (&raw const (*inspection).is_registered).read_volatile() };
    (is_registered != 0).then_some(key)
}

#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// The examination of a socket. It lives in a map because the verifier does not track values through one: its
/// results are checked once, and not for every kind of call.
#[repr(C)]
#[derive(Clone, Copy)]
struct SocketInspection {
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
static INSPECTION: PerCpuArray<SocketInspection> = PerCpuArray::with_max_entries(1, 0);

unsafe extern "C" fn inspect_step(_index: u32, _context: *mut c_void) -> i64 {
    if let Some(inspection) = INSPECTION.get_ptr_mut(0) {
        // SAFETY: this CPU's slot; no other program uses it meanwhile.
        let inspection = unsafe { &mut *inspection };
        inspection.is_registered = u64::from(inspect(inspection));
    }
    1
}

/// Registers a connection if its first bytes are HTTP; leaves it alone otherwise.
#[inline(always)]
fn inspect(inspection: &SocketInspection) -> bool {
    let end = inspection.end as u32 & 1;
    let piece = first_piece(inspection.shape, inspection.address, inspection.total);
    let mut requests = 0;
    let mut is_page = false;
    let word = if let Some(left) = LEFT_ALONE.get_ptr_mut(inspection.ino) {
        let next = left_alone::next_request(left, end, piece, http_head::may_ask_for_events);
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
    let socket = inspection.inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
    let sock: u64 = probe(socket, OFF_SOCKET_SK.load());
    if sock == 0 {
        return false;
    }
    let length = piece.length;
    let is_unix = match carrier::of_socket(socket, sock) {
        Carrier::Unix => true,
        Carrier::Internet if probe::<u16>(sock, OFF_SOCK_PROTOCOL.load()) == IPPROTO_TCP => false,
        Carrier::Internet | Carrier::None => {
            left_alone::leave(inspection.ino, NO_REQUESTS, 0);
            return false;
        }
    };
    if is_page {
        left_alone::leave(inspection.ino, end, 0);
        return false;
    }
    let mut position = if is_unix {
        // A response answers something. Anything else may be the first.
        let before = u64::from(end == End::Writer as u32 && is_response(word, length));
        [before; 2]
    } else {
        connection_entry::crossed(sock)
    };
    // What this call moved is counted next. Constant indices: older verifiers cannot bound a variable one.
    if !is_unix && end == End::Reader as u32 {
        position[0] = position[0].saturating_sub(inspection.total);
    } else if !is_unix {
        position[1] = position[1].saturating_sub(inspection.total);
    }
    let is_post = is_post(word, length);
    let requests_at = if is_post || is_request(word, length) {
        end
    } else if is_response(word, length) || is_settings(word, length) {
        1 - end
    } else if is_unix {
        left_alone::leave(inspection.ino, NO_REQUESTS, 0);
        return false;
    } else {
        let before = if end == End::Reader as u32 {
            position[0]
        } else {
            position[1]
        };
        let is_coming = tls_pairing::greeting(&Crossing {
            socket: Socket {
                ino: inspection.ino,
                inode: inspection.inode,
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
        left_alone::leave(
            inspection.ino,
            if was_used { LOOK_AT_BOTH } else { NO_REQUESTS },
            0,
        );
        return false;
    };
    if is_unix && requests_at != End::Reader as u32 {
        // The end that was accepted sends requests: this is not HTTP.
        left_alone::leave(inspection.ino, NO_REQUESTS, 0);
        return false;
    }
    let Some(scratch) = SCRATCH.get_ptr_mut(0) else {
        return false;
    };
    let connection = HttpConnection {
        key: descriptor::connection_key(inspection.ino),
        inode: inspection.inode,
        position,
        end: end as u8,
        requests_at,
        requests,
        is_post: is_post || is_http_2(word, length),
        greeting: 0,
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    connection_entry::register(&connection, unsafe { &mut *scratch })
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
