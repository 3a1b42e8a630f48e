//! Descriptor passing: a process that receives a descriptor from another one becomes tracked.
//!
//! The descriptors may be in any of a message's control messages, after the sender's credentials for
//! example, and in any of the messages that `recvmmsg` received.
//!
//! Cost to other processes: `recvmsg` and `recvmmsg` read the message's control header (16 bytes) from
//! user memory, and its contents (16 bytes) if there are any. If more contents follow, each costs
//! another read. A `recvmmsg` that received several messages goes from the descriptor to the socket
//! (about ten reads), and only on a Unix socket examines all of them. `pidfd_getfd` sets one word. All other calls: two comparisons.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_loop;
use mcpinspect_common::Operation;

use crate::{
    arguments::Arguments,
    descriptor, endpoint,
    kernel::{Access, user},
    tracked,
    user_buffers::MMSG_SIZE,
};

/// `struct msghdr`: its control data and their length, as user space sees them (64 bit).
const MSG_CONTROL: u64 = 32;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
/// Steps of a walk: messages and control messages. The kernel never adds more than a handful of
/// control messages to one message. If they are not enough, descriptors are assumed.
const STEPS_MAX: u32 = 4096;

/// `struct cmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ControlHeader {
    length: u64,
    level: i32,
    kind: i32,
}

impl ControlHeader {
    const SIZE: u64 = size_of::<Self>() as u64;

    /// Whether descriptors follow it.
    #[inline(always)]
    const fn has_rights(&self) -> bool {
        self.level == SOL_SOCKET && self.kind == SCM_RIGHTS
    }
}

/// A walk over the control messages of one or more messages.
#[repr(C)]
struct Walk {
    /// The next control message, and the bytes from there on.
    control: u64,
    left: u64,
    /// The current message, and how many follow it.
    message: u64,
    messages_left: u64,
    /// 1 once descriptors were found.
    found: u64,
}

impl Walk {
    /// Continues after a control message of `length` bytes.
    #[inline(always)]
    fn skip(&mut self, length: u64) {
        let size = (length + 7) & !7;
        if size < ControlHeader::SIZE || size > self.left {
            self.left = 0;
        } else {
            self.control += size;
            self.left -= size;
        }
    }
}

/// Marks process `tgid` as tracked if the call, which returned `result`, may have given it another
/// process's descriptor.
#[inline(always)]
pub fn mark_receiver<A: Access>(operation: u8, arguments: &Arguments, result: u64, tgid: u32) {
    if operation == Operation::TakeDescriptor as u8 {
        return tracked::mark(tgid);
    }
    let several = operation == Operation::ReceiveMessages as u8;
    if operation != Operation::ReceiveMessage as u8 && !several {
        return;
    }
    let message = arguments.second::<A>();
    let Some([control, length]) = user::<[u64; 2]>(message + MSG_CONTROL) else {
        return;
    };
    let mut walk = Walk {
        control,
        left: length,
        message,
        messages_left: 0,
        found: 0,
    };
    if length >= ControlHeader::SIZE {
        let Some(header) = user::<ControlHeader>(control) else {
            return;
        };
        if header.has_rights() {
            return tracked::mark(tgid);
        }
        walk.skip(header.length);
    }
    if several && result > 1 {
        let file = descriptor::file::<A>(A::current_task(), arguments.first::<A>() as u32);
        if endpoint::is_unix_socket(file) {
            walk.messages_left = result - 1;
        }
    }
    if walk.left < ControlHeader::SIZE && walk.messages_left == 0 {
        return;
    }
    // SAFETY: `step` has the signature of a loop callback, and `walk` outlives the loop.
    let steps = unsafe { bpf_loop(STEPS_MAX, step as *mut c_void, (&raw mut walk).cast(), 0) };
    if walk.found != 0 || steps >= i64::from(STEPS_MAX) {
        tracked::mark(tgid);
    }
}

/// Examines one control message, or takes the next message. Returns 1 once the answer is clear.
unsafe extern "C" fn step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `mark_receiver` passes to the loop.
    let walk = unsafe { &mut *context.cast::<Walk>() };
    if walk.left < ControlHeader::SIZE {
        if walk.messages_left == 0 {
            return 1;
        }
        walk.messages_left -= 1;
        walk.message += MMSG_SIZE;
        let Some([control, length]) = user::<[u64; 2]>(walk.message + MSG_CONTROL) else {
            return 1;
        };
        walk.control = control;
        walk.left = length;
        return 0;
    }
    let Some(header) = user::<ControlHeader>(walk.control) else {
        walk.left = 0;
        return 0;
    };
    if header.has_rights() {
        walk.found = 1;
        return 1;
    }
    walk.skip(header.length);
    0
}
