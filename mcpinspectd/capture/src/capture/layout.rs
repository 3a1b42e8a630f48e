//! The kernel fields that the probes read, and the values of their globals on the running kernel.
//!
//! Offsets differ between kernel versions and configurations, and eBPF written in Rust has no CO-RE
//! relocations. So the loader looks each field up in BTF and sets a read-only global of the probes.

use super::btf::{Btf, BtfError};

/// Which property of a field a global is set to.
#[derive(Clone, Copy)]
enum Property {
    Offset,
    /// The offset plus this many bytes: an element of an array.
    #[cfg(target_arch = "aarch64")]
    Element(u32),
    Size,
}

/// A global of the probes and the field it comes from.
struct Entry {
    global: &'static str,
    field: &'static str,
    property: Property,
    need: Need,
}

/// What does not work on a kernel that lacks a field. The field's global is then 0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Anything: the probes do not load.
    Everything,
    /// Follow `AF_UNIX` sockets.
    UnixSockets,
    /// Report what a program is when it starts.
    ExecFacts,
    /// Report calls that may have been faked.
    Supervision,
    /// Follow TCP connections.
    Connections,
}

const fn offset(global: &'static str, field: &'static str) -> Entry {
    Entry {
        global,
        field,
        property: Property::Offset,
        need: Need::Everything,
    }
}

const fn unix(global: &'static str, field: &'static str) -> Entry {
    Entry {
        need: Need::UnixSockets,
        ..offset(global, field)
    }
}

const fn exec(global: &'static str, field: &'static str) -> Entry {
    Entry {
        need: Need::ExecFacts,
        ..offset(global, field)
    }
}

const fn supervision(global: &'static str, field: &'static str) -> Entry {
    Entry {
        need: Need::Supervision,
        ..offset(global, field)
    }
}

const fn connection(global: &'static str, field: &'static str) -> Entry {
    Entry {
        need: Need::Connections,
        ..offset(global, field)
    }
}

const fn size(global: &'static str, field: &'static str) -> Entry {
    Entry {
        global,
        field,
        property: Property::Size,
        need: Need::Everything,
    }
}

#[cfg(target_arch = "x86_64")]
const REGISTERS: [Entry; 8] = [
    offset("OFF_REGS_NUMBER", "pt_regs.orig_ax"),
    offset("OFF_REGS_ARG0", "pt_regs.di"),
    offset("OFF_REGS_ARG1", "pt_regs.si"),
    offset("OFF_REGS_ARG2", "pt_regs.dx"),
    offset("OFF_REGS_ARG3", "pt_regs.r10"),
    offset("OFF_REGS_ARG4", "pt_regs.r8"),
    offset("OFF_REGS_CS", "pt_regs.cs"),
    offset("OFF_TASK_STATUS", "task_struct.thread_info.status"),
];

#[cfg(target_arch = "aarch64")]
const REGISTERS: [Entry; 6] = [
    offset("OFF_REGS_NUMBER", "pt_regs.syscallno"),
    // At the exit, the first argument's register holds the result.
    offset("OFF_REGS_ARG0", "pt_regs.orig_x0"),
    element("OFF_REGS_ARG1", "pt_regs.regs", 8),
    element("OFF_REGS_ARG2", "pt_regs.regs", 16),
    element("OFF_REGS_ARG3", "pt_regs.regs", 24),
    element("OFF_REGS_ARG4", "pt_regs.regs", 32),
];

#[cfg(target_arch = "aarch64")]
const fn element(global: &'static str, field: &'static str, at: u32) -> Entry {
    Entry {
        global,
        field,
        property: Property::Element(at),
        need: Need::Everything,
    }
}

