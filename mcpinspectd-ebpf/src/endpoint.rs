//! Registers an endpoint: its watch, its counters, and how many bytes were unread at that moment.
//!
//! Both ends must count from the same byte. So the counters come first, and from then on no call
//! is missed. While the unread bytes are summed up, what calls write is counted and not shipped
//! ([`REGISTERING`]). The sum is valid only if it still holds after it was made and no call has
//! returned meanwhile. One instruction then checks the latter and sets the writer's count to its
//! start. If calls did return, the sum is made again; for a socket, whose unread bytes can be in
//! thousands of buffers, only what was appended meanwhile is added, because a program that writes
//! byte by byte is faster than a sum over all of them.
//! One case remains: a write that put its bytes in before the sum and returns after it. It is
//! counted twice, and user space finds out by comparing the bytes.
//!
//! Cost to other processes: none at a system call. An exec with a pipe or socket as standard input
//! or output pays for a loop or two over the unread contents (nothing, in a new pipe) and two
//! insertions.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::{
    bindings::BPF_NOEXIST, helpers::generated::bpf_loop, macros::map, maps::PerCpuArray,
};
use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointKind, EndpointReport, EndpointWatch, REGISTERING,
    Stat,
};

use crate::{
    descriptor,
    kernel::probe,
    ledger,
    maps::{COUNTERS, WATCHES, count},
    offsets::*,
};

const AF_UNIX: u16 = 1;
const SOCK_STREAM: u16 = 1;
/// Pipe slots to sum up: a pipe of 256 MiB, 256 times what an unprivileged process can have.
const PIPE_SLOTS: u32 = 65_536;
/// Queued socket buffers to sum up: more of the smallest ones than a socket of the default size can
/// hold.
const QUEUE_LENGTH: u32 = 4096;
/// How often the unread bytes are summed up while calls return in between.
const ATTEMPTS: u32 = 16;

/// Which program registers endpoints. One may interrupt the other.
#[derive(Clone, Copy)]
pub enum Registrar {
    Exec = 0,
    Iterator = 1,
}

/// Counters to insert: they do not fit on the stack. By [`Registrar`].
#[map]
static NEW_COUNTERS: PerCpuArray<EndpointCounters> = PerCpuArray::with_max_entries(2, 0);

/// Registers the endpoint behind `file`, if it can carry MCP. Returns the report for user space.
#[inline(always)]
pub fn register(file: u64, fd: u32, registrar: Registrar) -> EndpointReport {
    let mut report = EndpointReport::default();
    let Some((key, inode)) = descriptor::endpoint(file) else {
        return report;
    };
    if key.kind == EndpointKind::Pipe as u32 {
        let inserted = insert(key, inode, 0, registrar);
        report.fresh = inserted.whole as u32;
        if inserted.counters {
            count_unread(key, key, inode);
        }
    } else {
        let Some(pair) = socket_pair(file) else {
            return report;
        };
        let peer_key = descriptor::key(pair.peer_inode, EndpointKind::UnixSocket);
        report.peer_ino = peer_key.ino;
        let inserted = insert(key, inode, peer_key.ino, registrar);
        let peer_inserted = insert(peer_key, pair.peer_inode, key.ino, registrar);
        report.fresh = inserted.whole as u32;
        // What is unread at one socket was written at the other.
        if inserted.counters {
            count_unread(key, peer_key, pair.peer);
        }
        if peer_inserted.counters {
            count_unread(peer_key, key, pair.own);
        }
    }
    report.key = key;
    report.fd = fd;
    report
}

/// What was new about an endpoint.
struct Inserted {
    /// Its counters: the code that inserts them sets them to their start.
    counters: bool,
    /// Its counters and its watch.
    whole: bool,
}

/// Inserts an endpoint that is not known yet.
#[inline(always)]
fn insert(key: EndpointKey, inode: u64, peer_ino: u64, registrar: Registrar) -> Inserted {
    let Some(new) = NEW_COUNTERS.get_ptr_mut(registrar as u32) else {
        return Inserted {
            counters: false,
            whole: false,
        };
    };
    // SAFETY: this CPU's entry, which no other program uses meanwhile.
    let new = unsafe {
        zero(new);
        (*new).inode = inode;
        (*new).peer_ino = peer_ino;
        (*new).position[End::Writer as usize] = REGISTERING;
        &*new
    };
    // Counters first: a call that finds the watch must find them too.
    let counters = COUNTERS.insert(key, new, u64::from(BPF_NOEXIST)).is_ok();
    if !counters && let Some(known) = COUNTERS.get_ptr_mut(key) {
        // A named pipe that was closed everywhere and opened again may be at another place in memory.
        // SAFETY: an aligned word of a map entry.
        unsafe { (&raw mut (*known).inode).write_volatile(inode) };
    }
    let watch = EndpointWatch {
        ship_limit: [SNIFF_BUDGET.load(); 2],
        counted: 1,
        compare_only: 0,
    };
    let watched = WATCHES.insert(key, watch, u64::from(BPF_NOEXIST)).is_ok();
    // SAFETY: only the entry's presence is checked.
    if !watched && unsafe { WATCHES.get(key) }.is_none() {
        count(Stat::RegistrationsFailed, 1);
    }
    Inserted {
        counters,
        whole: counters && watched,
    }
}

