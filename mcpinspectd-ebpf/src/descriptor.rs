//! From a descriptor number to the kernel object behind it.
//!
//! Cost to other processes: none at a system call. A tracked process pays for up to ten reads per call
//! that carries bytes (with typed access, four of them are plain loads); an exec pays for them twice.
//!
//! Minimum kernel version: 5.5 (`bpf_probe_read_kernel`).

use mcpinspect_common::{EndpointKey, EndpointKind};

use crate::{
    kernel::{Access, probe},
    offsets::*,
};

const S_IFMT: u16 = 0o170_000;
const S_IFIFO: u16 = 0o010_000;
const S_IFSOCK: u16 = 0o140_000;

/// The `struct file` of a task's descriptor `fd`; 0 if the descriptor is closed.
#[inline(always)]
pub fn file<A: Access>(task: u64, fd: u32) -> u64 {
    let files: u64 = A::load(task, OFF_TASK_FILES.load());
    if files == 0 {
        return 0;
    }
    let table: u64 = A::load(files, OFF_FILES_FDT.load());
    if table == 0 {
        return 0;
    }
    let length: u32 = A::load(table, OFF_FDT_MAX_FDS.load());
    if fd >= length {
        return 0;
    }
    let slots: u64 = A::load(table, OFF_FDT_FD.load());
    probe(slots + u64::from(fd) * 8, 0)
}

/// The endpoint behind `file` and the address of its inode; `None` for anything but a pipe or a
/// socket.
#[inline(always)]
pub fn endpoint(file: u64) -> Option<(EndpointKey, u64)> {
    if file == 0 {
        return None;
    }
    let inode: u64 = probe(file, OFF_FILE_INODE.load());
    let kind = match probe::<u16>(inode, OFF_INODE_MODE.load()) & S_IFMT {
        S_IFIFO => EndpointKind::Pipe,
        S_IFSOCK => EndpointKind::UnixSocket,
        _ => return None,
    };
    Some((key(inode, kind), inode))
}

/// The inode behind `file`, if that is a socket.
#[inline(always)]
pub fn socket_inode(file: u64) -> Option<u64> {
    if file == 0 {
        return None;
    }
    let inode: u64 = probe(file, OFF_FILE_INODE.load());
    (probe::<u16>(inode, OFF_INODE_MODE.load()) & S_IFMT == S_IFSOCK).then_some(inode)
}

/// The key of the socket of a connection that may speak HTTP.
#[inline(always)]
pub const fn connection_key(ino: u64) -> EndpointKey {
    EndpointKey {
        ino,
        // All sockets are in one file system.
        dev: 0,
        kind: EndpointKind::HttpSocket as u32,
    }
}

/// The key of the inode at `inode`.
#[inline(always)]
pub fn key(inode: u64, kind: EndpointKind) -> EndpointKey {
    let super_block: u64 = probe(inode, OFF_INODE_SB.load());
    EndpointKey {
        ino: probe(inode, OFF_INODE_INO.load()),
        dev: probe(super_block, OFF_SB_DEV.load()),
        kind: kind as u32,
    }
}
