//! The plain text of TLS connections, at the boundary of the library that encrypts it.
//!
//! Probes at the library's own functions see what a program passes in for encryption and what it gets
//! back. What crosses one TLS object is counted and shipped like what crosses a socket ([`crate::connection`]),
//! under the key of that socket; user space cannot tell the two apart. No key, certificate or cipher text is
//! touched.
//!
//! An object is followed only if everything that crossed it was seen, because its bytes are counted from the
//! first one: it was seen when it was made, or its connection's greeting is younger than the process's
//! probes. Its first bytes decide, as with a socket: requests for pages are counted, and anything but HTTP is left
//! alone. [`crate::tls_pairing`] finds out which socket it belongs to when the first bytes of interest
//! cross it.
//!
//! The kernel may preempt these programs, unlike all others. So nothing here uses the per-CPU scratch of
//! other files, see [`crate::tls_slot`].
//!
//! Cost to other processes:
//! - none to a process that does not call a TLS library;
//! - to one that does, while probes are attached to it: the trap at the entry and the exit of each call (11 µs
//!   together on a virtual machine), one insertion and four look-ups. One that makes too many calls is left alone,
//!   see [`crate::tls_library`].
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext as _,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_get_attach_cookie, bpf_loop},
    },
    macros::map,
    maps::LruHashMap,
    programs::{ProbeContext, RetProbeContext},
};
use mcpinspect_common::{
    End, EndpointKey, EndpointKind, LeftAlone, Operation, TlsEntry, TlsExit, left_alone_key,
};

use crate::{
    blind_spot,
    connection_entry::{self, HttpConnection},
    first_bytes,
    http_head::{self, Piece},
    kernel::{self, user},
    left_alone,
    maps::LEFT_ALONE,
    tls_copy, tls_layers, tls_library,
    tls_object::{self, LEFT, NEW, Object, PAGES, PAIRED, set_state},
    tls_pairing, tls_slot, watch,
};

/// Calls in progress.
const CALLS_MAX: u32 = 16_384;

/// A call in progress.
#[repr(C)]
#[derive(Clone, Copy)]
struct Call {
    object: u64,
    buffer: u64,
    /// Where the number of bytes will be; 0 if the call returns it.
    count_at: u64,
    /// Calls within it that have not ended: NSS reads its files by the functions that its callers use.
    inner: u64,
}

/// By thread. A thread is in at most one call of a TLS library at a time.
#[map]
static TLS_CALLS: LruHashMap<u64, Call> = LruHashMap::with_max_entries(CALLS_MAX, 0);

/// A function is called.
#[inline(always)]
pub fn on_entry(ctx: &ProbeContext) {
    // SAFETY: the context of a program that is attached with cookies.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if cookie == TlsEntry::Clears as u64 {
        if let Some(object) = ctx.arg::<u64>(0) {
            on_new(object);
        }
        return;
    }
    if cookie >= TlsEntry::MovesLayered as u64 {
        return on_layered(ctx, cookie);
    }
    let count_at = if cookie == TlsEntry::MovesCounted as u64 {
        let Some(count_at) = ctx.arg::<u64>(3) else {
            return;
        };
        count_at
    } else {
        0
    };
    if let Some(object) = ctx.arg::<u64>(0) {
        begin(ctx, object, count_at);
    }
    tls_library::calls();
}

#[inline(always)]
fn begin(ctx: &ProbeContext, object: u64, count_at: u64) {
    let Some(buffer) = ctx.arg::<u64>(1) else {
        return;
    };
    let call = Call {
        object,
        buffer,
        count_at,
        inner: 0,
    };
    let _ = TLS_CALLS.insert(bpf_get_current_pid_tgid(), call, 0);
}

