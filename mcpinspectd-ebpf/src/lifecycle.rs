//! Processes come and go, and with them the holders of streams.

use core::ffi::c_void;

use aya_ebpf::{EbpfContext, helpers::generated::bpf_loop};
use aya_log_ebpf::debug;
use mcpinspect_common::{EndpointKey, EndpointReport, RecordKind};

use crate::{
    descriptor, emit, endpoint,
    kernel::{Access as _, Probed, probe},
    maps::CANDIDATES,
    offsets::*,
    tracked,
};

/// Ancestors that are marked at an exec: a launcher such as `npx` puts three processes between a
/// client and its server.
const ANCESTORS: u32 = 8;

#[inline(always)]
fn tgid(task: u64) -> u32 {
    probe(task, OFF_TASK_TGID.load())
}

/// A child holds its parent's descriptors.
#[inline(always)]
pub fn on_fork(parent: u64, child: u64) {
    let (parent, child) = (tgid(parent), tgid(child));
    if parent != child && tracked::is_tracked(parent) {
        tracked::mark(child);
    }
}

/// Marks who may be at the other ends of a new program's standard input and output, and registers
/// those.
#[inline(always)]
pub fn on_exec<C: EbpfContext>(context: &C, task: u64) {
    if tgid(task) == OWN_TGID.load() {
        return;
    }
    let mut stdio = Stdio {
        files: [
            descriptor::file::<Probed>(task, 0),
            descriptor::file::<Probed>(task, 1),
        ],
        reports: [EndpointReport::default(); 2],
    };
    let [input, output] = stdio.files;
    if descriptor::endpoint(input).is_none() && descriptor::endpoint(output).is_none() {
        return;
    }
    // Marks first: a parent may write while its child's streams are being registered.
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
    // A loop for the verifier: what is called twice in a row, older kernels follow on the square of
    // its ways.
    // SAFETY: `register_step` has the signature of a loop callback, and `stdio` outlives the loop.
    unsafe {
        bpf_loop(2, register_step as *mut c_void, (&raw mut stdio).cast(), 0);
    }
    let [input, output] = stdio.reports;
    if input.key.ino == 0 && output.key.ino == 0 {
        return;
    }
    debug!(
        context,
        "exec: process {} reads inode {} and writes inode {}",
        tgid(task),
        input.key.ino,
        output.key.ino,
    );
    let header = emit::header(RecordKind::Exec, 0, EndpointKey::default(), 0);
    emit::fixed(header, [input, output]);
}

/// Standard input and output of a program, and what they turn out to be.
#[repr(C)]
struct Stdio {
    files: [u64; 2],
    reports: [EndpointReport; 2],
}

unsafe extern "C" fn register_step(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `on_exec` gives to the loop.
    let stdio = unsafe { &mut *context.cast::<Stdio>() };
    // Constant indices: older verifiers do not bound a variable one.
    if index == 0 {
        stdio.reports[0] = endpoint::register(stdio.files[0], 0);
    } else {
        stdio.reports[1] = endpoint::register(stdio.files[1], 1);
    }
    0
}

/// Tells user space that a tracked process is gone, with its last thread.
#[inline(always)]
pub fn on_exit<C: EbpfContext>(context: &C, task: u64) {
    let id = tgid(task);
    if !tracked::is_tracked(id) {
        return;
    }
    let signal: u64 = probe(task, OFF_TASK_SIGNAL.load());
    if Probed::load::<u32>(signal, OFF_SIGNAL_LIVE.load()) == 0 {
        debug!(context, "exit: process {} was tracked", id);
        emit::bare(emit::header(RecordKind::Exit, 0, EndpointKey::default(), 0));
    }
}

/// `struct bpf_iter__task_file`.
#[repr(C)]
pub struct DescriptorContext {
    meta: u64,
    task: u64,
    fd: u32,
    _padding: u32,
    file: u64,
}

/// Registers a descriptor that user space has asked for.
#[inline(always)]
pub fn on_descriptor(context: *const DescriptorContext) {
    // SAFETY: the kernel passes this context to iterators of this kind; the verifier checks each load.
    let (task, fd, file) = unsafe {
        (
            (&raw const (*context).task).read_volatile(),
            (&raw const (*context).fd).read_volatile(),
            (&raw const (*context).file).read_volatile(),
        )
    };
    if task == 0 || file == 0 {
        return;
    }
    let Some((key, _)) = descriptor::endpoint(file) else {
        return;
    };
    // SAFETY: only the presence of the entry is looked at.
    if unsafe { CANDIDATES.get(key) }.is_none() {
        return;
    }
    let id = tgid(task);
    if id == OWN_TGID.load() {
        return;
    }
    tracked::mark(id);
    let report: EndpointReport = endpoint::register(file, fd);
    if report.fresh == 1 {
        let mut header = emit::header(RecordKind::Registered, 0, key, 0);
        header.tgid = id;
        emit::fixed(header, report);
    }
}
