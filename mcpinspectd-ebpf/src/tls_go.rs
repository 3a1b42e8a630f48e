//! Plain text in programs written in Go, at the functions of `crypto/tls`.
//!
//! A goroutine is not a thread: it may begin a call on one and end it on another. So calls in progress are
//! identified by the goroutine, whose address Go keeps in a register. A call ends at one of its return
//! instructions; the return address on the stack is not touched, because Go walks and copies stacks. A goroutine
//! whose stack is too small begins its call again, which changes nothing.
//!
//! Written bytes are taken when the call begins: the answer may be read, on another thread, before the call
//! ends. Either all of them are sent, or nothing more is sent on that connection.
//!
//! A buffer on the stack moves with it. Its distance from the stack's upper end does not change, so that is
//! what is remembered. Everything else is on the heap, where Go moves nothing.
//!
//! A connection is followed from its handshake on, before which no plain text crosses it. Its object leads to the
//! socket: an interface, whose type must be `*net.TCPConn`, has the descriptor. This is read when the
//! handshake begins: if it succeeds, the descriptor was open all the time, so it was this connection's. Moreover
//! the client's greeting must cross that socket after that; so if a later Go arranges its structures
//! differently, connections are not followed rather than mixed up.
//!
//! Two goroutines may be in calls on the same connection that move bytes in the same direction. It is then unknown
//! which was first, so the connection is given up. So is one for which the end of a call was missed.
//!
//! Cost to other processes: none without probes of this kind. One that has them pays for the traps, one
//! insertion, one removal and five look-ups per call.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`, in [`crate::tls`]).

use aya_ebpf::{
    EbpfContext as _,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_attach_cookie, bpf_ktime_get_boot_ns},
    },
    macros::map,
    maps::LruHashMap,
    programs::ProbeContext,
};
use mcpinspect_common::{End, GoEntry, Operation};

use crate::{
    blind_spot, descriptor,
    kernel::{Access as _, Probed, probe, user},
    offsets::OFF_INODE_INO,
    tls, tls_library,
    tls_object::{self, LEFT, Object, PAIRED},
};

/// Calls in progress. Most of them wait for something to read.
const CALLS_MAX: u32 = 32_768;

/// Where the socket's descriptor is behind a `*net.TCPConn`: in its `*netFD`, behind a lock.
const DESCRIPTOR_AT: u64 = 16;
/// Where the type is in an interface's table, and its hash in the type.
const TYPE_AT: u64 = 8;
const HASH_AT: u64 = 16;
/// The hash of `*net.TCPConn`: since Go 1.24, and before.
const TCP_CONN: [u32; 2] = [0x43fd_f3b9, 0xbc02_0cb9];

#[repr(C)]
#[derive(Clone, Copy)]
struct Goroutine {
    address: u64,
    tgid: u64,
}

/// A call in progress.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    object: u64,
    /// Where the bytes are, or how far from the stack's upper end.
    buffer: u64,
    length: u64,
    end: u32,
    is_on_stack: bool,
    /// Whether its bytes were accounted for when it began.
    is_done: bool,
    reserved: u16,
}

#[map]
static TLS_GO_CALLS: LruHashMap<Goroutine, Call> = LruHashMap::with_max_entries(CALLS_MAX, 0);

/// What Go has in registers.
struct Registers {
    /// The first argument, or result.
    first: u64,
    second: u64,
    third: u64,
    goroutine: Goroutine,
}

#[inline(always)]
fn registers(ctx: &ProbeContext) -> Registers {
    // SAFETY: the context of a uprobe.
    let registers = unsafe { &*ctx.regs };
    #[cfg(bpf_target_arch = "x86_64")]
    let [first, second, third, address] =
        [registers.rax, registers.rbx, registers.rcx, registers.r14];
    #[cfg(bpf_target_arch = "aarch64")]
    let [first, second, third, address] = [
        registers.regs[0],
        registers.regs[1],
        registers.regs[2],
        registers.regs[28],
    ];
    Registers {
        first,
        second,
        third,
        goroutine: Goroutine {
            address,
            tgid: bpf_get_current_pid_tgid() >> 32,
        },
    }
}

/// A function is called.
#[inline(always)]
pub fn on_entry(ctx: &ProbeContext) {
    // SAFETY: the context of a program that is attached with cookies.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let Registers {
        first: object,
        second: buffer,
        third: length,
        goroutine,
    } = registers(ctx);
    if cookie == GoEntry::Handshakes as u64 {
        return on_handshake(object, goroutine);
    }
    let end = cookie as u32 & 1;
    tls_library::calls();
    let is_again = is_under_way(object, end, goroutine);
    let mut is_done = false;
    if let Some(known) = tls_object::get(object) {
        if !enter(known, end, goroutine, is_again) {
            return;
        }
        is_done = end == End::Writer as u32;
    }
    let [low, high] = stack(goroutine);
    let is_on_stack = (low..high).contains(&buffer);
    let call = Call {
        object,
        buffer: if is_on_stack {
            high.wrapping_sub(buffer)
        } else {
            buffer
        },
        length,
        end,
        is_on_stack,
        is_done,
        reserved: 0,
    };
    let _ = TLS_GO_CALLS.insert(goroutine, call, 0);
    if is_done && !is_again && length != 0 {
        tls::transferred::<true>(object, End::Writer, buffer, length);
    }
}

