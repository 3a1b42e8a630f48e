//! Copying what a call moved: buffers, vectors and message headers, piece by piece.
//!
//! One small machine serves all calls. Each step does one thing: ships a piece of the current
//! buffer, or takes the next buffer from the vector, or the next message from the array of
//! messages. `bpf_loop` repeats it, so the verifier looks at a step once, however long a vector is.

use core::{
    ffi::c_void,
    intrinsics::{AtomicOrdering, atomic_xadd},
};

use aya_ebpf::helpers::{bpf_get_current_pid_tgid, generated::bpf_loop};
use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointWatch, NOT_JSON_BUDGET, PAYLOAD_CLASSES,
    PAYLOAD_MAX, RecordKind,
};

use crate::{
    emit,
    kernel::user,
    maps::{COPY, COUNTERS, WATCHES},
};

/// More steps than any call needs: 1,024 messages of 1,024 vectors.
const STEPS_MAX: u32 = 1 << 21;
/// `struct msghdr`: where the vector and its length are, as user space sees it (64 bit).
const MSG_IOV: u64 = 16;
const MSG_IOV_LEN: u64 = 24;
/// `struct mmsghdr`: the length behind the header, and the whole size.
const MMSG_LEN: u64 = 56;
const MMSG_SIZE: u64 = 64;

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Vector {
    base: u64,
    length: u64,
}

/// What a call's address argument points to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Buffer,
    /// An array of `struct iovec`.
    Vector,
    /// A `struct msghdr`.
    Message,
    /// An array of `struct mmsghdr`.
    Messages,
}

/// Where the bytes of a call are. Every field has a value in every shape: kernels before 6.3 refuse
/// programs that carry an unset one around.
#[derive(Clone, Copy)]
pub struct Source {
    shape: Shape,
    address: u64,
    /// Elements of a vector, or messages that were used.
    count: u64,
}

impl Source {
    /// One buffer.
    #[inline(always)]
    pub const fn buffer(address: u64) -> Self {
        Self::new(Shape::Buffer, address, 1)
    }

    /// A vector of so many elements.
    #[inline(always)]
    pub const fn vector(address: u64, count: u64) -> Self {
        Self::new(Shape::Vector, address, count)
    }

    /// A message header.
    #[inline(always)]
    pub const fn message(address: u64) -> Self {
        Self::new(Shape::Message, address, 1)
    }

    /// An array of message headers of which so many were used.
    #[inline(always)]
    pub const fn messages(address: u64, count: u64) -> Self {
        Self::new(Shape::Messages, address, count)
    }

    #[inline(always)]
    const fn new(shape: Shape, address: u64, count: u64) -> Self {
        Self {
            shape,
            address,
            count,
        }
    }
}

/// The machine's state. It lives in a map: the verifier does not follow values through one, so a
/// step looks the same to it whatever came before. One slot per CPU is enough because the kernel
/// runs tracepoint programs with preemption disabled.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy {
    key: EndpointKey,
    end: u64,
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
    /// 1 where the current call is the first that was counted after what was unread.
    first: u64,
    /// 1 where the pieces give way while user space is behind.
    gives_way: u64,
}

/// A run of bytes that is to be shipped.
#[derive(Clone, Copy)]
struct Extent {
    position: u64,
    bytes: u64,
}

/// Notes whether a stream whose first byte is at `address` begins like text.
#[inline(always)]
fn look_at_beginning(key: &EndpointKey, end: usize, address: u64) {
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return;
    };
    // SAFETY: aligned words of a map entry that stays allocated while the program runs.
    unsafe {
        if (&raw const (*counters).position[end & 1]).read_volatile() == 0
            && !matches!(
                user::<u8>(address),
                Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef)
            )
        {
            (&raw mut (*counters).not_json[end & 1]).write_volatile(1);
        }
    }
}

