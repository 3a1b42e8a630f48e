//! Where the fields of kernel structures are: the loader sets them from the running kernel's BTF.
//!
//! They are read-only globals: the verifier knows their values and folds them to constants, so they
//! cost nothing at run time.
//!
//! Minimum kernel version: 5.2 (read-only globals); the loader needs a kernel with BTF, or a file.

use aya_ebpf::Global;

macro_rules! offsets {
    ($($name:ident),+ $(,)?) => { $(
        #[unsafe(no_mangle)]
        pub static $name: Global<u32> = Global::new(0);
    )+ };
}

offsets!(
    // struct pt_regs
    OFF_REGS_NUMBER,
    OFF_REGS_ARG0,
    OFF_REGS_ARG1,
    OFF_REGS_ARG2,
    OFF_REGS_ARG3,
    OFF_REGS_ARG4,
    OFF_REGS_CS,
    OFF_TASK_STATUS,
    // struct task_struct and what it refers to
    OFF_TASK_FILES,
    OFF_TASK_TGID,
    OFF_TASK_GROUP_LEADER,
    OFF_TASK_REAL_PARENT,
    OFF_TASK_SIGNAL,
    OFF_SIGNAL_LIVE,
    OFF_TASK_START_TIME,
    OFF_TASK_NAME,
    OFF_TASK_REAL_CRED,
    OFF_CRED_UID,
    OFF_TASK_FS,
    OFF_FS_PWD_DENTRY,
    OFF_TASK_MM,
    OFF_MM_ARG_START,
    OFF_MM_ARG_END,
    OFF_MM_EXE_FILE,
    OFF_BINPRM_INTERP,
    OFF_TASK_FILTER,
    OFF_FILTER_NOTIF,
    OFF_FILTER_PREV,
    OFF_FILES_FDT,
    OFF_FDT_MAX_FDS,
    OFF_FDT_FD,
    // struct file, inode, super_block
    OFF_FILE_INODE,
    OFF_FILE_MODE,
    OFF_FILE_PRIVATE_DATA,
    OFF_FILE_DENTRY,
    OFF_DENTRY_NAME,
    OFF_DENTRY_INODE,
    OFF_INODE_MODE,
    OFF_INODE_INO,
    OFF_INODE_SB,
    OFF_INODE_PIPE,
    OFF_SB_DEV,
    // struct pipe_inode_info and pipe_buffer
    OFF_PIPE_READERS,
    OFF_PIPE_WRITERS,
    OFF_PIPE_HEAD,
    OFF_PIPE_TAIL,
    OFF_PIPE_RING_SIZE,
    OFF_PIPE_BUFS,
    OFF_PIPE_BUFFER_LEN,
    SIZE_PIPE_BUFFER,
    SIZE_PIPE_INDEX,
    // sockets
    OFF_SOCKET_TYPE,
    OFF_SOCKET_SK,
    OFF_SOCKET_ALLOC_INODE,
    OFF_SOCK_FAMILY,
    OFF_SOCK_SOCKET,
    OFF_SOCK_QUEUE,
    OFF_UNIX_PEER,
    OFF_UNIX_ADDR,
    OFF_UNIX_ADDRESS_LEN,
    OFF_UNIX_ADDRESS_NAME,
    OFF_SOCK_PEER_PID,
    OFF_PID_NUMBERS,
    OFF_SKB_NEXT,
    OFF_SKB_LEN,
    OFF_SKB_CB,
    OFF_UNIX_CB_CONSUMED,
    // connections
    OFF_SOCK_PROTOCOL,
    OFF_SOCK_NUM,
    OFF_SOCK_DPORT,
    OFF_SOCK_LOCAL4,
    OFF_SOCK_REMOTE4,
    OFF_SOCK_LOCAL6,
    OFF_SOCK_REMOTE6,
    OFF_SOCK_NET,
    OFF_NET_INUM,
    OFF_TCP_BYTES_RECEIVED,
    OFF_TCP_RCV_NXT,
    OFF_TCP_COPIED_SEQ,
    OFF_TCP_BYTES_SENT,
    OFF_TCP_BYTES_RETRANS,
    OFF_TCP_WRITE_SEQ,
    OFF_TCP_SND_NXT,
);

/// 1 if TCP connections are examined.
#[unsafe(no_mangle)]
pub static CONNECTIONS: Global<u32> = Global::new(0);

/// A [`mcpinspect_common::tls_scope`].
#[unsafe(no_mangle)]
pub static TLS: Global<u32> = Global::new(0);

/// Connections that can be known at a time.
#[unsafe(no_mangle)]
pub static CONNECTIONS_MAX: Global<u32> = Global::new(0);

/// 1 if the architecture has another system call table besides its own (x86-64): `cs` tells which programs
/// use it, and the task's status which calls.
#[unsafe(no_mangle)]
pub static COMPAT_BY_CS: Global<u32> = Global::new(0);

/// 1 if the kernel has every field that an [`mcpinspect_common::ExecReport`] is made of.
#[unsafe(no_mangle)]
pub static EXEC_FACTS: Global<u32> = Global::new(0);

/// 1 if the kernel's seccomp filters can be examined.
#[unsafe(no_mangle)]
pub static SUPERVISION: Global<u32> = Global::new(0);

/// The daemon's own process, which is never captured.
#[unsafe(no_mangle)]
pub static OWN_TGID: Global<u32> = Global::new(0);

/// Bytes per end to ship of a stream that may or may not be MCP.
#[unsafe(no_mangle)]
pub static SNIFF_BUDGET: Global<u64> = Global::new(mcpinspect_common::SNIFF_BUDGET_DEFAULT);
