//! Ways to move bytes that cannot be copied: noticed, counted and reported.

use mcpinspect_common::{End, EndpointKey, Operation, RecordKind};

use crate::{
    copy, descriptor, emit,
    kernel::{Access, probe},
    maps::BLIND_REPORTED,
    offsets::OFF_FILE_MODE,
    syscall::{Arguments, watched},
};

const FMODE_WRITE: u32 = 2;

/// `splice`, `tee`, `vmsplice` and `sendfile`: the ledger goes on, the payload is missing.
#[inline(always)]
pub fn notice<A: Access>(operation: u8, arguments: &Arguments, moved: u64) {
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
    if let Some(key) = from.and_then(watched::<A>) {
        // What `tee` duplicates stays in the stream, to be taken out by another call.
        let taken = if operation == TEE { 0 } else { moved };
        report(operation, key, End::Reader, taken);
    }
    if let Some(key) = to.and_then(watched::<A>) {
        report(operation, key, End::Writer, moved);
    }
}

#[inline(always)]
fn report(operation: u8, key: EndpointKey, end: End, moved: u64) {
    copy::moved_unseen(key, end, moved);
    let mut header = emit::header(RecordKind::BlindSpot, end as u8, key, moved);
    header.aux = u64::from(operation);
    emit::bare(header);
}

/// A mechanism that does not tell which stream it concerns: reported once a process.
#[inline(always)]
pub fn notice_process(operation: Operation, tgid: u32) {
    let id = u64::from(tgid) << 8 | operation as u64;
    // SAFETY: only the presence of the entry is looked at.
    if unsafe { BLIND_REPORTED.get(id) }.is_some() {
        return;
    }
    if BLIND_REPORTED.insert(id, 1, 0).is_err() {
        return;
    }
    let mut header = emit::header(RecordKind::BlindSpot, 0, EndpointKey::default(), 0);
    header.aux = operation as u64;
    emit::bare(header);
}