/// Accounts for `total` bytes that the running process moved at `end` of `key`, and ships them as
/// far as the watch asks for it.
#[inline(always)]
pub fn moved(key: EndpointKey, end: End, source: Source, total: u64) {
    let Source {
        shape,
        address,
        count,
    } = source;
    let mut extent = Extent {
        position: 0,
        bytes: 0,
    };
    if shape == Shape::Buffer {
        look_at_beginning(&key, end as usize, address);
    }
    if shape != Shape::Messages {
        extent = account(&key, end as usize, total);
        note_first_write(&key, end as usize, extent.position, total, false);
        if extent.bytes == 0 {
            return;
        }
    }
    let gives_way = end == End::Writer && is_compared(&key);
    if shape == Shape::Buffer && extent.bytes <= u64::from(PAYLOAD_MAX) {
        if gives_way && emit::is_behind() {
            return;
        }
        ship(
            &key,
            end as u8,
            extent.position,
            address,
            extent.bytes as u32,
        );
        return;
    }
    let Some(copy) = COPY.get_ptr_mut(0) else {
        return;
    };
    let mut state = Copy {
        key,
        end: end as u64,
        position: extent.position,
        remaining: extent.bytes,
        buffer: 0,
        buffer_left: 0,
        vector: 0,
        vectors_left: 0,
        message: 0,
        messages_left: 0,
        first: 0,
        gives_way: u64::from(gives_way),
    };
    match shape {
        Shape::Buffer => {
            state.buffer = address;
            state.buffer_left = extent.bytes;
        }
        Shape::Vector => {
            state.vector = address;
            state.vectors_left = count;
        }
        Shape::Message => {
            state.vector = user(address + MSG_IOV).unwrap_or(0);
            state.vectors_left = user(address + MSG_IOV_LEN).unwrap_or(0);
        }
        Shape::Messages => {
            state.message = address;
            state.messages_left = count;
        }
    }
    // SAFETY: this CPU's slot, which nobody else uses meanwhile.
    unsafe { copy.write(state) };
    // SAFETY: `step` has the signature of a loop callback and asks for no context.
    unsafe {
        bpf_loop(STEPS_MAX, step as *mut c_void, core::ptr::null_mut(), 0);
    }
}

/// Advances the position of `end` by `total` bytes that cannot be shipped.
#[inline(always)]
pub fn moved_unseen(key: EndpointKey, end: End, total: u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(key) {
        advance(counters, end as usize, total);
        lose(counters, end as usize, total);
    }
}

/// Advances the stream's position by `total`, and gives what the watch wants of it.
#[inline(always)]
fn account(key: &EndpointKey, end: usize, total: u64) -> Extent {
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return Extent {
            position: 0,
            bytes: 0,
        };
    };
    let position = advance(counters, end, total);
    let mut limit = WATCHES.get_ptr(key).map_or(0, |watch| limit(watch, end));
    // SAFETY: as in `advance`.
    let plain = unsafe { (&raw const (*counters).not_json[end & 1]).read_volatile() } != 0;
    if plain && limit != u64::MAX && limit > NOT_JSON_BUDGET {
        limit = NOT_JSON_BUDGET;
    }
    let wanted = limit.saturating_sub(position);
    Extent {
        position,
        bytes: if total < wanted { total } else { wanted },
    }
}

/// Notes how long the first write is that is counted after what was unread, which may be in that
/// already: see [`EndpointCounters::first_write`]. `again` tells that the same call wrote before. Gives
/// whether this is that call.
#[inline(always)]
fn note_first_write(key: &EndpointKey, end: usize, position: u64, total: u64, again: bool) -> bool {
    if end != End::Writer as usize || position == 0 {
        return false;
    }
    let Some(counters) = COUNTERS.get_ptr_mut(key) else {
        return false;
    };
    // SAFETY: as in `advance`.
    unsafe {
        let unread = (&raw const (*counters).unread).read_volatile();
        if position != unread && !again {
            return false;
        }
        let before = (&raw const (*counters).first_write).read_volatile();
        (&raw mut (*counters).first_write).write_volatile(before + total);
    }
    true
}

