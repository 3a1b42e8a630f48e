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
        // A kernel thread may process a ring's queue without any further call.
        (libc::SYS_io_uring_setup, IoUring),
        (libc::SYS_io_uring_enter, IoUring),
        (libc::SYS_io_submit, Aio),
        (libc::SYS_pidfd_getfd, TakeDescriptor),
        (libc::SYS_socket, Socket),
        (libc::SYS_accept, Accept),
        (libc::SYS_accept4, Accept),
        (libc::SYS_mmap, Map),
        (libc::SYS_getsockopt, GetOption),
    ]
    .into_iter()
    .filter_map(|(number, operation)| Some((u32::try_from(number).ok()?, operation)))
    .chain(COMPAT.iter().map(|number| (*number, PerhapsCompat)))
}

/// The numbers in the 32-bit table (x86) of calls that carry bytes, except where this architecture's own
/// calls of these numbers do so too: `read`, `write`, `socketcall`, `readv`, `writev`, `sendfile`,
/// `sendfile64`, `io_submit`, `splice`, `tee`, `vmsplice`, `preadv`, `pwritev`, `recvmmsg`, `sendmmsg`,
/// `sendto`, `sendmsg`, `recvfrom`, `recvmsg`, `preadv2`, `pwritev2`, and `recvmmsg` with 64-bit times.
const COMPAT: &[u32] = if cfg!(target_arch = "x86_64") {
    &[
        3, 4, 102, 145, 146, 187, 239, 248, 313, 315, 316, 333, 334, 337, 345, 369, 370, 371, 372,
        378, 379, 417,
    ]
} else {
    &[]
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_number_means_two_things() {
        let numbers: BTreeSet<u32> = table().map(|(number, _)| number).collect();
        assert_eq!(numbers.len(), table().count());
    }
}
