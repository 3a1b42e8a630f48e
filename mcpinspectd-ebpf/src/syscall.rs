//! The exit of a system call: what did it do, and is it of interest?

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use mcpinspect_common::{End, EndpointKey, Operation, RecordKind};

use crate::{
    blind,
    copy::{self, Source},
    descriptor, emit, handover,
    kernel::Access,
    maps::{OPERATIONS, WATCHES},
    offsets::*,
    passing, tracked,
};

const MSG_PEEK: u64 = 2;
/// `cs` of 64-bit user code on x86-64.
const USER_CS: u64 = 0x33;

/// A call's registers, of which its arguments are read when they are needed.
pub struct Arguments {
    regs: u64,
}

impl Arguments {
    /// The first argument.
    #[inline(always)]
    pub fn first<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG0.load())
    }

    /// The second argument.
    #[inline(always)]
    pub fn second<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG1.load())
    }

    /// The third argument.
    #[inline(always)]
    pub fn third<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG2.load())
    }

    /// The fourth argument.
    #[inline(always)]
    pub fn fourth<A: Access>(&self) -> u64 {
        A::load(self.regs, OFF_REGS_ARG3.load())
    }
}

/// Looks at a call that ends with `result`, from the tracepoint.
#[inline(always)]
pub fn on_exit<A: Access>(regs: u64, result: i64) {
    let number: u64 = A::load(regs, OFF_REGS_NUMBER.load());
    let Some(operation) = OPERATIONS.get(number as u32) else {
        return;
    };
    ended::<A>(*operation, regs, result, handover::is_unclaimed);
}

/// Looks at a call that is known to be `operation` and ends with `result`, from the exit of its
/// function.
#[inline(always)]
pub fn on_function_exit<A: Access>(operation: u8, regs: u64, result: i64) {
    ended::<A>(operation, regs, result, handover::claims);
}

/// `is_mine` says whether the program that asks is the one to look at a call of a tracked process.
#[inline(always)]
fn ended<A: Access>(operation: u8, regs: u64, result: i64, is_mine: impl FnOnce() -> bool) {
    if operation == Operation::None as u8 || result < 0 {
        return;
    }
    let arguments = Arguments { regs };
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if !tracked::is_tracked(tgid) {
        passing::notice::<A>(operation, &arguments, tgid);
        return;
    }
    if COMPAT_BY_CS.load() == 1 && A::load::<u64>(regs, OFF_REGS_CS.load()) != USER_CS {
        blind::notice_process(Operation::Compat, tgid);
        return;
    }
    if is_mine() {
        handle::<A>(operation, &arguments, result as u64, tgid);
    }
}

/// A call of another system call table has returned.
#[inline(always)]
pub fn compat_returned() {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    if tracked::is_tracked(tgid) {
        blind::notice_process(Operation::Compat, tgid);
    }
}

#[inline(always)]
fn handle<A: Access>(operation: u8, arguments: &Arguments, result: u64, tgid: u32) {
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
    const TAKE_DESCRIPTOR: u8 = Operation::TakeDescriptor as u8;

    let end = match operation {
        READ | READ_VECTOR | RECEIVE_FROM | RECEIVE_MESSAGE | RECEIVE_MESSAGES => End::Reader,
        WRITE | WRITE_VECTOR | SEND_TO | SEND_MESSAGE | SEND_MESSAGES => End::Writer,
        IO_URING => return blind::notice_process(Operation::IoUring, tgid),
        TAKE_DESCRIPTOR => return,
        _ => return blind::notice::<A>(operation, arguments, result),
    };
    let Some(key) = watched::<A>(arguments.first::<A>() as u32) else {
        return;
    };
    if result == 0 {
        if end as u8 == End::Reader as u8 && asked_for_bytes::<A>(operation, arguments) {
            emit::bare(emit::header(RecordKind::EndOfStream, end as u8, key, 0));
        }
        return;
    }
    let second = arguments.second::<A>();
    let source = match operation {
        READ | WRITE | SEND_TO => Source::buffer(second),
        RECEIVE_FROM => {
            if arguments.fourth::<A>() & MSG_PEEK != 0 {
                return;
            }
            Source::buffer(second)
        }
        READ_VECTOR | WRITE_VECTOR => Source::vector(second, arguments.third::<A>()),
        SEND_MESSAGE => Source::message(second),
        RECEIVE_MESSAGE => {
            if arguments.third::<A>() & MSG_PEEK != 0 {
                return;
            }
            Source::message(second)
        }
        SEND_MESSAGES => Source::messages(second, result),
        _ => {
            if arguments.fourth::<A>() & MSG_PEEK != 0 {
                return;
            }
            Source::messages(second, result)
        }
    };
    copy::moved(key, end, source, result);
}

/// The endpoint behind `fd` of the running process, if it is watched at all.
#[inline(always)]
pub fn watched<A: Access>(fd: u32) -> Option<EndpointKey> {
    let (key, _) = descriptor::endpoint(descriptor::file::<A>(A::current_task(), fd))?;
    // An ignored stream stays in the map, so that it is not taken for a new one.
    let watch = WATCHES.get_ptr(key)?;
    // SAFETY: an aligned word of a map entry.
    let counted = unsafe { (&raw const (*watch).counted).read_volatile() };
    (counted != 0).then_some(key)
}

/// A result of 0 is the end of the stream only if there was room for a byte.
#[inline(always)]
fn asked_for_bytes<A: Access>(operation: u8, arguments: &Arguments) -> bool {
    (operation != Operation::Read as u8 && operation != Operation::ReceiveFrom as u8)
        || arguments.third::<A>() != 0
}
