//! Calls that another process may have answered.
//!
//! A seccomp filter can hand a call to a supervisor (`SECCOMP_RET_USER_NOTIF`), which decides what it
//! returns: nothing was read, yet the probes at the tracepoint see a read. A program may install such a
//! filter for itself, without privileges. So a process with a filter that has a supervisor is reported.
//! Such a call does not reach the functions that carry calls out.
//!
//! Cost to other processes: none. Only calls on watched streams get this far.
//!
//! Kernel source: `kernel/seccomp.c`, `__seccomp_filter` and `struct seccomp_filter`.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpinspect_common::Operation;

use crate::{
    blind_spot,
    kernel::{Access, probe},
    offsets::{OFF_FILTER_NOTIF, OFF_FILTER_PREV, OFF_TASK_FILTER, SUPERVISION},
};

/// Filters of a process to examine, the newest first. The kernel runs all of them, and at most one
/// of them has a supervisor.
const FILTERS: u32 = 32;

/// Reports the current process, once, if one of its filters has a supervisor.
#[inline(always)]
pub fn report<A: Access>() {
    if SUPERVISION.load() == 0 {
        return;
    }
    let mut filter: u64 = probe(A::current_task(), OFF_TASK_FILTER.load());
    for _ in 0..FILTERS {
        if filter == 0 {
            return;
        }
        if probe::<u64>(filter, OFF_FILTER_NOTIF.load()) != 0 {
            let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
            return blind_spot::report_process(Operation::Supervised, tgid);
        }
        filter = probe(filter, OFF_FILTER_PREV.load());
    }
}
