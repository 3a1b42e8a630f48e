//! What a system call does with a stream.
//!
//! Numbers differ between architectures, so user space fills a table (number to operation) and
//! the probes know operations only.

/// A system call's effect, and with it where its arguments name the descriptor and the bytes.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Of no interest.
    None = 0,
    /// `read(fd, buf, …)`.
    Read = 1,
    /// `write(fd, buf, …)`.
    Write = 2,
    /// `readv(fd, iov, iovcnt)` and `preadv2`.
    ReadVector = 3,
    /// `writev(fd, iov, iovcnt)` and `pwritev2`.
    WriteVector = 4,
    /// `recvfrom(fd, buf, len, flags, …)`.
    ReceiveFrom = 5,
    /// `sendto(fd, buf, len, …)`.
    SendTo = 6,
    /// `recvmsg(fd, msg, flags)`.
    ReceiveMessage = 7,
    /// `sendmsg(fd, msg, flags)`.
    SendMessage = 8,
    /// `recvmmsg(fd, msgvec, vlen, flags, …)`.
    ReceiveMessages = 9,
    /// `sendmmsg(fd, msgvec, vlen, flags)`.
    SendMessages = 10,
    /// `splice(fd_in, off_in, fd_out, off_out, len, flags)`: moves bytes without a copy in user space.
    Splice = 11,
    /// `tee(fd_in, fd_out, len, flags)`: duplicates without taking out.
    Tee = 12,
    /// `vmsplice(fd, iov, nr, flags)`: maps user pages into a pipe, or copies a pipe out.
    VmSplice = 13,
    /// `sendfile(out_fd, in_fd, …)`.
    SendFile = 14,
    /// `io_uring_enter(ring, …)`: carries any number of other operations.
    IoUring = 15,
    /// `pidfd_getfd(pidfd, targetfd, …)`: takes over another process's descriptor.
    TakeDescriptor = 16,
    /// A call of a 32-bit program, which this table does not describe. Never in the table: the
    /// probes report it.
    Compat = 17,
}

impl Operation {
    /// The operation that `value` encodes; [`Operation::None`] for an unknown one.
    pub const fn from_u8(value: u8) -> Self {
        match value {
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::ReadVector,
            4 => Self::WriteVector,
            5 => Self::ReceiveFrom,
            6 => Self::SendTo,
            7 => Self::ReceiveMessage,
            8 => Self::SendMessage,
            9 => Self::ReceiveMessages,
            10 => Self::SendMessages,
            11 => Self::Splice,
            12 => Self::Tee,
            13 => Self::VmSplice,
            14 => Self::SendFile,
            15 => Self::IoUring,
            16 => Self::TakeDescriptor,
            17 => Self::Compat,
            _ => Self::None,
        }
    }

    /// The word used on the outside.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::ReadVector => "readv",
            Self::WriteVector => "writev",
            Self::ReceiveFrom => "recvfrom",
            Self::SendTo => "sendto",
            Self::ReceiveMessage => "recvmsg",
            Self::SendMessage => "sendmsg",
            Self::ReceiveMessages => "recvmmsg",
            Self::SendMessages => "sendmmsg",
            Self::Splice => "splice",
            Self::Tee => "tee",
            Self::VmSplice => "vmsplice",
            Self::SendFile => "sendfile",
            Self::IoUring => "io_uring",
            Self::TakeDescriptor => "pidfd_getfd",
            Self::Compat => "32bit_syscall",
        }
    }
}