const FIELDS: [Entry; 75] = [
    offset("OFF_TASK_FILES", "task_struct.files"),
    offset("OFF_TASK_TGID", "task_struct.tgid"),
    offset("OFF_TASK_GROUP_LEADER", "task_struct.group_leader"),
    offset("OFF_TASK_REAL_PARENT", "task_struct.real_parent"),
    offset("OFF_TASK_SIGNAL", "task_struct.signal"),
    offset("OFF_SIGNAL_LIVE", "signal_struct.live"),
    exec("OFF_TASK_START_TIME", "task_struct.start_boottime"),
    exec("OFF_TASK_NAME", "task_struct.comm"),
    exec("OFF_TASK_REAL_CRED", "task_struct.real_cred"),
    exec("OFF_CRED_UID", "cred.uid"),
    exec("OFF_TASK_FS", "task_struct.fs"),
    exec("OFF_FS_PWD_DENTRY", "fs_struct.pwd.dentry"),
    exec("OFF_TASK_MM", "task_struct.mm"),
    exec("OFF_MM_ARG_START", "mm_struct.arg_start"),
    exec("OFF_MM_ARG_END", "mm_struct.arg_end"),
    exec("OFF_MM_EXE_FILE", "mm_struct.exe_file"),
    exec("OFF_BINPRM_INTERP", "linux_binprm.interp"),
    exec("OFF_FILE_DENTRY", "file.f_path.dentry"),
    exec("OFF_DENTRY_NAME", "dentry.d_name.name"),
    exec("OFF_DENTRY_INODE", "dentry.d_inode"),
    supervision("OFF_TASK_FILTER", "task_struct.seccomp.filter"),
    supervision("OFF_FILTER_NOTIF", "seccomp_filter.notif"),
    supervision("OFF_FILTER_PREV", "seccomp_filter.prev"),
    offset("OFF_FILES_FDT", "files_struct.fdt"),
    offset("OFF_FDT_MAX_FDS", "fdtable.max_fds"),
    offset("OFF_FDT_FD", "fdtable.fd"),
    offset("OFF_FILE_INODE", "file.f_inode"),
    offset("OFF_FILE_MODE", "file.f_mode"),
    offset("OFF_FILE_PRIVATE_DATA", "file.private_data"),
    offset("OFF_INODE_MODE", "inode.i_mode"),
    offset("OFF_INODE_INO", "inode.i_ino"),
    offset("OFF_INODE_SB", "inode.i_sb"),
    offset("OFF_INODE_PIPE", "inode.i_pipe"),
    offset("OFF_SB_DEV", "super_block.s_dev"),
    offset("OFF_PIPE_READERS", "pipe_inode_info.readers"),
    offset("OFF_PIPE_WRITERS", "pipe_inode_info.writers"),
    offset("OFF_PIPE_HEAD", "pipe_inode_info.head"),
    offset("OFF_PIPE_TAIL", "pipe_inode_info.tail"),
    offset("OFF_PIPE_RING_SIZE", "pipe_inode_info.ring_size"),
    offset("OFF_PIPE_BUFS", "pipe_inode_info.bufs"),
    offset("OFF_PIPE_BUFFER_LEN", "pipe_buffer.len"),
    size("SIZE_PIPE_BUFFER", "pipe_buffer"),
    size("SIZE_PIPE_INDEX", "pipe_inode_info.head"),
    offset("OFF_SOCKET_TYPE", "socket.type"),
    offset("OFF_SOCKET_SK", "socket.sk"),
    offset("OFF_SOCKET_ALLOC_INODE", "socket_alloc.vfs_inode"),
    offset("OFF_SOCK_FAMILY", "sock.__sk_common.skc_family"),
    offset("OFF_SOCK_SOCKET", "sock.sk_socket"),
    offset("OFF_SOCK_QUEUE", "sock.sk_receive_queue"),
    unix("OFF_UNIX_PEER", "unix_sock.peer"),
    unix("OFF_UNIX_ADDR", "unix_sock.addr"),
    unix("OFF_UNIX_ADDRESS_LEN", "unix_address.len"),
    unix("OFF_UNIX_ADDRESS_NAME", "unix_address.name"),
    unix("OFF_SOCK_PEER_PID", "sock.sk_peer_pid"),
    unix("OFF_PID_NUMBERS", "pid.numbers"),
    offset("OFF_SKB_NEXT", "sk_buff.next"),
    offset("OFF_SKB_LEN", "sk_buff.len"),
    offset("OFF_SKB_CB", "sk_buff.cb"),
    unix("OFF_UNIX_CB_CONSUMED", "unix_skb_parms.consumed"),
    connection("OFF_SOCK_PROTOCOL", "sock.sk_protocol"),
    connection("OFF_SOCK_NUM", "sock.__sk_common.skc_num"),
    connection("OFF_SOCK_DPORT", "sock.__sk_common.skc_dport"),
    connection("OFF_SOCK_LOCAL4", "sock.__sk_common.skc_rcv_saddr"),
    connection("OFF_SOCK_REMOTE4", "sock.__sk_common.skc_daddr"),
    connection("OFF_SOCK_LOCAL6", "sock.__sk_common.skc_v6_rcv_saddr"),
    connection("OFF_SOCK_REMOTE6", "sock.__sk_common.skc_v6_daddr"),
    connection("OFF_SOCK_NET", "sock.__sk_common.skc_net.net"),
    connection("OFF_NET_INUM", "net.ns.inum"),
    connection("OFF_TCP_BYTES_RECEIVED", "tcp_sock.bytes_received"),
    connection("OFF_TCP_RCV_NXT", "tcp_sock.rcv_nxt"),
    connection("OFF_TCP_COPIED_SEQ", "tcp_sock.copied_seq"),
    connection("OFF_TCP_BYTES_SENT", "tcp_sock.bytes_sent"),
    connection("OFF_TCP_BYTES_RETRANS", "tcp_sock.bytes_retrans"),
    connection("OFF_TCP_WRITE_SEQ", "tcp_sock.write_seq"),
    connection("OFF_TCP_SND_NXT", "tcp_sock.snd_nxt"),
];

