//! Copies what a call moved: buffers, vectors and message headers, piece by piece.
//!
//! One small state machine serves all calls. Each step does one thing: it ships a piece of the
//! current buffer, takes the next buffer from the vector, or takes the next message from the array
//! of messages. `bpf_loop` repeats the step, so the verifier checks it once, however long a vector
//! is.
//!
//! Cost to other processes: none. Only calls on a watched stream get this far; a watched process
//! pays for the copy while its call returns.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::{helpers::generated::bpf_loop, macros::map, maps::PerCpuArray};
use mcpinspect_common::{End, EndpointKey, PAYLOAD_CLASSES, PAYLOAD_MAX, RecordKind};

use crate::{
    emit,
    kernel::user,
    ledger::{self, Extent},
    user_buffers::{self, IoVec, MMSG_SIZE, Shape, UserBuffers},
    watch,
};

/// More steps than any call needs: 1,024 messages of 1,024 vector elements.
const STEPS_MAX: u32 = 1 << 21;

/// The current call, and the state of the machine. They live in a map because the verifier does not track values
/// through one: the code that follows looks the same to it whatever came before, so it is checked once and not for
/// every kind of call. One slot per CPU is enough, because the loader chooses a hook whose programs the kernel does
/// not preempt (`capture::preemption`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CopyState {
    key: EndpointKey,
    end: u64,
    /// Bytes that the call moved.
    total: u64,
    /// A [`Shape`].
    shape: u64,
    address: u64,
    count: u64,
    /// Stream position of the next byte.
    position: u64,
    /// Bytes of the current message that are still to be shipped.
    remaining: u64,
    /// The current buffer.
    buffer: u64,
    buffer_left: u64,
    /// The rest of the current vector.
    vector: u64,
    vectors_left: u64,
    /// The rest of the array of messages.
    message: u64,
    messages_left: u64,
    /// 1 if the current call is the first one counted after the unread bytes.
    first: u64,
    /// 1 if pieces are dropped while user space is behind.
    droppable: u64,
    /// 1 if the call took the bytes and left its buffers as they were.
    discarded: u64,
}

/// The state of the current call.
#[map]
static COPY: PerCpuArray<CopyState> = PerCpuArray::with_max_entries(1, 0);

/// Accounts for `total` bytes that the running process moved at `end` of `key`, and ships what the
/// watch asks for.
#[inline(always)]
pub fn transferred(key: EndpointKey, end: End, buffers: UserBuffers, total: u64) {
    run(key, end, buffers, total, false);
}

/// Accounts for `total` bytes that the running process took from `key` without having them copied, and
/// tells of them.
#[inline(always)]
pub fn discarded(key: EndpointKey, buffers: UserBuffers, total: u64) {
    run(key, End::Reader, buffers, total, true);
}

#[inline(always)]
fn run(key: EndpointKey, end: End, buffers: UserBuffers, total: u64, discarded: bool) {
    let Some(copy) = COPY.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    unsafe {
        (&raw mut (*copy).key).write(key);
        (&raw mut (*copy).end).write(end as u64);
        (&raw mut (*copy).total).write(total);
        (&raw mut (*copy).shape).write(buffers.shape as u64);
        (&raw mut (*copy).address).write(buffers.address);
        (&raw mut (*copy).count).write(buffers.count);
        (&raw mut (*copy).discarded).write(u64::from(discarded));
    }
    // SAFETY: `begin` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(1, begin as *mut c_void, core::ptr::null_mut(), 0);
    }
}

/// Accounts for the current call, and ships what is wanted of it.
unsafe extern "C" fn begin(_index: u32, _context: *mut c_void) -> i64 {
    const BUFFER: u64 = Shape::Buffer as u64;
    const VECTOR: u64 = Shape::Vector as u64;
    const MESSAGE: u64 = Shape::Message as u64;
    const MESSAGES: u64 = Shape::Messages as u64;
    let Some(copy) = COPY.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    let copy = unsafe { &mut *copy };
    let (key, end) = (&copy.key, copy.end as usize & 1);
    let mut extent = Extent {
        position: 0,
        bytes: 0,
    };
    if copy.shape == BUFFER && copy.discarded == 0 {
        ledger::note_first_byte(key, end, copy.address);
    }
    if copy.shape != MESSAGES {
        extent = ledger::account(key, end, copy.total);
        ledger::note_first_write(key, end, extent.position, copy.total, false);
        if extent.bytes == 0 {
            return 1;
        }
    }
    let droppable = end == End::Writer as usize && watch::is_compare_only(key);
    if copy.discarded != 0 && copy.shape != MESSAGES {
        discard(copy, extent.position, extent.bytes);
        return 1;
    }
    if copy.shape == BUFFER && extent.bytes <= u64::from(PAYLOAD_MAX) {
        if !droppable || !emit::reader_is_behind() {
            let length = extent.bytes as u32;
            ship(key, end as u8, extent.position, copy.address, length);
        }
        return 1;
    }
    copy.position = extent.position;
    copy.remaining = extent.bytes;
    copy.buffer_left = 0;
    copy.vectors_left = 0;
    copy.messages_left = 0;
    copy.first = 0;
    copy.droppable = u64::from(droppable);
    match copy.shape {
        BUFFER => {
            copy.buffer = copy.address;
            copy.buffer_left = extent.bytes;
        }
        VECTOR => {
            copy.vector = copy.address;
            copy.vectors_left = copy.count;
        }
        MESSAGE => {
            copy.vector = user_buffers::message_vector(copy.address);
            copy.vectors_left = user_buffers::message_vector_length(copy.address);
        }
        _ => {
            copy.message = copy.address;
            copy.messages_left = copy.count;
        }
    }
    // SAFETY: `step` has the signature of a loop callback and uses no context.
    unsafe {
        bpf_loop(STEPS_MAX, step as *mut c_void, core::ptr::null_mut(), 0);
    }
    1
}

