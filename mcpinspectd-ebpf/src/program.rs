//! What a program is at the moment when a process starts it: according to the kernel, before the program
//! has had a chance to change anything.
//!
//! Cost to other processes: none. An exec with a pipe or a socket as standard input or output pays for
//! some seventy reads and two copies of text, all of them straight into the ring.
//!
//! Minimum kernel version: 5.8 (ring buffer); `start_boottime` has that name since 5.5.

use core::hint::black_box;

use aya_ebpf::helpers::generated::bpf_probe_read_user;
use mcpinspect_common::{
    ARGUMENT_CLASSES, AncestorReport, EXEC_ANCESTORS, EndpointReport, ExecReport, RecordHeader,
    Stat,
};

use crate::{
    emit,
    kernel::{copy, copy_text, probe},
    maps::{RECORDS, count},
    offsets::*,
    ring_share,
};

/// A program that has just been started.
#[derive(Clone, Copy)]
pub struct Program {
    /// Its process, whose memory is the running one.
    pub task: u64,
    /// The `struct linux_binprm` that it was started from.
    pub binprm: u64,
    /// Its standard input and output.
    pub stdio: [EndpointReport; 2],
}

/// The record as laid out in the ring.
#[repr(C)]
struct Record<const N: usize> {
    header: RecordHeader,
    report: ExecReport,
    arguments: [u8; N],
}

/// Ships what a program is. A record that does not fit is counted.
#[inline(always)]
pub fn ship(header: RecordHeader, program: Program) {
    const C: [u32; 3] = ARGUMENT_CLASSES;
    if EXEC_FACTS.load() == 0 {
        emit::with_payload(header, program.stdio);
        return;
    }
    let mm: u64 = probe(program.task, OFF_TASK_MM.load());
    let start: u64 = probe(mm, OFF_MM_ARG_START.load());
    let end: u64 = probe(mm, OFF_MM_ARG_END.load());
    let arguments = Arguments {
        address: start,
        length: end.wrapping_sub(start),
    };
    if arguments.length <= u64::from(C[0]) {
        ship_class::<{ C[0] as usize }>(header, program, mm, arguments);
    } else if arguments.length <= u64::from(C[1]) {
        ship_class::<{ C[1] as usize }>(header, program, mm, arguments);
    } else {
        ship_class::<{ C[2] as usize }>(header, program, mm, arguments);
    }
}

/// Where the arguments are in the process's memory.
#[derive(Clone, Copy)]
struct Arguments {
    address: u64,
    length: u64,
}

#[inline(always)]
fn ship_class<const N: usize>(
    mut header: RecordHeader,
    program: Program,
    mm: u64,
    arguments: Arguments,
) {
    let room = ring_share::admit();
    let entry = room.and_then(|share| Some((share, RECORDS.reserve::<Record<N>>(0)?)));
    let Some((share, mut entry)) = entry else {
        count(Stat::LifecycleLost, 1);
        return;
    };
    share.charge(&mut header, size_of::<Record<N>>());
    let record = entry.as_mut_ptr();
    // SAFETY: reserved memory that belongs to this program until it is submitted. The fields are
    // written one by one: the whole report does not fit onto the stack.
    let copied = unsafe {
        let report = &raw mut (*record).report;
        (&raw mut (*report).stdio).write(program.stdio);
        (&raw mut (*report).arguments_length).write(arguments.length);
        describe(report, program, mm);
        copy_arguments(&raw mut (*record).arguments, arguments)
    };
    header.len = size_of::<ExecReport>() as u32 + copied;
    // SAFETY: as above.
    unsafe { (&raw mut (*record).header).write(header) };
    entry.submit(0);
}

/// Writes what is known about the program and its ancestors.
///
/// # Safety
/// `report` is valid for writes.
#[inline(always)]
unsafe fn describe(report: *mut ExecReport, program: Program, mm: u64) {
    let Program { task, binprm, .. } = program;
    let file: u64 = probe(mm, OFF_MM_EXE_FILE.load());
    let dentry: u64 = probe(file, OFF_FILE_DENTRY.load());
    let fs: u64 = probe(task, OFF_TASK_FS.load());
    let directory: u64 = probe(fs, OFF_FS_PWD_DENTRY.load());
    // SAFETY: all targets are fields of the report.
    unsafe {
        copy(
            &raw mut (*report).start_time,
            task,
            OFF_TASK_START_TIME.load(),
        );
        copy(&raw mut (*report).name, task, OFF_TASK_NAME.load());
        let inode: u64 = probe(file, OFF_FILE_INODE.load());
        copy(
            &raw mut (*report).executable_ino,
            inode,
            OFF_INODE_INO.load(),
        );
        let inode: u64 = probe(directory, OFF_DENTRY_INODE.load());
        copy(
            &raw mut (*report).directory_ino,
            inode,
            OFF_INODE_INO.load(),
        );
        let name: u64 = probe(dentry, OFF_DENTRY_NAME.load());
        copy_text(&raw mut (*report).executable_name, name);
        let path: u64 = probe(binprm, OFF_BINPRM_INTERP.load());
        copy_text(&raw mut (*report).executable_path, path);
        let mut ancestor = task;
        for index in 0..EXEC_ANCESTORS {
            // The parent is the thread that forked; the process is its leader. Above pid 1 is the
            // idle task, which is its own parent: no condition, no branch for the verifier.
            let thread: u64 = probe(ancestor, OFF_TASK_REAL_PARENT.load());
            ancestor = probe(thread, OFF_TASK_GROUP_LEADER.load());
            let entry = (&raw mut (*report).ancestors)
                .cast::<AncestorReport>()
                .add(index);
            copy(
                &raw mut (*entry).start_time,
                ancestor,
                OFF_TASK_START_TIME.load(),
            );
            copy(&raw mut (*entry).tgid, ancestor, OFF_TASK_TGID.load());
            copy(&raw mut (*entry).name, ancestor, OFF_TASK_NAME.load());
            let credentials: u64 = probe(ancestor, OFF_TASK_REAL_CRED.load());
            copy(&raw mut (*entry).uid, credentials, OFF_CRED_UID.load());
        }
    }
}

/// Copies the arguments, as many as fit. Returns how many bytes are there; 0 if their
/// pages are not resident.
///
/// # Safety
/// `target` is valid for a write of the array.
#[inline(always)]
unsafe fn copy_arguments<const N: usize>(target: *mut [u8; N], arguments: Arguments) -> u32 {
    let Arguments { address, length } = arguments;
    if length == 0 {
        return 0;
    }
    let length = if length < N as u64 {
        length as u32
    } else {
        N as u32
    };
    // As in `emit::user_bytes`: the mask restores a bound that older verifiers have lost.
    let size = (black_box(length).wrapping_sub(1) & (N as u32 - 1)) + 1;
    // SAFETY: the target has N bytes and `size` is at most that; the helper checks the address.
    let copied = unsafe { bpf_probe_read_user(target.cast(), size, address as *const _) } == 0;
    if copied { length } else { 0 }
}