/// The globals' values.
#[derive(Debug)]
pub struct Layout {
    /// Name and value of each global of the probes.
    pub globals: Vec<(&'static str, u32)>,
    /// Whether `AF_UNIX` sockets can be followed.
    pub unix_sockets: bool,
    /// Whether the kernel says what a program is when it starts.
    pub exec_facts: bool,
    /// Whether TCP connections can be followed.
    pub connections: bool,
}

impl Layout {
    /// Looks every field up in `data`, the content of a BTF file.
    ///
    /// # Errors
    /// `data` is not BTF, or lacks a field that the probes need.
    pub fn from_btf(data: &[u8]) -> Result<Self, BtfError> {
        let btf = Btf::parse(data)?;
        let mut globals = Vec::with_capacity(REGISTERS.len() + FIELDS.len());
        let mut missing = Vec::new();
        for entry in REGISTERS.iter().chain(&FIELDS) {
            let value = match (btf.field(entry.field), entry.property) {
                (Ok(field), Property::Offset) => field.offset,
                #[cfg(target_arch = "aarch64")]
                (Ok(field), Property::Element(at)) => field.offset + at,
                (Ok(field), Property::Size) => field.size,
                (Err(BtfError::Missing(_)), _) if entry.need != Need::Everything => {
                    missing.push(entry.need);
                    0
                }
                (Err(error), _) => return Err(error),
            };
            globals.push((entry.global, value));
        }
        let exec_facts = !missing.contains(&Need::ExecFacts);
        globals.push(("EXEC_FACTS", u32::from(exec_facts)));
        let supervision = !missing.contains(&Need::Supervision);
        globals.push(("SUPERVISION", u32::from(supervision)));
        Ok(Self {
            globals,
            unix_sockets: !missing.contains(&Need::UnixSockets),
            exec_facts,
            connections: !missing.contains(&Need::Connections),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_kernel_has_every_field() {
        let data = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        let layout = Layout::from_btf(&data).unwrap();
        assert!(layout.unix_sockets && layout.exec_facts && layout.connections);
        // All but the first fields of a structure are somewhere past its start.
        let names = [
            "OFF_TASK_START_TIME",
            "OFF_MM_ARG_END",
            "OFF_FS_PWD_DENTRY",
            "OFF_TASK_FILTER",
            "OFF_FILTER_NOTIF",
            "SUPERVISION",
            "OFF_UNIX_ADDR",
            "OFF_UNIX_ADDRESS_LEN",
            "OFF_UNIX_ADDRESS_NAME",
            "OFF_SOCK_PEER_PID",
            "OFF_PID_NUMBERS",
            "OFF_SOCK_PROTOCOL",
            "OFF_SOCK_DPORT",
            "OFF_SOCK_NET",
            "OFF_NET_INUM",
            "OFF_TCP_BYTES_SENT",
        ];
        for name in names {
            let found = layout.globals.iter().find(|(global, _)| *global == name);
            assert!(found.unwrap().1 > 0, "{name}");
        }
    }
}
