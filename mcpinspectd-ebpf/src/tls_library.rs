//! Which processes may have a TLS library, so that user space attaches probes to it in time.
//!
//! A library is mapped a while before its first connection: a mapping for execution is reported to user space as
//! soon as the file's name begins like that of a TLS library. A program that contains a library is noticed when
//! it opens its first internet socket, and when it is executed, once user space knows that program.
//!
//! A probe costs the process that hits it, so a process that hits very many of them is left alone for a
//! while ([`calls`]): its cost stays below about a hundredth of a processor.
//!
//! Which server a process connects to says its greeting (`server_name`, RFC 6066): user space gets the first one of
//! each process, and more of those that it seeks.
//!
//! Cost to other processes:
//! - an exec: four reads and a look-up;
//! - a mapping: one array look-up, and two loads; one that is for execution also about ten reads;
//! - the first internet socket of a process: one look-up and perhaps a record;
//! - a TLS connection that a process begins or accepts: two look-ups, and for the first one a record or two.
//!
//! Minimum kernel version: 5.8 (`bpf_ktime_get_boot_ns`).

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ktime_get_boot_ns},
    macros::map,
    maps::{HashMap, LruHashMap},
};
use mcpinspect_common::{EndpointKey, RecordKind, TlsNews, tls_scope};

use crate::{
    arguments::Arguments,
    descriptor, emit,
    kernel::{Access, Probed, probe},
    offsets::*,
};

/// Files to remember as reported.
const TOLD_MAX: u32 = 4096;
/// Nanoseconds after which a file is reported again.
const AGAIN: u64 = 1_000_000_000;
const PROT_EXEC: u64 = 4;

/// Known programs that contain a library.
const PROGRAMS_MAX: u32 = 1024;
/// Processes with probes of their own.
const ATTACHED_MAX: u32 = 256;
/// Calls of a library within [`PERIOD`] that a process may make.
const CALLS_MAX: u64 = 1000;
/// In nanoseconds.
const PERIOD: u64 = 1_000_000_000;

/// When a file was reported.
#[map]
static TLS_TOLD: LruHashMap<u64, u64> = LruHashMap::with_max_entries(TOLD_MAX, 0);

/// By process: the address space that it had when it began a TLS connection.
#[map]
static TLS_GREETED: LruHashMap<u32, u64> = LruHashMap::with_max_entries(TOLD_MAX, 0);

/// Inode numbers of programs that contain a library. Another file with the same number costs an examination of
/// its process, and nothing else. User space fills it.
#[map]
static TLS_PROGRAMS: HashMap<u64, u8> = HashMap::with_max_entries(PROGRAMS_MAX, 0);

/// By process with probes of its own: when it got the first and the last of them, in nanoseconds since boot.
/// User space fills it.
#[map]
static TLS_ATTACHED: HashMap<u32, [u64; 2]> = HashMap::with_max_entries(ATTACHED_MAX, 0);

/// Greetings of a process that is sought to ship within [`PERIOD`].
const HELLOS_MAX: u64 = 32;

/// How often a process does something.
#[repr(C)]
#[derive(Clone, Copy)]
struct Pace {
    since: u64,
    calls: u64,
}

/// By process whose greetings user space seeks: how often it sends one. User space fills it with zeroes.
#[map]
static TLS_SOUGHT: LruHashMap<u32, Pace> = LruHashMap::with_max_entries(PROGRAMS_MAX, 0);

/// By process: how often it calls its library. Threads may miscount each other's calls, which does no harm.
#[map]
static TLS_PACES: LruHashMap<u32, Pace> = LruHashMap::with_max_entries(TOLD_MAX, 0);