/// The lower and the upper end of a goroutine's stack, which are its first fields.
#[inline(always)]
fn stack(goroutine: Goroutine) -> [u64; 2] {
    user::<[u64; 2]>(goroutine.address).unwrap_or([0; 2])
}

/// Notes that a goroutine is in a call on an object. Returns whether the object is followed.
#[inline(always)]
fn enter(object: *mut Object, end: u32, goroutine: Goroutine, is_again: bool) -> bool {
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    let (state, busy) = unsafe {
        (
            (&raw const (*object).state).read_volatile(),
            busy_at(object, end).read_volatile(),
        )
    };
    if state == LEFT {
        return false;
    }
    if busy != 0 && !(busy == goroutine.address && is_again) {
        tls_object::set_state(object, LEFT);
        if state == PAIRED {
            blind_spot::report_process(Operation::TlsUnpaired, goroutine.tgid as u32);
        }
        return false;
    }
    // SAFETY: as above.
    unsafe { busy_at(object, end).write_volatile(goroutine.address) };
    true
}

/// Which goroutine is in a call at this end. Constant indices: older verifiers cannot bound a variable one.
#[inline(always)]
fn busy_at(object: *mut Object, end: u32) -> *mut u64 {
    // SAFETY: a part of the entry.
    unsafe {
        if end == End::Reader as u32 {
            &raw mut (*object).busy[0]
        } else {
            &raw mut (*object).busy[1]
        }
    }
}

/// Whether a goroutine has begun this call before: its stack was too small.
#[inline(always)]
fn is_under_way(object: u64, end: u32, goroutine: Goroutine) -> bool {
    // SAFETY: entries belong to one goroutine, which is here.
    unsafe { TLS_GO_CALLS.get(goroutine) }
        .is_some_and(|call| call.object == object && call.end == end)
}

/// A connection begins.
#[inline(always)]
fn on_handshake(object: u64, goroutine: Goroutine) {
    let socket = socket_of(object);
    if let Some(known) = tls_object::get(object) {
        // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
        let known = unsafe {
            [
                (&raw const (*known).ino).read_volatile(),
                (&raw const (*known).inode).read_volatile(),
            ]
        };
        if known == socket && socket[0] != 0 {
            // It is negotiated again.
            return;
        }
    }
    if tls_library::attached()[1] == u64::MAX {
        // Other probes are still to come: a call that was not seen may be in progress.
        return tls_object::remove(object);
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    tls_object::insert(object, now, socket);
    // If no one has asked for it before, the first call begins it.
    // SAFETY: entries belong to one goroutine, which is here.
    if let Some(call) = unsafe { TLS_GO_CALLS.get(goroutine) }
        && call.object == object
        && let Some(known) = tls_object::get(object)
    {
        // SAFETY: as above.
        unsafe { busy_at(known, call.end).write_volatile(goroutine.address) };
    }
}

/// The inode number and the inode of a connection's socket; zeroes if it is not a TCP socket.
#[inline(always)]
fn socket_of(object: u64) -> [u64; 2] {
    // Its first field is an interface: a table and a pointer.
    let [table, connection] = user::<[u64; 2]>(object).unwrap_or([0; 2]);
    let kind = user::<u64>(table + TYPE_AT).unwrap_or(0);
    let hash = user::<u32>(kind + HASH_AT).unwrap_or(0);
    if hash != TCP_CONN[0] && hash != TCP_CONN[1] {
        return [0; 2];
    }
    let socket = user::<u64>(connection).unwrap_or(0);
    let Some(fd) = user::<i64>(socket + DESCRIPTOR_AT) else {
        return [0; 2];
    };
    if fd < 0 || fd > i64::from(i32::MAX) {
        return [0; 2];
    }
    let file = descriptor::file::<Probed>(Probed::current_task(), fd as u32);
    match descriptor::socket_inode(file) {
        Some(inode) => [probe(inode, OFF_INODE_INO.load()), inode],
        None => [0; 2],
    }
}

/// A call that moves bytes ends.
#[inline(always)]
pub fn moved(ctx: &ProbeContext, end: End) {
    let Registers {
        first: result,
        goroutine,
        ..
    } = registers(ctx);
    // SAFETY: entries belong to one goroutine, which is here.
    let Some(call) = (unsafe { TLS_GO_CALLS.get(goroutine) }).copied() else {
        return;
    };
    if call.end != end as u32 {
        return;
    }
    let _ = TLS_GO_CALLS.remove(goroutine);
    if let Some(object) = tls_object::get(call.object) {
        // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
        unsafe { busy_at(object, call.end).write_volatile(0) };
    }
    if call.is_done || result == 0 || result > call.length {
        return;
    }
    let buffer = if call.is_on_stack {
        stack(goroutine)[1].wrapping_sub(call.buffer)
    } else {
        call.buffer
    };
    tls::transferred::<true>(call.object, end, buffer, result);
}
