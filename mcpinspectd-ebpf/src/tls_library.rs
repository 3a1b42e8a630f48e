//! Which processes may have a TLS library, so that user space attaches probes to it in time.
//!
//! A library is mapped a while before its first connection: user space is told as soon as a file is mapped
//! for execution whose name begins like one of theirs. A program that has a library inside itself is noticed
//! when it opens its first internet socket.
//!
//! Cost to other processes:
//! - a mapping: one array look-up, and two loads; one that is for execution also about ten reads;
//! - the first internet socket of a process: one look-up and perhaps a record;
//! - a TLS connection that a process begins: one look-up, and for the first one a record.
//!
//! Minimum kernel version: 5.8 (`bpf_ktime_get_boot_ns`).

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_boot_ns},
    macros::map,
    maps::LruHashMap,
};
use mcpinspect_common::{EndpointKey, RecordKind};

use crate::{
    arguments::Arguments,
    descriptor, emit,
    kernel::{Access, Probed, probe},
    offsets::*,
};

/// Files that are remembered as told.
const TOLD_MAX: u32 = 4096;
/// Nanoseconds after which a file is told again.
const AGAIN: u64 = 1_000_000_000;
const PROT_EXEC: u64 = 4;

/// When a file was told of.
#[map]
static TLS_TOLD: LruHashMap<u64, u64> = LruHashMap::with_max_entries(TOLD_MAX, 0);

/// By process: the address space that it had when it began a TLS connection.
#[map]
static TLS_GREETED: LruHashMap<u32, u64> = LruHashMap::with_max_entries(TOLD_MAX, 0);

/// A file was mapped.
#[inline(always)]
pub fn mapped<A: Access>(arguments: &Arguments) {
    if TLS.load() == 0 || arguments.third::<A>() & PROT_EXEC == 0 {
        return;
    }
    let fd = arguments.fifth::<A>() as u32;
    if fd as i32 >= 0 {
        let file = descriptor::file::<A>(A::current_task(), fd);
        if file != 0 && is_library(file) {
            tell(file);
        }
    }
}

/// A process has opened its first internet socket.
#[inline(always)]
pub fn may_be_there<A: Access>() {
    if TLS.load() == 1 {
        let mm: u64 = A::load(A::current_task(), OFF_TASK_MM.load());
        tell(probe(mm, OFF_MM_EXE_FILE.load()));
    }
}

/// A process has begun a TLS connection. User space is told once, unless it runs another program by now.
#[inline(always)]
pub fn greets() {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let mm: u64 = probe(Probed::current_task(), OFF_TASK_MM.load());
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    if let Some(known) = unsafe { TLS_GREETED.get(tgid) }
        && *known == mm
    {
        return;
    }
    let _ = TLS_GREETED.insert(tgid, mm, 0);
    let mut header = emit::header(RecordKind::Library, 0, EndpointKey::default(), 0);
    header.aux = 1;
    emit::header_only(header);
}

#[inline(always)]
fn tell(file: u64) {
    let inode: u64 = probe(file, OFF_FILE_INODE.load());
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    if let Some(then) = unsafe { TLS_TOLD.get(inode) }
        && now.wrapping_sub(*then) < AGAIN
    {
        return;
    }
    let _ = TLS_TOLD.insert(inode, now, 0);
    emit::header_only(emit::header(
        RecordKind::Library,
        0,
        EndpointKey::default(),
        0,
    ));
}

/// Whether a file's name begins like that of a library of interest.
#[inline(always)]
fn is_library(file: u64) -> bool {
    let dentry: u64 = probe(file, OFF_FILE_DENTRY.load());
    let name: u64 = probe(dentry, OFF_DENTRY_NAME.load());
    let word: u64 = Probed::load(name, 0);
    const fn first(name: &[u8; 6]) -> u64 {
        u64::from_le_bytes([name[0], name[1], name[2], name[3], name[4], name[5], 0, 0])
    }
    let word = word & 0xffff_ffff_ffff;
    word == first(b"libssl")
        || word == first(b"libgnu")
        || word == first(b"libnsp")
        || word == first(b"libpyt")
        || word == first(b"_ssl.c")
        || word == first(b"_rust.")
}
