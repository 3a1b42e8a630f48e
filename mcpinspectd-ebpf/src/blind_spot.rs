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
    descriptor, emit,
    kernel::{Access, probe},
    ledger,
    maps::BLIND_REPORTED,
    offsets::OFF_FILE_MODE,
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
