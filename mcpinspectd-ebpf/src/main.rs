//! The probes. This file has the entry points; each topic has a file of its own.
//!
//! One program at the exit of system calls copies what crossed a watched stream (or several programs that
//! do the same, at the exits of the functions behind those calls). It runs for every system call of the
//! machine, so its steps are ordered by what they cost an untracked process: first a look-up by call
//! number, then one by process, and only then the path from the descriptor to the stream. Three small
//! programs follow processes (fork, exec, exit), an iterator registers the streams that are open
//! when the daemon starts, and another reports from time to time which of them are still held.
//!
//! Each file states what it costs a process that is not an MCP server, and the oldest kernel that has
//! what it uses. Together they need Linux 5.17 (`bpf_loop`); the versions below are those of the hooks
//! alone.
//!
//! ```text
//! main ─┬─▶ syscall ─┬─▶ fd_passing ──▶ tracked
//!       │            ├─▶ connection ─▶ endpoint, http_head, tls_library, tls_pairing
//!       │            ├─▶ blind_spot ─┬─▶ ledger ─▶ watch ─▶ descriptor
//!       │            └─▶ copy ───────┴─▶ emit
//!       ├─▶ lifecycle ─┬─▶ endpoint ─▶ descriptor, ledger; tls_library
//!       │              ├─▶ program ─▶ emit
//!       ├─▶ iterator ──┘
//!       ├─▶ tls_go ─▶ descriptor, tls_object
//!       │      ▼
//!       ├─▶ tls ─┬─────▶ connection, http_head, tls_pairing, tls_object ─▶ tls_library
//!       │        └─▶ tls_copy ─▶ copy, tls_slot
//!       └─▶ survey ────▶ descriptor
//! ```
#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(
    internal_features,
    reason = "core offers no atomics for this target, its intrinsics do"
)]

mod arguments;
mod blind_spot;
mod carrier;
mod connection;
mod connection_entry;
mod copy;
mod descriptor;
mod emit;
mod endpoint;
mod fd_passing;
mod first_bytes;
mod http_head;
mod iterator;
mod kernel;
mod ledger;
mod left_alone;
mod lifecycle;
mod maps;
mod offsets;
mod program;
mod ring_share;
mod supervision;
mod survey;
mod switchover;
mod syscall;
mod tls;
mod tls_copy;
mod tls_go;
mod tls_layers;
mod tls_library;
mod tls_object;
mod tls_pairing;
mod tls_slot;
mod tracked;
mod user_buffers;
mod watch;

use aya_ebpf::{
    EbpfContext as _,
    macros::{btf_tracepoint, fexit, kprobe, raw_tracepoint, uprobe, uretprobe},
    programs::{
        BtfTracePointContext, FExitContext, ProbeContext, RawTracePointContext, RetProbeContext,
    },
};
use mcpinspect_common::{End, Operation};

/// System call exit, with arguments typed by the kernel's BTF. Minimum kernel version: 5.11.
#[btf_tracepoint(function = "sys_exit")]
pub fn syscall_exit(ctx: BtfTracePointContext) -> i32 {
    syscall::on_exit::<kernel::Typed>(ctx.arg::<u64>(0), ctx.arg::<i64>(1));
    0
}

/// System call exit on a kernel without BTF of its own. Minimum kernel version: 5.8.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn syscall_exit_raw(ctx: RawTracePointContext) -> i32 {
    syscall::on_exit::<kernel::Probed>(ctx.arg::<u64>(0), ctx.arg::<i64>(1));
    0
}

/// System call exit, at the function that calls the tracepoint: for kernels that may preempt the
/// programs of a tracepoint, but not those of a kprobe (7.2 and later).
#[kprobe]
pub fn syscall_exit_probe(ctx: ProbeContext) -> u32 {
    if let (Some(regs), Some(result)) = (ctx.arg::<u64>(0), ctx.arg::<i64>(1)) {
        syscall::on_exit::<kernel::Probed>(regs, result);
    }
    0
}

