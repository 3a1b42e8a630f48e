//! What system calls do with a stream.
//!
//! Call numbers differ between architectures. User space fills a table (number to operation), and the
//! probes know operations only.

/// A system call's effect, which also determines the arguments that name the descriptor and the bytes.
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
    /// `splice(fd_in, off_in, fd_out, off_out, len, flags)`: moves bytes inside the kernel.
    Splice = 11,
    /// `tee(fd_in, fd_out, len, flags)`: duplicates bytes and leaves them in the pipe.
    Tee = 12,
    /// `vmsplice(fd, iov, nr, flags)`: maps user pages into a pipe, or copies a pipe out.
    VmSplice = 13,
    /// `sendfile(out_fd, in_fd, …)`.
    SendFile = 14,
    /// `io_uring_enter(ring, …)`: submits any number of other operations.
    IoUring = 15,
    /// `pidfd_getfd(pidfd, targetfd, …)`: duplicates another process's descriptor.
    TakeDescriptor = 16,
    /// A call through the 32-bit system call table. Not in user space's table; the probes report it.
    Compat = 17,
    /// A call of a process whose calls another process can answer (`SECCOMP_RET_USER_NOTIF`), so that it may
    /// not have happened. Not in user space's table either.
    Supervised = 18,
    /// `socket(family, type, …)`.
    Socket = 19,
    /// `accept(fd, …)` and `accept4`.
    Accept = 20,
    /// A connection that was not examined, because its user had too many. Not in user space's table.
    ConnectionBudget = 21,
    /// `io_submit(context, …)`: submits any number of other operations.
    Aio = 22,
    /// A call whose number is that of a 32-bit call that carries bytes (x86-64). Of interest only if it
    /// is made through that table.
    PerhapsCompat = 23,
    /// `mmap(addr, len, prot, flags, fd, …)`: may map a library.
    Map = 24,
    /// Plain text of an unknown TLS connection. Not in user space's table.
    TlsUnpaired = 25,
    /// `getsockopt(fd, level, name, value, length)`: one option maps received bytes
    /// (`TCP_ZEROCOPY_RECEIVE`).
    GetOption = 26,
    /// An urgent byte (`MSG_OOB`). Not in user space's table.
    Urgent = 27,
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
            18 => Self::Supervised,
            19 => Self::Socket,
            20 => Self::Accept,
            21 => Self::ConnectionBudget,
            22 => Self::Aio,
            23 => Self::PerhapsCompat,
            24 => Self::Map,
            25 => Self::TlsUnpaired,
            26 => Self::GetOption,
            27 => Self::Urgent,
            _ => Self::None,
        }
    }
}
