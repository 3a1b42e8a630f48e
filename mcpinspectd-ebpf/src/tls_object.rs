//! TLS objects, and what has crossed them.

use core::{
    ffi::c_void,
    intrinsics::{AtomicOrdering, atomic_cxchg},
};

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_loop},
    macros::map,
    maps::LruHashMap,
};
use mcpinspect_common::{LeftAlone, NO_REQUESTS};

use crate::{offsets::OWN_TGID, tls_library};

/// Most known objects. One that is forgotten is no longer followed.
const OBJECTS_MAX: u32 = 32_768;

/// Nothing has crossed it.
pub const NEW: u32 = 0;
/// Pages cross it; requests are counted.
pub const PAGES: u32 = 1;
/// It belongs to a socket, under whose key it was registered.
pub const PAIRED: u32 = 2;
/// It carries something else, or its socket is unknown.
pub const LEFT: u32 = 3;

#[repr(C)]
#[derive(Clone, Copy)]
struct ObjectKey {
    address: u64,
    tgid: u64,
}

/// A TLS object.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Object {
    /// By [`mcpinspect_common::End`]: bytes that have crossed it.
    pub position: [u64; 2],
    /// Its socket's inode number, once it is known.
    pub ino: u64,
    pub state: u32,
    /// What is counted while pages cross it.
    pub left: LeftAlone,
    /// For Go: when its handshake began, in nanoseconds since boot. For others: 1 if it was not seen when it was made.
    pub since: u64,
    /// When its process got its probes: one that was without any for a while is no longer followed.
    pub attached: u64,
    /// Only for Go. The address of its socket's inode.
    pub inode: u64,
    /// By [`mcpinspect_common::End`]: the goroutine that is in a call.
    pub busy: [u64; 2],
    /// Whether its first bytes are being examined.
    pub look: u64,
}

/// No one has examined the first bytes.
const UNSEEN: u64 = 0;
/// A thread is examining them.
const SEEN: u64 = 1;
/// Another thread has waited for that in vain.
const MISSED: u64 = 2;
/// How often the other thread checks whether it is done: one to three milliseconds.
const PATIENCE: u32 = 1 << 16;

#[map]
static TLS_OBJECTS: LruHashMap<ObjectKey, Object> = LruHashMap::with_max_entries(OBJECTS_MAX, 0);

#[inline(always)]
fn key_of(address: u64) -> ObjectKey {
    ObjectKey {
        address,
        tgid: bpf_get_current_pid_tgid() >> 32,
    }
}

/// The running process's object at `address`.
#[inline(always)]
pub fn get(address: u64) -> Option<*mut Object> {
    TLS_OBJECTS.get_ptr_mut(key_of(address))
}

/// Notes a new object, or one that was not known. Its socket is already known if `ino` is not 0.
#[inline(always)]
pub fn insert(address: u64, since: u64, [ino, inode]: [u64; 2]) {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if address == 0 || tgid == OWN_TGID.load() {
        return;
    }
    let object = Object {
        position: [0; 2],
        ino,
        state: NEW,
        left: LeftAlone {
            requests_at: NO_REQUESTS,
            requests: 0,
            pages: 0,
        },
        since,
        attached: tls_library::attached()[0],
        inode,
        busy: [0; 2],
        look: UNSEEN,
    };
    let _ = TLS_OBJECTS.insert(key_of(address), object, 0);
}

/// Forgets an object.
#[inline(always)]
pub fn remove(address: u64) {
    let _ = TLS_OBJECTS.remove(key_of(address));
}

/// Whether the caller must examine an object's first bytes. Both directions may begin at the same
/// time, on two threads.
#[inline(always)]
pub fn is_first_to_look(object: *mut Object) -> bool {
    const ORDER: AtomicOrdering = AtomicOrdering::SeqCst;
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    let (found, _) =
        unsafe { atomic_cxchg::<u64, ORDER, ORDER>(&raw mut (*object).look, UNSEEN, SEEN) };
    found == UNSEEN
}

/// Waits until another thread has examined an object's first bytes. Returns the state.
#[inline(always)]
pub fn await_look(object: *mut Object, address: u64) -> u32 {
    let mut context = address;
    // SAFETY: `wait_step` has the signature of a loop callback, and the context outlives the loop.
    unsafe {
        bpf_loop(
            PATIENCE,
            wait_step as *mut c_void,
            (&raw mut context).cast(),
            0,
        );
    }
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    let state = unsafe { (&raw const (*object).state).read_volatile() };
    if state == NEW {
        // This caller's bytes are missing from now on.
        // SAFETY: as above.
        unsafe { (&raw mut (*object).look).write_volatile(MISSED) };
    }
    state
}

unsafe extern "C" fn wait_step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `await_look` passes to the loop.
    let address = unsafe { context.cast::<u64>().read() };
    let Some(object) = get(address) else {
        return 1;
    };
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    i64::from(unsafe { (&raw const (*object).state).read_volatile() } != NEW)
}

/// The first bytes were examined, and belong to a registered socket.
#[inline(always)]
pub fn set_paired(object: *mut Object) {
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    let is_missed = unsafe { (&raw const (*object).look).read_volatile() } == MISSED;
    set_state(object, if is_missed { LEFT } else { PAIRED });
}

/// Sets an object's state.
#[inline(always)]
pub fn set_state(object: *mut Object, state: u32) {
    // SAFETY: an aligned word of a map entry, which stays allocated while the program runs.
    unsafe { (&raw mut (*object).state).write_volatile(state) };
}
