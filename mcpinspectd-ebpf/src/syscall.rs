//! The exit of a system call: decides what the call did, and whether it matters.
//!
//! Cost to other processes, in the order in which they leave:
//! - through the tracepoint, a call that carries no bytes: one load and one array look-up (about 25
//!   instructions); through function exits, nothing;
//! - on x86-64, 22 calls whose numbers carry bytes in the 32-bit table (of the usual ones only `close`): two
//!   more loads;
//! - a call that carries bytes, of an untracked process: two more array look-ups, and for `recvmsg`
//!   what [`crate::fd_passing`] reads;
//! - a process that has had an internet socket: the cost stated in [`crate::connection`];
//! - a process that has just started with a pipe or socket as standard input or output is tracked
//!   for three to six seconds: its calls go through [`crate::watch`], and the first bytes of its
//!   streams are copied.

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpinspect_common::{End, Operation, RecordKind};

use crate::{
    arguments::Arguments,
    blind_spot,
    carrier::{self, Carrier},
    connection, copy, descriptor, emit, fd_passing,
    kernel::Access,
    maps::OPERATIONS,
    offsets::*,
    supervision, switchover, tls_library, tracked,
    user_buffers::UserBuffers,
    watch::{watched, watched_connection},
};

/// Flags of calls on sockets. The kernel leaves the bytes in the socket.
const MSG_PEEK: u64 = 2;
/// One byte goes beside the stream.
const MSG_OOB: u64 = 1;
/// On TCP, bytes leave the socket and are not copied.
const MSG_TRUNC: u64 = 0x20;
/// On TCP, what is read is the socket's error queue: a process's own packets come back.
const MSG_ERRQUEUE: u64 = 0x2000;
/// `cs` of 64-bit user code on x86-64.
const USER_CS: u64 = 0x33;
/// In a task's status while it makes a 32-bit call, whatever code it is in (`TS_COMPAT`, x86-64).
const IN_COMPAT_CALL: u32 = 2;

/// Handles a call that returns `result`, at the tracepoint.
#[inline(always)]
pub fn on_exit<A: Access>(regs: u64, result: i64) {
    let number: u64 = A::load(regs, OFF_REGS_NUMBER.load());
    let Some(operation) = OPERATIONS.get(number as u32) else {
        return;
    };
    if *operation == Operation::PerhapsCompat as u8 {
        if result > 0 && is_compat::<A>(regs) {
            on_compat_exit();
        }
        return;
    }
    if returned::<A>(*operation, regs, result, switchover::is_unclaimed) {
        // The tracepoint also sees a call that a filter prevented.
        supervision::report::<A>();
    }
}

/// Handles a call that is known to be `operation` and returns `result`, at its function's exit.
#[inline(always)]
pub fn on_function_exit<A: Access>(operation: u8, regs: u64, result: i64) {
    returned::<A>(operation, regs, result, switchover::claim);
}

/// Handles a call made through the 32-bit system call table.
#[inline(always)]
pub fn on_compat_exit() {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if tracked::is_tracked(tgid) {
        blind_spot::report_process(Operation::Compat, tgid);
    }
}

/// Whether a call was made through the 32-bit table. A 64-bit program can do that too (`int 0x80`).
#[inline(always)]
fn is_compat<A: Access>(regs: u64) -> bool {
    COMPAT_BY_CS.load() == 1
        && (A::load::<u64>(regs, OFF_REGS_CS.load()) != USER_CS
            || A::load::<u32>(A::current_task(), OFF_TASK_STATUS.load()) & IN_COMPAT_CALL != 0)
}

