//! The probes. Entry points only; each topic has a file of its own.
//!
//! One program on the exit of system calls copies what crossed a watched stream. It runs for every
//! system call of the machine, so it is ordered by what it costs an uninvolved process: a table
//! look-up by call number, then one by process, and only then the way from the descriptor to the
//! stream. Three small programs follow processes (fork, exec, exit), and an iterator registers the
//! streams that exist already when the daemon starts.
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "core offers no atomics for this target, its intrinsics do"
)]

mod blind;
mod copy;
mod descriptor;
mod emit;
mod endpoint;
mod involved;
mod kernel;
mod lifecycle;
mod maps;
mod offsets;
mod passing;
mod syscall;

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};

/// System call exit, arguments typed by the kernel's BTF. Minimum kernel version: 5.11.
#[btf_tracepoint(function = "sys_exit")]
pub fn syscall_exit(ctx: BtfTracePointContext) -> i32 {
    syscall::on_exit::<kernel::Typed>(ctx.arg::<u64>(0), ctx.arg::<i64>(1));
    0
}

/// System call exit where the kernel brings no BTF of its own. Minimum kernel version: 5.8.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn syscall_exit_raw(ctx: RawTracePointContext) -> i32 {
    syscall::on_exit::<kernel::Probed>(ctx.arg::<u64>(0), ctx.arg::<i64>(1));
    0
}

/// A process was forked: it holds what its parent holds.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn process_fork(ctx: RawTracePointContext) -> i32 {
    lifecycle::on_fork(ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    0
}

/// A process started a program: its standard input and output may be an MCP wire.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn process_exec(ctx: RawTracePointContext) -> i32 {
    let task = ctx.arg::<u64>(0);
    lifecycle::on_exec(&ctx, task);
    0
}

/// A process ended.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn process_exit(ctx: RawTracePointContext) -> i32 {
    let task = ctx.arg::<u64>(0);
    lifecycle::on_exit(&ctx, task);
    0
}

/// Every descriptor of every process, when user space asks. Minimum kernel version: 5.8.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn descriptors(ctx: *mut core::ffi::c_void) -> i32 {
    lifecycle::on_descriptor(BtfTracePointContext::new(ctx).as_ptr().cast());
    0
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
