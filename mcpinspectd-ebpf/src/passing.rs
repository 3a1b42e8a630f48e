//! Descriptors that arrive from elsewhere: an untracked process becomes tracked.

use mcpinspect_common::Operation;

use crate::{
    kernel::{Access, user},
    syscall::Arguments,
    tracked,
};

/// `struct msghdr`: control data and its length, as user space sees it (64 bit).
const MSG_CONTROL: u64 = 32;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// `struct cmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Control {
    length: u64,
    level: i32,
    kind: i32,
}

/// Marks the process if the call may have brought it somebody else's descriptor.
#[inline(always)]
pub fn notice<A: Access>(operation: u8, arguments: &Arguments, tgid: u32) {
    if operation == Operation::TakeDescriptor as u8 {
        tracked::mark(tgid);
    } else if operation == Operation::ReceiveMessage as u8
        || operation == Operation::ReceiveMessages as u8
    {
        let message = arguments.second::<A>();
        let Some([control, length]) = user::<[u64; 2]>(message + MSG_CONTROL) else {
            return;
        };
        if (length as usize) < size_of::<Control>() {
            return;
        }
        if let Some(Control {
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
            ..
        }) = user::<Control>(control)
        {
            tracked::mark(tgid);
        }
    }
}