/// A stream whose unread bytes are being summed up.
#[repr(C)]
struct Registration {
    /// The endpoint where it is written.
    writer: EndpointKey,
    /// The endpoint where it is read.
    reader: EndpointKey,
    /// Where its unread bytes are: the pipe's inode, or the receive queue of the socket that reads.
    object: u64,
    /// How far a socket's queue has been summed up.
    queue: QueueSum,
}

/// Sets the writer's count to what is unread. `object`: the pipe's inode, or the socket that reads.
#[inline(always)]
fn count_unread(writer: EndpointKey, reader: EndpointKey, object: u64) {
    let is_pipe = writer.kind == EndpointKind::Pipe as u32;
    let in_socket = if is_pipe {
        0
    } else {
        u64::from(OFF_SOCK_QUEUE.load())
    };
    let mut registration = Registration {
        writer,
        reader,
        object: object + in_socket,
        queue: QueueSum::default(),
    };
    // SAFETY: `count_step` has the signature of a loop callback, and `registration` outlives the loop.
    unsafe {
        bpf_loop(
            ATTEMPTS,
            count_step as *mut c_void,
            (&raw mut registration).cast(),
            0,
        );
    }
}

/// Tries once. Returns 1 if the count is set.
unsafe extern "C" fn count_step(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `count_unread` passes to the loop.
    let registration = unsafe { &mut *context.cast::<Registration>() };
    let (Some(written), Some(read)) = (
        COUNTERS.get_ptr_mut(registration.writer),
        COUNTERS.get_ptr_mut(registration.reader),
    ) else {
        return 1;
    };
    // SAFETY: aligned words of map entries that stay allocated while the program runs.
    unsafe {
        let count = &raw mut (*written).position[End::Writer as usize];
        let taken = &raw const (*read).position[End::Reader as usize];
        let returned = count.read_volatile();
        let before = taken.read_volatile();
        let (sum, holds) = if registration.writer.kind == EndpointKind::Pipe as u32 {
            let sum = pipe_unread(registration.object);
            (sum, pipe_unread(registration.object) == sum)
        } else {
            queue_unread(registration.object, &mut registration.queue, before)
        };
        let start = before.wrapping_add(sum);
        if holds && taken.read_volatile() == before {
            (&raw mut (*written).unread).write_volatile(start);
            if ledger::exchange(count, returned, start) {
                return 1;
            }
        }
        if index + 1 < ATTEMPTS {
            return 0;
        }
        // Something moves bytes without a pause: the count starts roughly there.
        (&raw mut (*written).uncertain).write_volatile(1);
        (&raw mut (*written).unread).write_volatile(start);
        ledger::add(count, start.wrapping_sub(returned));
    }
    1
}

/// Zeroes counters, with one store per word: a call of `memset` would be a loop over bytes, which verifiers
/// explore again on every path to it.
///
/// # Safety
/// `counters` is valid for writes.
#[inline(always)]
pub unsafe fn zero(counters: *mut EndpointCounters) {
    const WORDS: usize = size_of::<EndpointCounters>() / size_of::<u64>();
    for word in 0..WORDS {
        // SAFETY: within the value, which consists of aligned words.
        unsafe { counters.cast::<u64>().add(word).write_volatile(0) };
    }
}

/// Unread bytes in a pipe.
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
    let mut walk = PipeWalk {
        slots: probe(pipe, OFF_PIPE_BUFS.load()),
        mask: probe::<u32>(pipe, OFF_PIPE_RING_SIZE.load()).wrapping_sub(1),
        index: tail,
        head,
        unread: 0,
    };
    // SAFETY: `pipe_step` has the signature of a loop callback, and `walk` outlives the loop.
    unsafe {
        bpf_loop(
            PIPE_SLOTS,
            pipe_step as *mut c_void,
            (&raw mut walk).cast(),
            0,
        );
    }
    walk.unread
}

/// State of the loop over a pipe's slots.
#[repr(C)]
struct PipeWalk {
    slots: u64,
    unread: u64,
    mask: u32,
    index: u32,
    head: u32,
}

unsafe extern "C" fn pipe_step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `pipe_unread` passes to the loop.
    let walk = unsafe { &mut *context.cast::<PipeWalk>() };
    if walk.index == walk.head {
        return 1;
    }
    let slot = u64::from(walk.index & walk.mask) * u64::from(SIZE_PIPE_BUFFER.load());
    walk.unread += u64::from(probe::<u32>(walk.slots + slot, OFF_PIPE_BUFFER_LEN.load()));
    walk.index = walk.index.wrapping_add(1);
    0
}