/// Does one thing. Returns 1 if nothing is left to do.
unsafe extern "C" fn step(_index: u32, _context: *mut c_void) -> i64 {
    let Some(copy) = COPY.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's slot; no other program uses it meanwhile.
    let copy = unsafe { &mut *copy };
    if copy.remaining > 0 {
        if copy.discarded != 0 {
            discard(copy, copy.position, copy.remaining);
            copy.remaining = 0;
            return 0;
        }
        if copy.buffer_left > 0 {
            let length = if copy.buffer_left < u64::from(PAYLOAD_MAX) {
                copy.buffer_left as u32
            } else {
                PAYLOAD_MAX
            };
            // Checked again for each piece: a single call may move more than the ring holds.
            if copy.droppable == 0 || !emit::reader_is_behind() {
                ship(
                    &copy.key,
                    copy.end as u8,
                    copy.position,
                    copy.buffer,
                    length,
                );
            }
            let length = u64::from(length);
            copy.position += length;
            copy.remaining -= length;
            copy.buffer += length;
            copy.buffer_left -= length;
            return 0;
        }
        if copy.vectors_left > 0
            && let Some(vector) = user::<IoVec>(copy.vector)
        {
            copy.buffer = vector.base;
            copy.buffer_left = if vector.length < copy.remaining {
                vector.length
            } else {
                copy.remaining
            };
            copy.vector += size_of::<IoVec>() as u64;
            copy.vectors_left -= 1;
            return 0;
        }
        // The vector is not readable, or shorter than the call's result.
        ledger::lost(&copy.key, copy.end as usize, copy.remaining);
        copy.remaining = 0;
    }
    if copy.messages_left == 0 {
        return 1;
    }
    let length = user_buffers::message_length(copy.message);
    if length == 0 && copy.end == End::Reader as u64 {
        // In an array of messages, an empty one marks the end of the stream.
        let end = emit::header(RecordKind::EndOfStream, copy.end as u8, copy.key, 0);
        emit::header_only(end);
    }
    let extent = ledger::account(&copy.key, copy.end as usize, u64::from(length));
    let (end, total) = (copy.end as usize, u64::from(length));
    copy.first =
        ledger::note_first_write(&copy.key, end, extent.position, total, copy.first != 0) as u64;
    copy.position = extent.position;
    copy.remaining = extent.bytes;
    copy.vector = user_buffers::message_vector(copy.message);
    copy.vectors_left = user_buffers::message_vector_length(copy.message);
    copy.buffer_left = 0;
    copy.message += MMSG_SIZE;
    copy.messages_left -= 1;
    0
}

/// Tells of bytes that the call did not copy.
#[inline(always)]
fn discard(copy: &CopyState, position: u64, length: u64) {
    let end = copy.end as u8;
    emit::uncopied(
        emit::header(RecordKind::Data, end, copy.key, position),
        length,
    );
    ledger::lost(&copy.key, usize::from(end), length);
}

/// Ships one piece.
#[inline(always)]
pub fn ship(key: &EndpointKey, end: u8, position: u64, address: u64, length: u32) {
    const C: [u32; 6] = PAYLOAD_CLASSES;
    let header = emit::header(RecordKind::Data, end, *key, position);
    let shipped = if length <= C[0] {
        emit::user_bytes::<{ C[0] as usize }>(header, address, length)
    } else if length <= C[1] {
        emit::user_bytes::<{ C[1] as usize }>(header, address, length)
    } else if length <= C[2] {
        emit::user_bytes::<{ C[2] as usize }>(header, address, length)
    } else if length <= C[3] {
        emit::user_bytes::<{ C[3] as usize }>(header, address, length)
    } else if length <= C[4] {
        emit::user_bytes::<{ C[4] as usize }>(header, address, length)
    } else {
        emit::user_bytes::<{ C[5] as usize }>(header, address, length)
    };
    if !shipped {
        ledger::lost(key, usize::from(end), u64::from(length));
    }
}