/// A function is called whose first argument is a stack of layers.
#[inline(always)]
fn on_layered(ctx: &ProbeContext, cookie: u64) {
    let object = ctx.arg::<u64>(0).and_then(tls_layers::object);
    if cookie == TlsEntry::LeavesLayered as u64 {
        if let Some(object) = object.and_then(tls_object::get) {
            set_state(object, LEFT);
            let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
            blind_spot::report_process(Operation::TlsUnpaired, tgid);
        }
        return;
    }
    tls_library::calls();
    let is_peek = cookie == TlsEntry::MovesLayeredUnlessPeeked as u64
        && ctx
            .arg::<u64>(3)
            .is_none_or(|flags| flags & tls_layers::PEEK != 0);
    match object {
        Some(object) if !is_peek => begin(ctx, object, 0),
        _ => enter_inner(),
    }
}

/// A call begins that moves nothing of interest. Its end must not be taken for that of a call that it is part of.
#[inline(always)]
fn enter_inner() {
    if let Some(call) = TLS_CALLS.get_ptr_mut(bpf_get_current_pid_tgid()) {
        // SAFETY: entries belong to one thread, which is here.
        unsafe { (*call).inner = (*call).inner.wrapping_add(1) };
    }
}

/// A function that makes an object returns.
#[inline(always)]
pub fn on_made(ctx: &RetProbeContext) {
    // SAFETY: the context of a program that is attached with cookies.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    if cookie == TlsExit::Makes as u64 {
        on_new(ctx.ret::<u64>());
    } else if cookie == TlsExit::MakesLayered as u64 {
        if let Some(object) = tls_layers::object(ctx.ret::<u64>()) {
            on_new(object);
        }
    } else {
        on_new_at();
    }
}

/// A call that moved bytes ends.
#[inline(always)]
pub fn moved(ctx: &RetProbeContext, end: End) {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: entries belong to one thread, which is here.
    let Some(call) = (unsafe { TLS_CALLS.get(thread) }).copied() else {
        return;
    };
    if call.inner != 0 {
        if let Some(call) = TLS_CALLS.get_ptr_mut(thread) {
            // SAFETY: as above.
            unsafe { (*call).inner -= 1 };
        }
        return;
    }
    let _ = TLS_CALLS.remove(thread);
    let result = ctx.ret::<u64>() as u32 as i32;
    if result <= 0 {
        return;
    }
    let total = if call.count_at == 0 {
        result as u64
    } else {
        user::<u64>(call.count_at).unwrap_or(0)
    };
    if total != 0 {
        transferred::<false>(call.object, end, call.buffer, total);
    }
}

/// A call ends whose first argument said where to write the address of a new object.
#[inline(always)]
fn on_new_at() {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: entries belong to one thread, which is here.
    let Some(call) = (unsafe { TLS_CALLS.get(thread) }).copied() else {
        return;
    };
    let _ = TLS_CALLS.remove(thread);
    if let Some(object) = user::<u64>(call.object) {
        on_new(object);
    }
}

/// An object is made, or made again.
#[inline(always)]
fn on_new(address: u64) {
    tls_object::insert(address, 0, [0; 2]);
}