/// `is_ours` tells whether this program, and not the other hook, handles the call; it is called only
/// for calls of tracked processes. Returns whether the call moved bytes of a watched stream.
#[inline(always)]
fn returned<A: Access>(
    operation: u8,
    regs: u64,
    result: i64,
    is_ours: impl FnOnce() -> bool,
) -> bool {
    if operation == Operation::None as u8 || result < 0 {
        return false;
    }
    let arguments = Arguments::new(regs);
    if operation == Operation::Map as u8 {
        tls_library::mapped::<A>(&arguments);
        return false;
    }
    if connection::opened::<A>(operation, &arguments, result as u64) {
        return false;
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let has_streams = tracked::is_tracked(tgid);
    // A tracked process too: a survey that began before may be about to take back its older mark.
    fd_passing::mark_receiver::<A>(operation, &arguments, result as u64, tgid);
    let has_connections = connection::is_marked(tgid);
    if !has_streams && !has_connections {
        return false;
    }
    // Its number and arguments mean something other than they seem to.
    if is_compat::<A>(regs) {
        blind_spot::report_process(Operation::Compat, tgid);
        return false;
    }
    let process = Process {
        tgid,
        has_streams,
        has_connections,
    };
    is_ours() && capture::<A>(operation, &arguments, result as u64, &process)
}

/// A process whose calls are captured.
struct Process {
    tgid: u32,
    /// Whether it may hold a watched stream.
    has_streams: bool,
    /// Whether it may have a TCP connection.
    has_connections: bool,
}

/// Captures what a tracked process's call moved. Returns whether that belonged to a watched stream.
#[inline(always)]
fn capture<A: Access>(
    operation: u8,
    arguments: &Arguments,
    result: u64,
    process: &Process,
) -> bool {
    const READ: u8 = Operation::Read as u8;
    const WRITE: u8 = Operation::Write as u8;
    const READ_VECTOR: u8 = Operation::ReadVector as u8;
    const WRITE_VECTOR: u8 = Operation::WriteVector as u8;
    const RECEIVE_FROM: u8 = Operation::ReceiveFrom as u8;
    const SEND_TO: u8 = Operation::SendTo as u8;
    const RECEIVE_MESSAGE: u8 = Operation::ReceiveMessage as u8;
    const SEND_MESSAGE: u8 = Operation::SendMessage as u8;
    const RECEIVE_MESSAGES: u8 = Operation::ReceiveMessages as u8;
    const SEND_MESSAGES: u8 = Operation::SendMessages as u8;
    const IO_URING: u8 = Operation::IoUring as u8;
    const AIO: u8 = Operation::Aio as u8;
    const TAKE_DESCRIPTOR: u8 = Operation::TakeDescriptor as u8;
    const GET_OPTION: u8 = Operation::GetOption as u8;

    // Before the code branches by the kind of call: the kernel searches all its types by name, a millisecond each
    // time, whenever its verifier follows a pointer of a task.
    let file = descriptor::file::<A>(A::current_task(), arguments.first::<A>() as u32);
    let end = match operation {
        READ | READ_VECTOR | RECEIVE_FROM | RECEIVE_MESSAGE | RECEIVE_MESSAGES => End::Reader,
        WRITE | WRITE_VECTOR | SEND_TO | SEND_MESSAGE | SEND_MESSAGES => End::Writer,
        IO_URING => {
            blind_spot::report_process(Operation::IoUring, process.tgid);
            return false;
        }
        AIO => {
            blind_spot::report_process(Operation::Aio, process.tgid);
            return false;
        }
        TAKE_DESCRIPTOR => return false,
        GET_OPTION => {
            blind_spot::report_mapped::<A>(arguments);
            return false;
        }
        _ => {
            blind_spot::report_transfer::<A>(operation, arguments, result);
            return false;
        }
    };
    let second = arguments.second::<A>();
    let (buffers, flags) = match operation {
        READ | WRITE => (UserBuffers::single(second), 0),
        RECEIVE_FROM | SEND_TO => (UserBuffers::single(second), arguments.fourth::<A>()),
        READ_VECTOR | WRITE_VECTOR => (UserBuffers::vector(second, arguments.third::<A>()), 0),
        SEND_MESSAGE | RECEIVE_MESSAGE => (UserBuffers::message(second), arguments.third::<A>()),
        _ => (
            UserBuffers::messages(second, result),
            arguments.fourth::<A>(),
        ),
    };
    let reads = end as u8 == End::Reader as u8;
    // Only a socket's calls have flags, and only those of TCP these two.
    let (discards, other_queue) = if reads && flags & (MSG_TRUNC | MSG_ERRQUEUE) != 0 {
        let internet = matches!(carrier::of_file(file), Carrier::Internet);
        (
            internet && flags & MSG_TRUNC != 0,
            internet && flags & MSG_ERRQUEUE != 0,
        )
    } else {
        (false, false)
    };
    let urgent = flags & MSG_OOB != 0;
    // An urgent byte is alone, where it is one: some kinds of sockets ignore the flag.
    if other_queue || reads && urgent && result == 1 {
        return false;
    }
    let peeks = reads && flags & MSG_PEEK != 0;
    let stream = if process.has_streams {
        watched(file)
    } else {
        None
    };
    let key = match stream {
        Some(key) => key,
        None if process.has_connections && discards => match watched_connection(file) {
            Some(key) => key,
            None => return false,
        },
        None if process.has_connections && !peeks => {
            match connection::watched(file, end, buffers, result) {
                Some(key) => key,
                None => return false,
            }
        }
        None => return false,
    };
    if result == 0 {
        if reads && asked_for_bytes::<A>(operation, arguments) {
            emit::header_only(emit::header(RecordKind::EndOfStream, end as u8, key, 0));
        }
        return true;
    }
    if peeks {
        return false;
    }
    if discards {
        copy::discarded(key, buffers, result);
        return true;
    }
    let mut moved = result;
    if urgent && !reads {
        blind_spot::report_urgent(key);
        // The last byte is the urgent one. Of several messages, the result is their number.
        if operation != SEND_MESSAGES {
            moved -= 1;
        }
        if moved == 0 {
            return true;
        }
    }
    copy::transferred(key, end, buffers, moved);
    true
}

/// A result of 0 marks the end of the stream only if the caller had room for a byte.
#[inline(always)]
fn asked_for_bytes<A: Access>(operation: u8, arguments: &Arguments) -> bool {
    (operation != Operation::Read as u8 && operation != Operation::ReceiveFrom as u8)
        || arguments.third::<A>() != 0
}
