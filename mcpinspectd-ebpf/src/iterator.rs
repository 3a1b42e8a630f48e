//! The descriptor iterator: registers streams that were open before the daemon started.
//!
//! User space puts the endpoints it looks for into a map and reads the iterator's file; the kernel
//! then calls the program once for every open descriptor of every process.
//!
//! Cost to other processes: none at a system call. The walk runs in the daemon's thread, when the
//! daemon starts.
//!
//! Minimum kernel version: 5.8 (`iter/task_file`), and BTF of the running kernel.

use mcpinspect_common::{EndpointReport, RecordKind};

use crate::{
    connection, descriptor, emit,
    endpoint::{self, Registrar},
    kernel::probe,
    maps::CANDIDATES,
    offsets::*,
    tracked,
};

/// `struct bpf_iter__task_file`.
#[repr(C)]
pub struct DescriptorContext {
    meta: u64,
    task: u64,
    fd: u32,
    _padding: u32,
    file: u64,
}

/// Registers a descriptor if it leads to one of the candidates, and marks its process if it is a TCP
/// socket.
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
    let id: u32 = probe(task, OFF_TASK_TGID.load());
    connection::on_descriptor(id, file);
    let Some((key, _)) = descriptor::endpoint(file) else {
        return;
    };
    // SAFETY: only the entry's presence is checked.
    if unsafe { CANDIDATES.get(key) }.is_none() {
        return;
    }
    if id == OWN_TGID.load() {
        return;
    }
    tracked::mark(id);
    let report: EndpointReport = endpoint::register(file, fd, Registrar::Iterator);
    if report.fresh == 1 {
        let mut header = emit::header(RecordKind::Registered, 0, key, 0);
        header.tgid = id;
        emit::with_payload(header, report);
    }
}