/// Does one thing. Gives 1 when there is nothing left to do.
unsafe extern "C" fn step(_index: u32, _context: *mut c_void) -> i64 {
    let Some(copy) = COPY.get_ptr_mut(0) else {
        return 1;
    };
    // SAFETY: this CPU's slot, which nobody else uses meanwhile.
    let copy = unsafe { &mut *copy };
    if copy.remaining > 0 {
        if copy.buffer_left > 0 {
            let length = if copy.buffer_left < u64::from(PAYLOAD_MAX) {
                copy.buffer_left as u32
            } else {
                PAYLOAD_MAX
            };
            // A single call may move more than the ring holds.
            if copy.gives_way == 0 || !emit::is_behind() {
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
            && let Some(vector) = user::<Vector>(copy.vector)
        {
            copy.buffer = vector.base;
            copy.buffer_left = if vector.length < copy.remaining {
                vector.length
            } else {
                copy.remaining
            };
            copy.vector += size_of::<Vector>() as u64;
            copy.vectors_left -= 1;
            return 0;
        }
        // The vector is not readable, or shorter than the call's result.
        lost(&copy.key, copy.end as usize, copy.remaining);
        copy.remaining = 0;
    }
    if copy.messages_left == 0 {
        return 1;
    }
    let length: u32 = user(copy.message + MMSG_LEN).unwrap_or(0);
    if length == 0 && copy.end == End::Reader as u64 {
        // Among messages the end of the stream is one of no bytes.
        let end = emit::header(RecordKind::EndOfStream, copy.end as u8, copy.key, 0);
        emit::bare(end);
    }
    let extent = account(&copy.key, copy.end as usize, u64::from(length));
    let (end, total) = (copy.end as usize, u64::from(length));
    copy.first = note_first_write(&copy.key, end, extent.position, total, copy.first != 0) as u64;
    copy.position = extent.position;
    copy.remaining = extent.bytes;
    copy.vector = user(copy.message + MSG_IOV).unwrap_or(0);
    copy.vectors_left = user(copy.message + MSG_IOV_LEN).unwrap_or(0);
    copy.buffer_left = 0;
    copy.message += MMSG_SIZE;
    copy.messages_left -= 1;
    0
}

/// Ships one piece.
#[inline(always)]
fn ship(key: &EndpointKey, end: u8, position: u64, address: u64, length: u32) {
    const C: [u32; 5] = PAYLOAD_CLASSES;
    let header = emit::header(RecordKind::Data, end, *key, position);
    let shipped = if length <= C[0] {
        emit::user_bytes::<{ C[0] as usize }>(header, address, length)
    } else if length <= C[1] {
        emit::user_bytes::<{ C[1] as usize }>(header, address, length)
    } else if length <= C[2] {
        emit::user_bytes::<{ C[2] as usize }>(header, address, length)
    } else if length <= C[3] {
        emit::user_bytes::<{ C[3] as usize }>(header, address, length)
    } else {
        emit::user_bytes::<{ C[4] as usize }>(header, address, length)
    };
    if !shipped {
        lost(key, usize::from(end), u64::from(length));
    }
}

#[inline(always)]
fn lost(key: &EndpointKey, end: usize, bytes: u64) {
    if let Some(counters) = COUNTERS.get_ptr_mut(key) {
        lose(counters, end, bytes);
    }
}

/// Whether what is written is only shipped to be compared.
#[inline(always)]
fn is_compared(key: &EndpointKey) -> bool {
    WATCHES.get_ptr(key).is_some_and(|watch| {
        // SAFETY: as in `limit`.
        unsafe { (&raw const (*watch).compare_only).read_volatile() != 0 }
    })
}

#[inline(always)]
fn limit(watch: *const EndpointWatch, end: usize) -> u64 {
    // SAFETY: an aligned word of a map entry; user space replaces entries, so an old value may be read.
    unsafe { (&raw const (*watch).ship_limit[end & 1]).read_volatile() }
}

/// Advances a position and gives where it was.
#[inline(always)]
fn advance(counters: *mut EndpointCounters, end: usize, total: u64) -> u64 {
    // SAFETY: map memory that stays allocated while the program runs; an aligned word is stored.
    unsafe {
        let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
        (&raw mut (*counters).last_tgid[end & 1]).write_volatile(tgid);
        add(&raw mut (*counters).position[end & 1], total)
    }
}

#[inline(always)]
fn lose(counters: *mut EndpointCounters, end: usize, bytes: u64) {
    // SAFETY: as in `advance`.
    unsafe {
        add(&raw mut (*counters).lost[end & 1], bytes);
    }
}

/// Adds atomically and gives the value before. The target has the instruction (since 5.12) but no
/// compare-and-swap, so core's atomics do not offer it there. A relaxed ordering would be enough, but
/// with it LLVM 22 emits the older instruction that gives nothing back.
#[inline(always)]
unsafe fn add(word: *mut u64, amount: u64) -> u64 {
    // SAFETY: the caller gives an aligned word that outlives the call.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::SeqCst }>(word, amount) }
}