/// Accounts for plain text that crossed an object. `IS_GO`: it is one of Go's, which are known from their
/// handshakes on, or not at all.
#[inline(always)]
pub fn transferred<const IS_GO: bool>(address: u64, end: End, buffer: u64, total: u64) {
    let piece = Piece {
        address: buffer,
        length: total,
    };
    let mut probes = ObjectProbes {
        address,
        first: 0,
        last: 0,
    };
    // A loop because of the verifier: what follows is checked once, whatever was found.
    // SAFETY: `probes_step` has the signature of a loop callback, and `probes` outlives the loop.
    unsafe {
        bpf_loop(
            1,
            probes_step::<IS_GO> as *mut c_void,
            (&raw mut probes).cast(),
            0,
        );
    }
    let Some(object) = tls_object::get(address) else {
        // It is older than the probe, so neither the bytes that crossed it nor its socket are known.
        if first_bytes::is_post(first_bytes::first_word(piece), total) {
            let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
            blind_spot::report_process(Operation::TlsUnpaired, tgid);
        }
        return;
    };
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs. A library lets
    // one thread at a time use an object in one direction.
    let (before, state, ino) = unsafe {
        let before = (&raw const (*object).position).read_volatile();
        // Constant indices: older verifiers cannot bound a variable one.
        if end as u8 == End::Reader as u8 {
            (&raw mut (*object).position[0]).write_volatile(before[0].wrapping_add(total));
        } else {
            (&raw mut (*object).position[1]).write_volatile(before[1].wrapping_add(total));
        }
        (
            before,
            (&raw const (*object).state).read_volatile(),
            (&raw const (*object).ino).read_volatile(),
        )
    };
    if state == LEFT {
        return;
    }
    // SAFETY: as above.
    if unsafe { (&raw const (*object).attached).read_volatile() } != probes.first {
        return set_state(object, LEFT);
    }
    let key = EndpointKey {
        ino,
        dev: 0,
        kind: EndpointKind::TlsSocket as u32,
    };
    let mut requests = 0;
    let mut is_registered = 0;
    if state == PAIRED {
        if let Some(left) = LEFT_ALONE.get_ptr_mut(left_alone_key(&key)) {
            let Some(number) = left_alone::next_request(left, end as u32, piece, is_events) else {
                return;
            };
            requests = number;
        } else if let Some(is_counted) = watch::is_counted(key) {
            if !is_counted {
                return;
            }
            is_registered = 1;
        }
    } else if state == PAGES {
        // SAFETY: part of a map entry.
        let left = unsafe { &raw mut (*object).left };
        let Some(number) = left_alone::next_request(left, end as u32, piece, is_events) else {
            return;
        };
        requests = number;
    }
    // SAFETY: as above.
    let since = unsafe { (&raw const (*object).since).read_volatile() };
    let inode = if IS_GO {
        // SAFETY: as above.
        unsafe { (&raw const (*object).inode).read_volatile() }
    } else {
        0
    };
    let mut inspection = ObjectInspection {
        address,
        since: if IS_GO {
            since
        } else {
            probes.last.wrapping_mul(since)
        },
        buffer,
        total,
        before,
        ino,
        inode,
        end: end as u32,
        requests,
        is_first: u32::from(state == NEW),
        is_registered,
    };
    kernel::forget(&mut inspection);
    // A loop because of the verifier: it checks the callback once, and what follows for whatever it finds.
    // SAFETY: `inspect_step` has the signature of a loop callback, and `inspection` outlives the loop.
    unsafe {
        bpf_loop(
            1,
            inspect_step::<IS_GO> as *mut c_void,
            (&raw mut inspection).cast(),
            0,
        );
    }
    if inspection.is_registered != 0 {
        let key = EndpointKey {
            ino: inspection.ino,
            ..key
        };
        tls_copy::transferred(key, end, buffer, total);
    }
}

/// An object, and when its process got its probes.
#[repr(C)]
struct ObjectProbes {
    address: u64,
    /// When the process got the first and the last of them.
    first: u64,
    last: u64,
}

/// Notes an object that was not seen when it was made: its greeting will show whether anything crossed
/// it before the probes were there.
unsafe extern "C" fn probes_step<const IS_GO: bool>(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `transferred` passes to the loop.
    let probes = unsafe { &mut *context.cast::<ObjectProbes>() };
    let [first, last] = tls_library::attached();
    probes.first = first;
    probes.last = last;
    if !IS_GO && first != 0 && tls_object::get(probes.address).is_none() {
        tls_object::insert(probes.address, 1, [0; 2]);
    }
    1
}

/// The examination of an object's bytes.
#[repr(C)]
#[derive(Clone, Copy)]
struct ObjectInspection {
    address: u64,
    /// An older greeting means that something was not seen.
    since: u64,
    buffer: u64,
    total: u64,
    /// By [`End`]: bytes that crossed it before.
    before: [u64; 2],
    ino: u64,
    /// Only for Go.
    inode: u64,
    end: u32,
    requests: u32,
    is_first: u32,
    is_registered: u32,
}