/// Whether the socket behind `file` is a Unix socket.
#[inline(always)]
pub fn is_unix_socket(file: u64) -> bool {
    let socket: u64 = probe(file, OFF_FILE_PRIVATE_DATA.load());
    let sock: u64 = probe(socket, OFF_SOCKET_SK.load());
    probe::<u16>(sock, OFF_SOCK_FAMILY.load()) == AF_UNIX
}

/// A connected pair of sockets.
struct SocketPair {
    peer_inode: u64,
    /// The kernel's `struct sock` of each.
    own: u64,
    peer: u64,
}

/// The sockets of a connected `AF_UNIX` stream socket.
#[inline(always)]
fn socket_pair(file: u64) -> Option<SocketPair> {
    // A kernel whose AF_UNIX is a module has no BTF for it: sockets are not followed.
    if OFF_UNIX_PEER.load() == 0 {
        return None;
    }
    let socket: u64 = probe(file, OFF_FILE_PRIVATE_DATA.load());
    let own: u64 = probe(socket, OFF_SOCKET_SK.load());
    if own == 0
        || probe::<u16>(socket, OFF_SOCKET_TYPE.load()) != SOCK_STREAM
        || probe::<u16>(own, OFF_SOCK_FAMILY.load()) != AF_UNIX
    {
        return None;
    }
    let peer: u64 = probe(own, OFF_UNIX_PEER.load());
    if peer == 0 {
        return None;
    }
    let peer_socket: u64 = probe(peer, OFF_SOCK_SOCKET.load());
    if peer_socket == 0 {
        return None;
    }
    Some(SocketPair {
        peer_inode: peer_socket + u64::from(OFF_SOCKET_ALLOC_INODE.load()),
        own,
        peer,
    })
}

/// The unread bytes of a socket's receive queue, as far as they have been summed up.
///
/// Buffers are appended at the end and taken from the front. So the sum can go on where it ended as
/// long as the first buffer is the same and nothing has been read.
#[repr(C)]
#[derive(Default)]
struct QueueSum {
    /// The first buffer; 0 if the sum has not begun. In an empty queue it is the queue itself.
    first: u64,
    /// What had been read of it.
    consumed: u32,
    _unused: u32,
    /// What the reader had taken.
    taken: u64,
    /// The buffer that the sum has reached.
    reached: u64,
    /// Bytes in all buffers before that one, which may still grow.
    settled: u64,
}

/// Bytes in a buffer that were read already.
#[inline(always)]
fn consumed(buffer: u64) -> u32 {
    probe(buffer, OFF_SKB_CB.load() + OFF_UNIX_CB_CONSUMED.load())
}

/// Unread bytes in a buffer.
#[inline(always)]
fn unread(buffer: u64) -> u64 {
    let length: u32 = probe(buffer, OFF_SKB_LEN.load());
    u64::from(length.wrapping_sub(consumed(buffer)))
}

/// Unread bytes in a socket's receive queue after `taken` bytes were read, and whether nothing was
/// appended or read since they were summed up. Goes on from `sum` if it still holds.
#[inline(always)]
fn queue_unread(queue: u64, sum: &mut QueueSum, taken: u64) -> (u64, bool) {
    let first: u64 = probe(queue, OFF_SKB_NEXT.load());
    if first == queue {
        sum.first = 0;
        return (0, true);
    }
    if first != sum.first || consumed(first) != sum.consumed || taken != sum.taken {
        *sum = QueueSum {
            first,
            consumed: consumed(first),
            taken,
            reached: first,
            ..QueueSum::default()
        };
    }
    let mut walk = QueueWalk {
        queue,
        reached: sum.reached,
        settled: sum.settled,
    };
    // SAFETY: `queue_step` has the signature of a loop callback, and `walk` outlives the loop.
    unsafe {
        bpf_loop(
            QUEUE_LENGTH,
            queue_step as *mut c_void,
            (&raw mut walk).cast(),
            0,
        );
    }
    sum.reached = walk.reached;
    sum.settled = walk.settled;
    let total = walk.settled + unread(walk.reached);
    let holds = probe::<u64>(walk.reached, OFF_SKB_NEXT.load()) == queue
        && probe::<u64>(queue, OFF_SKB_NEXT.load()) == first
        && consumed(first) == sum.consumed;
    (total, holds)
}

/// State of the loop over a socket's receive queue.
#[repr(C)]
struct QueueWalk {
    queue: u64,
    reached: u64,
    settled: u64,
}

unsafe extern "C" fn queue_step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `queue_unread` passes to the loop.
    let walk = unsafe { &mut *context.cast::<QueueWalk>() };
    let next: u64 = probe(walk.reached, OFF_SKB_NEXT.load());
    if next == walk.queue || next == 0 {
        return 1;
    }
    walk.settled += unread(walk.reached);
    walk.reached = next;
    0
}
