//! Transfers that cannot be copied: the probes count and report them.
//!
//! `splice` and its relatives move bytes inside the kernel, and `io_uring` and 32-bit programs make
//! calls that the probes do not decode. If the call names its stream, the ledger continues and
//! only the payload is missing; otherwise the process is reported.
//!
//! Cost to other processes: none. Only tracked processes get this far.

use mcpinspect_common::{End, EndpointKey, Operation, RecordKind};

use crate::{
    arguments::Arguments,
    copy, descriptor, emit,
    kernel::{Access, probe, user},
    ledger,
    maps::BLIND_REPORTED,
    offsets::OFF_FILE_MODE,
    user_buffers::UserBuffers,
    watch::{watched, watched_connection},
};

const FMODE_WRITE: u32 = 2;

/// Accounts for `moved` bytes of a `splice`, `tee`, `vmsplice` or `sendfile`, and reports them.
#[inline(always)]
pub fn report_transfer<A: Access>(operation: u8, arguments: &Arguments, moved: u64) {
    const SPLICE: u8 = Operation::Splice as u8;
    const TEE: u8 = Operation::Tee as u8;
    const VM_SPLICE: u8 = Operation::VmSplice as u8;
    const SEND_FILE: u8 = Operation::SendFile as u8;

    if moved == 0 {
        return;
    }
    let first = arguments.first::<A>() as u32;
    let (from, to) = match operation {
        SPLICE => (Some(first), Some(arguments.third::<A>() as u32)),
        TEE => (Some(first), Some(arguments.second::<A>() as u32)),
        SEND_FILE => (None, Some(first)),
        VM_SPLICE => {
            let file = descriptor::file::<A>(A::current_task(), first);
            if probe::<u32>(file, OFF_FILE_MODE.load()) & FMODE_WRITE != 0 {
                (None, Some(first))
            } else {
                (Some(first), None)
            }
        }
        _ => return,
    };
    if let Some(key) = from.and_then(counted::<A>) {
        // `tee` leaves what it duplicates in the stream, for another call to take out.
        let taken = if operation == TEE { 0 } else { moved };
        report_at(operation, key, End::Reader, taken);
    }
    if let Some(key) = to.and_then(counted::<A>) {
        report_at(operation, key, End::Writer, moved);
    }
}

/// The stream or connection behind a descriptor, if its bytes are counted.
#[inline(always)]
fn counted<A: Access>(fd: u32) -> Option<EndpointKey> {
    let file = descriptor::file::<A>(A::current_task(), fd);
    watched(file).or_else(|| watched_connection(file))
}

/// Reports an urgent byte that was written to `key`. It is not counted: a reader has it only if it asks
/// for it.
#[inline(always)]
pub fn report_urgent(key: EndpointKey) {
    report_at(Operation::Urgent as u8, key, End::Writer, 0);
}

/// Accounts for what a `getsockopt` took from its connection without copying it, if it did.
///
/// `struct tcp_zerocopy_receive`: bytes that were mapped, and behind them, since 5.11, the bytes that
/// did not fill a page and were copied.
#[inline(always)]
pub fn report_mapped<A: Access>(arguments: &Arguments) {
    const IPPROTO_TCP: u32 = 6;
    const TCP_ZEROCOPY_RECEIVE: u32 = 35;
    const LENGTH: u64 = 8;
    const COPY_LENGTH: u64 = 32;

    if arguments.second::<A>() as u32 != IPPROTO_TCP
        || arguments.third::<A>() as u32 != TCP_ZEROCOPY_RECEIVE
    {
        return;
    }
    let value = arguments.fourth::<A>();
    let mapped = user::<u32>(value + LENGTH).unwrap_or(0);
    let size = user::<u32>(arguments.fifth::<A>()).unwrap_or(0);
    let copied = if u64::from(size) >= COPY_LENGTH + 4 {
        user::<i32>(value + COPY_LENGTH).unwrap_or(0)
    } else {
        0
    };
    let taken = u64::from(mapped) + if copied > 0 { copied as u64 } else { 0 };
    let file = descriptor::file::<A>(A::current_task(), arguments.first::<A>() as u32);
    if taken > 0
        && let Some(key) = watched_connection(file)
    {
        copy::discarded(key, UserBuffers::single(0), taken);
    }
}

#[inline(always)]
fn report_at(operation: u8, key: EndpointKey, end: End, moved: u64) {
    ledger::account_uncopied(key, end, moved);
    let mut header = emit::header(RecordKind::BlindSpot, end as u8, key, moved);
    header.aux = u64::from(operation);
    emit::header_only(header);
}

/// Reports, once per process, a mechanism that does not name the stream it concerns.
#[inline(always)]
pub fn report_process(operation: Operation, tgid: u32) {
    let id = u64::from(tgid) << 8 | operation as u64;
    // SAFETY: only the entry's presence is checked.
    if unsafe { BLIND_REPORTED.get(id) }.is_some() {
        return;
    }
    if BLIND_REPORTED.insert(id, 1, 0).is_err() {
        return;
    }
    let mut header = emit::header(RecordKind::BlindSpot, 0, EndpointKey::default(), 0);
    header.aux = operation as u64;
    emit::header_only(header);
}