unsafe extern "C" fn inspect_step<const IS_GO: bool>(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `transferred` passes to the loop.
    let inspection = unsafe { &mut *context.cast::<ObjectInspection>() };
    if inspection.is_registered != 0 {
        return 1;
    }
    let piece = Piece {
        address: inspection.buffer,
        length: inspection.total,
    };
    let Some(object) = tls_object::get(inspection.address) else {
        return 1;
    };
    if IS_GO && inspection.is_first != 0 {
        if !tls_object::is_first_to_look(object) {
            join(inspection, object);
            return 1;
        }
        // A thread that waits for this has counted its own bytes already, which are still to be accounted for.
        inspection.before = [0; 2];
    }
    let word = first_bytes::first_word(piece);
    let is_post = first_bytes::is_post(word, inspection.total);
    let is_request = is_post || first_bytes::is_request(word, inspection.total);
    let requests_at = if is_request {
        inspection.end
    } else if inspection.is_first != 0
        && (first_bytes::is_response(word, inspection.total)
            || (IS_GO && first_bytes::is_settings(word, inspection.total)))
    {
        1 - (inspection.end & 1)
    } else {
        set_state(object, LEFT);
        return 1;
    };
    if inspection.is_first != 0
        && inspection.total >= 8
        && first_bytes::is_page_request(word, inspection.total)
    {
        let left = LeftAlone {
            requests_at,
            requests: 0,
            pages: 0,
        };
        if !is_events(piece) {
            // SAFETY: part of a map entry.
            unsafe { (&raw mut (*object).left).write_volatile(left) };
            set_state(object, PAGES);
            return 1;
        }
    }
    let is_client = requests_at == End::Writer as u32;
    let since = inspection.since;
    let socket = if IS_GO {
        tls_pairing::greeted(inspection.ino, inspection.inode, is_client)
    } else {
        tls_pairing::socket_of(inspection.address, inspection.ino, is_client)
    };
    let Some((socket, greeting)) = socket.filter(|(socket, _)| socket.greeted >= since) else {
        set_state(object, LEFT);
        if is_post {
            let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
            blind_spot::report_process(Operation::TlsUnpaired, tgid);
        }
        return 1;
    };
    // SAFETY: an aligned word of a map entry.
    unsafe { (&raw mut (*object).ino).write_volatile(socket.ino) };
    inspection.ino = socket.ino;
    let connection = HttpConnection {
        key: EndpointKey {
            ino: socket.ino,
            dev: 0,
            kind: EndpointKind::TlsSocket as u32,
        },
        inode: socket.inode,
        position: inspection.before,
        end: inspection.end as u8,
        requests_at,
        requests: inspection.requests,
        // What HTTP/2 requests are for cannot be seen here, and a large one may follow at once. For other
        // libraries, this would exceed the verifier's limits.
        is_post: is_post || (IS_GO && inspection.is_first != 0),
        greeting,
    };
    if !IS_GO {
        set_state(object, PAIRED);
    }
    if let Some(index) = tls_slot::take() {
        if let Some(slot) = tls_slot::at(index) {
            // SAFETY: a slot that this program has taken.
            let scratch = unsafe { &mut (*slot).scratch };
            if connection_entry::register(&connection, scratch) {
                inspection.is_registered = 1;
            }
        }
        tls_slot::release(index);
    }
    if IS_GO {
        tls_object::set_paired(object);
    }
    1
}

/// Continues after another thread has examined an object's first bytes.
#[inline(always)]
fn join(inspection: &mut ObjectInspection, object: *mut Object) {
    let state = tls_object::await_look(object, inspection.address);
    let key = EndpointKey {
        ino: inspection.ino,
        dev: 0,
        kind: EndpointKind::TlsSocket as u32,
    };
    if state == PAIRED && watch::is_counted(key) == Some(true) {
        inspection.is_registered = 1;
    } else if state == NEW {
        let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
        blind_spot::report_process(Operation::TlsUnpaired, tgid);
    }
}

/// Whether a request may ask for events.
#[inline(always)]
fn is_events(piece: Piece) -> bool {
    http_head::may_ask_for_events_preempted(piece)
}