/// A file was mapped.
#[inline(always)]
pub fn mapped<A: Access>(arguments: &Arguments) {
    if TLS.load() == tls_scope::OFF || arguments.third::<A>() & PROT_EXEC == 0 {
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
    if TLS.load() != tls_scope::OFF {
        let mm: u64 = A::load(A::current_task(), OFF_TASK_MM.load());
        tell(probe(mm, OFF_MM_EXE_FILE.load()));
    }
}

/// A process runs a new program.
#[inline(always)]
pub fn executed(task: u64) {
    if TLS.load() != tls_scope::PROCESSES {
        return;
    }
    let mm: u64 = probe(task, OFF_TASK_MM.load());
    let file: u64 = probe(mm, OFF_MM_EXE_FILE.load());
    let inode: u64 = probe(file, OFF_FILE_INODE.load());
    let ino: u64 = probe(inode, OFF_INODE_INO.load());
    // SAFETY: only the entry's presence is checked.
    if unsafe { TLS_PROGRAMS.get(ino) }.is_some() {
        news(TlsNews::MayBeThere);
    }
}

/// The first message of a TLS connection.
pub struct Hello {
    /// Whether the running process has sent it.
    pub is_sent: bool,
    pub address: u64,
    pub length: u64,
}

/// A process has begun or accepted a TLS connection. It is reported to user space once, unless it runs another
/// program by now.
#[inline(always)]
pub fn greets(hello: Hello) {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let mm: u64 = probe(Probed::current_task(), OFF_TASK_MM.load());
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    let is_new = unsafe { TLS_GREETED.get(tgid) }.is_none_or(|known| *known != mm);
    if is_new {
        let _ = TLS_GREETED.insert(tgid, mm, 0);
        news(TlsNews::Greets);
    }
    if hello.is_sent && (is_new || is_sought(tgid)) {
        emit::client_hello(hello.address, hello.length);
    }
}

/// Whether one more greeting of a process is sought. Threads may miscount each other's, which does no harm.
#[inline(always)]
fn is_sought(tgid: u32) -> bool {
    let Some(pace) = TLS_SOUGHT.get_ptr_mut(tgid) else {
        return false;
    };
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    unsafe {
        let since = (&raw const (*pace).since).read_volatile();
        let mut calls = (&raw const (*pace).calls).read_volatile();
        if now.wrapping_sub(since) >= PERIOD {
            (&raw mut (*pace).since).write_volatile(now);
            calls = 0;
        }
        (&raw mut (*pace).calls).write_volatile(calls.wrapping_add(1));
        calls < HELLOS_MAX
    }
}

/// When the running process got the first and the last of its probes; zeroes if it has none of its own.
#[inline(always)]
pub fn attached() -> [u64; 2] {
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    unsafe { TLS_ATTACHED.get(tgid) }.copied().unwrap_or([0; 2])
}

/// A process calls its library.
#[inline(always)]
pub fn calls() {
    if TLS.load() != tls_scope::PROCESSES {
        return;
    }
    let tgid = (bpf_get_current_pid_tgid() >> 32) as u32;
    let Some(pace) = TLS_PACES.get_ptr_mut(tgid) else {
        // SAFETY: no arguments.
        let since = unsafe { bpf_ktime_get_boot_ns() };
        let _ = TLS_PACES.insert(tgid, Pace { since, calls: 1 }, 0);
        return;
    };
    // SAFETY: aligned words of a map entry, which stays allocated while the program runs.
    let (since, calls) = unsafe {
        let calls = (&raw const (*pace).calls).read_volatile().wrapping_add(1);
        (&raw mut (*pace).calls).write_volatile(calls);
        ((&raw const (*pace).since).read_volatile(), calls)
    };
    if calls < CALLS_MAX {
        return;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    // SAFETY: as above.
    unsafe {
        (&raw mut (*pace).since).write_volatile(now);
        (&raw mut (*pace).calls).write_volatile(0);
    }
    if now.wrapping_sub(since) < PERIOD {
        news(TlsNews::Busy);
    }
}

/// Reports the running process and a file: once in a while, and if processes matter, once for each.
#[inline(always)]
fn tell(file: u64) {
    let mut inode: u64 = probe(file, OFF_FILE_INODE.load());
    if TLS.load() == tls_scope::PROCESSES {
        inode ^= bpf_get_current_pid_tgid() & !0xffff_ffff;
    }
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_boot_ns() };
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    if let Some(then) = unsafe { TLS_TOLD.get(inode) }
        && now.wrapping_sub(*then) < AGAIN
    {
        return;
    }
    let _ = TLS_TOLD.insert(inode, now, 0);
    news(TlsNews::MayBeThere);
}

#[inline(always)]
fn news(news: TlsNews) {
    let mut header = emit::header(RecordKind::Library, 0, EndpointKey::default(), 0);
    header.aux = news as u64;
    emit::header_only(header);
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
