//! Descriptor passing: a process that receives a descriptor from another one becomes tracked.
//!
//! Cost to other processes: `recvmsg` and `recvmmsg` of an untracked process read the message's
//! control header (16 bytes) from user memory, and its contents (16 bytes) where there are any.
//! `pidfd_getfd` sets one word. All other calls: two comparisons.

use mcpinspect_common::Operation;

use crate::{
    arguments::Arguments,
    kernel::{Access, user},
    tracked,
};

/// `struct msghdr`: its control data and their length, as user space sees them (64 bit).
const MSG_CONTROL: u64 = 32;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// `struct cmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct ControlHeader {
    length: u64,
    level: i32,
    kind: i32,
}

/// Marks process `tgid` as tracked if the call may have given it another process's descriptor.
#[inline(always)]
pub fn mark_receiver<A: Access>(operation: u8, arguments: &Arguments, tgid: u32) {
    if operation == Operation::TakeDescriptor as u8 {
        tracked::mark(tgid);
    } else if operation == Operation::ReceiveMessage as u8
        || operation == Operation::ReceiveMessages as u8
    {
        let message = arguments.second::<A>();
        let Some([control, length]) = user::<[u64; 2]>(message + MSG_CONTROL) else {
            return;
        };
        if (length as usize) < size_of::<ControlHeader>() {
            return;
        }
        if let Some(ControlHeader {
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
            ..
        }) = user::<ControlHeader>(control)
        {
            tracked::mark(tgid);
        }
    }
}
