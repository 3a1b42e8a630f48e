//! Fork, exec and exit: which processes may hold a stream, and when they are gone.
//!
//! Cost to other processes:
//! - fork: two reads, and two array look-ups unless the child is a thread;
//! - exec: one array look-up, the cost stated in [`crate::tls_library`], and up to ten reads for each of
//!   descriptors 0 and 1. If one is a pipe or a socket, the probe also marks the process and up to eight
//!   ancestors, sums up the unread bytes, and writes one record (see [`crate::program`]);
//! - exit of a thread: one read and one array look-up.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`); raw tracepoints exist since 4.17.

use core::ffi::c_void;

use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_uid_gid, generated::bpf_loop},
    macros::map,
    maps::PerCpuArray,
};
use aya_log_ebpf::debug;
use mcpinspect_common::{EndpointKey, EndpointReport, RecordKind};

use crate::{
    connection, descriptor, emit,
    endpoint::{self, Registrar},
    kernel::{Access as _, Probed, probe},
    offsets::*,
    program::{self, Program},
    tls_library, tracked,
};

/// Ancestors to mark at an exec: a launcher such as `npx` puts three processes between a client and
/// its server.
const ANCESTORS: u32 = 8;

#[inline(always)]
fn tgid(task: u64) -> u32 {
    probe(task, OFF_TASK_TGID.load())
}

/// Marks the child of a tracked process: it inherits its parent's descriptors.
#[inline(always)]
pub fn on_fork(parent: u64, child: u64) {
    let (parent, child) = (tgid(parent), tgid(child));
    if parent == child {
        return;
    }
    connection::on_fork(parent, child);
    if tracked::is_tracked(parent) {
        tracked::mark(child);
    }
}

/// Registers a new program's standard input and output, and marks the processes that may hold their
/// other ends.
#[inline(always)]
pub fn on_exec<C: EbpfContext>(context: &C, task: u64, binprm: u64) {
    if tgid(task) == OWN_TGID.load() {
        return;
    }
    connection::on_exec(task, tgid(task));
    tls_library::executed(task);
    let input = descriptor::file::<Probed>(task, 0);
    let output = descriptor::file::<Probed>(task, 1);
    if descriptor::endpoint(input).is_none() && descriptor::endpoint(output).is_none() {
        return;
    }
    // Marks come first: a parent may write while its child's streams are being registered.
    tracked::mark(tgid(task));
    let mut ancestor = task;
    for _ in 0..ANCESTORS {
        ancestor = probe(ancestor, OFF_TASK_REAL_PARENT.load());
        let id = tgid(ancestor);
        if id <= 1 {
            break;
        }
        tracked::mark(id);
    }
    let Some(start) = START.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    unsafe {
        (&raw mut (*start).task).write(task);
        (&raw mut (*start).binprm).write(binprm);
        (&raw mut (*start).files).write([input, output]);
    }
    // The loop is for the verifier: of two calls in a row, older kernels explore every combination
    // of paths.
    // SAFETY: `register_step` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(2, register_step as *mut c_void, core::ptr::null_mut(), 0);
    }
    // SAFETY: as above.
    let [input, output] = unsafe {
        [
            (&raw const (*start).reports[0].key.ino).read_volatile(),
            (&raw const (*start).reports[1].key.ino).read_volatile(),
        ]
    };
    if input == 0 && output == 0 {
        return;
    }
    debug!(
        context,
        "exec: process {} reads inode {} and writes inode {}",
        tgid(task),
        input,
        output,
    );
    // A loop because of the stack: what a callback needs is free again when it returns.
    // SAFETY: `ship_step` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(1, ship_step as *mut c_void, core::ptr::null_mut(), 0);
    }
}

/// The start of a program, and the reports on its standard input and output. It lives in a map because the verifier
/// does not track values through one: registering is checked once, whatever came before.
#[repr(C)]
#[derive(Clone, Copy)]
struct Start {
    task: u64,
    binprm: u64,
    files: [u64; 2],
    reports: [EndpointReport; 2],
}

/// The current start. One slot per CPU is enough, see [`crate::copy`].
#[map]
static START: PerCpuArray<Start> = PerCpuArray::with_max_entries(1, 0);

unsafe extern "C" fn register_step(index: u32, _context: *mut c_void) -> i64 {
    let Some(start) = START.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    let start = unsafe { &mut *start };
    // Constant indices: older verifiers cannot bound a variable one.
    if index == 0 {
        start.reports[0] = endpoint::register(start.files[0], 0, Registrar::Exec);
    } else {
        start.reports[1] = endpoint::register(start.files[1], 1, Registrar::Exec);
    }
    0
}

unsafe extern "C" fn ship_step(_index: u32, _context: *mut c_void) -> i64 {
    let Some(start) = START.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    let start = unsafe { &*start };
    let mut header = emit::header(RecordKind::Exec, 0, EndpointKey::default(), 0);
    // The lower half is the user, the upper half the group.
    header.aux = bpf_get_current_uid_gid() & 0xffff_ffff;
    let program = Program {
        task: start.task,
        binprm: start.binprm,
        stdio: start.reports,
    };
    program::ship(header, program);
    1
}

/// Reports the end of a tracked process when its last thread exits.
#[inline(always)]
pub fn on_exit<C: EbpfContext>(context: &C, task: u64) {
    let id = tgid(task);
    if !tracked::is_tracked(id) {
        return;
    }
    let signal: u64 = probe(task, OFF_TASK_SIGNAL.load());
    if Probed::load::<u32>(signal, OFF_SIGNAL_LIVE.load()) == 0 {
        debug!(context, "exit: process {} was tracked", id);
        emit::header_only(emit::header(RecordKind::Exit, 0, EndpointKey::default(), 0));
    }
}
