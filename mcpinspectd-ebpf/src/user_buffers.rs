//! Where a call's bytes are in the memory of the process that made it.
//!
//! Cost to other processes: none. Only calls on a watched stream get this far.

use crate::kernel::user;

/// `struct msghdr`: its vector and the vector's length, as user space sees them (64 bit).
const MSG_IOV: u64 = 16;
const MSG_IOV_LEN: u64 = 24;
/// `struct mmsghdr`: the number of bytes received or sent, and the size of the whole structure.
const MMSG_LEN: u64 = 56;
pub const MMSG_SIZE: u64 = 64;

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IoVec {
    pub base: u64,
    pub length: u64,
}

/// What a call's address argument points to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Buffer,
    /// An array of `struct iovec`.
    Vector,
    /// A `struct msghdr`.
    Message,
    /// An array of `struct mmsghdr`.
    Messages,
}

/// The buffers of one call. Every field has a value in every shape: kernels before 6.3 refuse
/// programs that carry an uninitialised one around.
#[derive(Clone, Copy)]
pub struct UserBuffers {
    pub shape: Shape,
    pub address: u64,
    /// Elements of a vector, or messages that the call used.
    pub count: u64,
}

impl UserBuffers {
    /// One buffer.
    #[inline(always)]
    pub const fn single(address: u64) -> Self {
        Self::new(Shape::Buffer, address, 1)
    }

    /// A vector of `count` elements.
    #[inline(always)]
    pub const fn vector(address: u64, count: u64) -> Self {
        Self::new(Shape::Vector, address, count)
    }

    /// A message header.
    #[inline(always)]
    pub const fn message(address: u64) -> Self {
        Self::new(Shape::Message, address, 1)
    }

    /// An array of message headers, of which the call used `count`.
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

/// Address of the vector of the message header at `address`; 0 if it is not readable.
#[inline(always)]
pub fn message_vector(address: u64) -> u64 {
    user(address + MSG_IOV).unwrap_or(0)
}

/// Elements of the vector of the message header at `address`; 0 if it is not readable.
#[inline(always)]
pub fn message_vector_length(address: u64) -> u64 {
    user(address + MSG_IOV_LEN).unwrap_or(0)
}

/// Bytes that the call moved with the `struct mmsghdr` at `address`; 0 if it is not readable.
#[inline(always)]
pub fn message_length(address: u64) -> u32 {
    user(address + MMSG_LEN).unwrap_or(0)
}
