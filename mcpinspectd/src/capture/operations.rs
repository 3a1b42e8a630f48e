//! This architecture's system call numbers, and what each call does with a stream.

use mcpinspect_common::Operation;
use nix::libc;

/// Number and operation of every call that the probes handle.
pub fn table() -> impl Iterator<Item = (u32, Operation)> {
    use Operation::*;
    [
        (libc::SYS_read, Read),
        (libc::SYS_write, Write),
        (libc::SYS_readv, ReadVector),
        (libc::SYS_preadv2, ReadVector),
        (libc::SYS_writev, WriteVector),
        (libc::SYS_pwritev2, WriteVector),
        (libc::SYS_recvfrom, ReceiveFrom),
        (libc::SYS_sendto, SendTo),
        (libc::SYS_recvmsg, ReceiveMessage),
        (libc::SYS_sendmsg, SendMessage),
        (libc::SYS_recvmmsg, ReceiveMessages),
        (libc::SYS_sendmmsg, SendMessages),
        (libc::SYS_splice, Splice),
        (libc::SYS_tee, Tee),
        (libc::SYS_vmsplice, VmSplice),
        (libc::SYS_sendfile, SendFile),
        (libc::SYS_io_uring_enter, IoUring),
        (libc::SYS_pidfd_getfd, TakeDescriptor),
        (libc::SYS_socket, Socket),
        (libc::SYS_accept, Accept),
        (libc::SYS_accept4, Accept),
    ]
    .into_iter()
    .filter_map(|(number, operation)| Some((u32::try_from(number).ok()?, operation)))
}
