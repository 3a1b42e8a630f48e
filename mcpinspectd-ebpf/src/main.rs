//! The probes. Entry points only; each topic has a file of its own.
//!
//! One program on the exit of system calls copies what crossed a watched stream (or several that do
//! the same, on the exits of the functions behind those calls). It runs for every system call of the
//! machine, so it is ordered by what it costs an untracked process: a table
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
mod handover;
mod kernel;
mod lifecycle;
mod maps;
mod offsets;
mod passing;
mod syscall;
mod tracked;

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, fexit, kprobe, raw_tracepoint},
    programs::{BtfTracePointContext, FExitContext, ProbeContext, RawTracePointContext},
};
use mcpinspect_common::Operation;

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

/// System call exit, from the function that calls the tracepoint. For kernels that may interrupt the
/// tracepoint's programs, but not those of a kprobe (7.2).
#[kprobe]
pub fn syscall_exit_probe(ctx: ProbeContext) -> u32 {
    if let (Some(regs), Some(result)) = (ctx.arg::<u64>(0), ctx.arg::<i64>(1)) {
        syscall::on_exit::<kernel::Probed>(regs, result);
    }
    0
}

/// Does nothing: the kernel calls that function only while the tracepoint has a program.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn syscall_exit_wanted(_ctx: RawTracePointContext) -> i32 {
    0
}

/// Exits of the calls' own entry functions, for kernels that let functions be hooked: system calls
/// that carry no bytes pay nothing. A program each, because a program is bound to one function when
/// it is loaded. The function's only argument is the call's registers; its result comes behind.
/// Minimum kernel version: 5.11.
macro_rules! wrappers {
    ($($name:ident: $operation:ident),+ $(,)?) => { $(
        #[fexit]
        pub fn $name(ctx: FExitContext) -> i32 {
            const OPERATION: u8 = Operation::$operation as u8;
            syscall::on_function_exit::<kernel::Typed>(OPERATION, ctx.arg::<u64>(0), ctx.arg::<i64>(1));
            0
        }
    )+ };
}

wrappers!(
    exit_read: Read,
    exit_write: Write,
    exit_readv: ReadVector,
    exit_preadv2: ReadVector,
    exit_writev: WriteVector,
    exit_pwritev2: WriteVector,
    exit_recvfrom: ReceiveFrom,
    exit_sendto: SendTo,
    exit_recvmsg: ReceiveMessage,
    exit_sendmsg: SendMessage,
    exit_recvmmsg: ReceiveMessages,
    exit_sendmmsg: SendMessages,
    exit_splice: Splice,
    exit_tee: Tee,
    exit_vmsplice: VmSplice,
    exit_sendfile64: SendFile,
    exit_io_uring_enter: IoUring,
    exit_pidfd_getfd: TakeDescriptor,
);

/// Exits of the functions behind calls of another system call table. What they move is not
/// understood; that they are used is noticed.
macro_rules! compat_wrappers {
    ($($name:ident),+ $(,)?) => { $(
        #[fexit]
        pub fn $name(_ctx: FExitContext) -> i32 {
            syscall::compat_returned();
            0
        }
    )+ };
}

compat_wrappers!(exit_compat_read, exit_compat_write);

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