/// Does nothing. The kernel calls the kprobe's function only while the tracepoint has a program.
#[raw_tracepoint(tracepoint = "sys_exit")]
pub fn syscall_exit_wanted(_ctx: RawTracePointContext) -> i32 {
    0
}

/// Exits of the calls' own entry functions, for kernels that let functions be hooked: system calls
/// that carry no bytes pay nothing. There is one program per function, because loading binds a program
/// to its function. The function's only argument is the call's registers; the result follows it.
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
    exit_io_uring_setup: IoUring,
    exit_io_uring_enter: IoUring,
    exit_io_submit: Aio,
    exit_pidfd_getfd: TakeDescriptor,
    exit_socket: Socket,
    exit_accept: Accept,
    exit_accept4: Accept,
    exit_mmap: Map,
    exit_getsockopt: GetOption,
);

/// Exits of the functions behind calls of another system call table. The probes do not decode these
/// calls; they report that a process makes them.
macro_rules! compat_wrappers {
    ($($name:ident),+ $(,)?) => { $(
        #[fexit]
        pub fn $name(_ctx: FExitContext) -> i32 {
            syscall::on_compat_exit();
            0
        }
    )+ };
}

compat_wrappers!(exit_compat_read, exit_compat_write);

/// A function of a TLS library is called. The cookie of the place tells its kind.
#[uprobe]
pub fn tls_enter(ctx: ProbeContext) -> u32 {
    tls::on_entry(&ctx);
    0
}

/// It has decrypted bytes.
#[uretprobe]
pub fn tls_read(ctx: RetProbeContext) -> u32 {
    tls::moved(&ctx, End::Reader);
    0
}

/// It has encrypted bytes. Together with the previous program, this exceeds the verifier's limits.
#[uretprobe]
pub fn tls_written(ctx: RetProbeContext) -> u32 {
    tls::moved(&ctx, End::Writer);
    0
}

/// It has made an object. The cookie of the place tells where that is.
#[uretprobe]
pub fn tls_made(ctx: RetProbeContext) -> u32 {
    tls::on_made(&ctx);
    0
}

/// A function of Go's `crypto/tls` is called. The cookie of the place tells its kind.
#[uprobe]
pub fn go_enter(ctx: ProbeContext) -> u32 {
    tls_go::on_entry(&ctx);
    0
}

/// One that has decrypted bytes is about to return.
#[uprobe]
pub fn go_read(ctx: ProbeContext) -> u32 {
    tls_go::moved(&ctx, End::Reader);
    0
}

/// One that has encrypted bytes is about to return.
#[uprobe]
pub fn go_written(ctx: ProbeContext) -> u32 {
    tls_go::moved(&ctx, End::Writer);
    0
}

/// A process was forked: it inherits its parent's descriptors.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn process_fork(ctx: RawTracePointContext) -> i32 {
    lifecycle::on_fork(ctx.arg::<u64>(0), ctx.arg::<u64>(1));
    0
}

/// A process started a program, whose standard input and output may carry MCP.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn process_exec(ctx: RawTracePointContext) -> i32 {
    let task = ctx.arg::<u64>(0);
    lifecycle::on_exec(&ctx, task, ctx.arg::<u64>(2));
    0
}

/// A thread ended, perhaps the last of its process.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn process_exit(ctx: RawTracePointContext) -> i32 {
    let task = ctx.arg::<u64>(0);
    lifecycle::on_exit(&ctx, task);
    0
}

/// Every open descriptor of every process, when user space asks. Minimum kernel version: 5.8.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task_file")]
pub extern "C" fn descriptors(ctx: *mut core::ffi::c_void) -> i32 {
    iterator::on_descriptor(BtfTracePointContext::new(ctx).as_ptr().cast());
    0
}

/// Every thread, when user space asks which endpoints are held, and which processes hold any. Minimum
/// kernel version: 5.13.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/task")]
pub extern "C" fn survey_tasks(ctx: *mut core::ffi::c_void) -> i32 {
    survey::on_task(BtfTracePointContext::new(ctx).as_ptr().cast());
    0
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
