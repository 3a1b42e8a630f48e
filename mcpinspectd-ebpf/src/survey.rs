//! The survey: which endpoints are held open, and which tracked processes hold one.
//!
//! The kernel's own objects decide. A pipe counts its readers and writers, and a socket loses its
//! `sock` when the last descriptor is closed, wherever that is: in the table of a process, in that of
//! a single thread, behind a main thread that has exited, or in flight between two processes.
//! `/proc/PID/fd` lists only the table of the main thread.
//!
//! A task's descriptors are examined only to decide whether its process may be left alone: up to
//! the first one of a watched endpoint, and each table once, however many processes share it.
//!
//! Cost to other processes: none at a system call. The survey runs in a thread of the daemon when user
//! space asks: a few reads for each endpoint, one for each thread of the machine, and a walk through
//! the descriptor table of each tracked process.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`); `iter/task` 5.8, `bpf_for_each_map_elem` 5.13.

use core::ffi::c_void;

use aya_ebpf::{
    bindings::seq_file,
    helpers::generated::{bpf_for_each_map_elem, bpf_ktime_get_boot_ns, bpf_loop, bpf_seq_write},
};
use mcpinspect_common::{EndpointCounters, EndpointKey, EndpointKind, SurveyRow};

use crate::{
    descriptor,
    kernel::{Access as _, Probed, Typed, probe},
    maps::{COUNTERS, TABLES, TableSeen, WATCHES},
    offsets::*,
    tracked,
};

/// Descriptors of one table to examine. A larger table counts as busy.
const DESCRIPTORS_MAX: u32 = 1 << 20;

/// `struct bpf_iter__task`.
#[repr(C)]
pub struct TaskContext {
    meta: u64,
    task: u64,
}

/// `struct bpf_iter_meta`: the output, the number of the open iterator, and how many objects came
/// before.
const META_SEQ: u32 = 0;
const META_SESSION: u32 = 8;
const META_NUMBER: u32 = 16;

/// Examines one thread; at the first one also every endpoint.
#[inline(always)]
pub fn on_task(context: *const TaskContext) {
    // SAFETY: the kernel passes this context to iterators of this kind; the verifier checks each load.
    let (meta, task) = unsafe {
        (
            (&raw const (*context).meta).read_volatile(),
            (&raw const (*context).task).read_volatile(),
        )
    };
    if task == 0 {
        return;
    }
    if Typed::load::<u64>(meta, META_NUMBER) == 0 {
        // SAFETY: `endpoint_step` has the signature of a callback for the map's elements.
        unsafe {
            bpf_for_each_map_elem(
                (&raw const COUNTERS).cast_mut().cast(),
                endpoint_step as *mut c_void,
                core::ptr::null_mut(),
                0,
            );
        }
    }
    let tgid: u32 = probe(task, OFF_TASK_TGID.load());
    if !tracked::is_tracked(tgid) {
        return;
    }
    let files: u64 = probe(task, OFF_TASK_FILES.load());
    if files == 0 {
        return;
    }
    let leader: u64 = probe(task, OFF_TASK_GROUP_LEADER.load());
    if leader != task && probe::<u64>(leader, OFF_TASK_FILES.load()) == files {
        return;
    }
    let row = SurveyRow {
        tgid,
        busy: u32::from(is_busy(files, Typed::load(meta, META_SESSION))),
    };
    let output = Typed::load::<u64>(meta, META_SEQ) as *mut seq_file;
    // SAFETY: the output that belongs to this iterator, and a row that the helper copies.
    unsafe {
        bpf_seq_write(
            output,
            (&raw const row).cast(),
            size_of::<SurveyRow>() as u32,
        );
    }
}

/// Whether a descriptor of the table at `files` leads to a watched endpoint.
#[inline(always)]
fn is_busy(files: u64, survey: u64) -> bool {
    // SAFETY: entries are replaced whole, and stay allocated while the program runs.
    if let Some(seen) = unsafe { TABLES.get(files) }
        && seen.survey == survey
    {
        return seen.busy != 0;
    }
    let table: u64 = probe(files, OFF_FILES_FDT.load());
    let length: u32 = probe(table, OFF_FDT_MAX_FDS.load());
    let mut walk = TableWalk {
        slots: probe(table, OFF_FDT_FD.load()),
        length: u64::from(length),
        busy: u64::from(length > DESCRIPTORS_MAX),
    };
    if walk.busy == 0 {
        // SAFETY: `descriptor_step` has the signature of a loop callback, and `walk` outlives the loop.
        unsafe {
            bpf_loop(
                DESCRIPTORS_MAX,
                descriptor_step as *mut c_void,
                (&raw mut walk).cast(),
                0,
            );
        }
    }
    let seen = TableSeen {
        survey,
        busy: walk.busy,
    };
    // If there is no room, the next process that shares the table pays for another walk.
    let _ = TABLES.insert(files, seen, 0);
    walk.busy != 0
}

/// State of the loop over a descriptor table.
#[repr(C)]
struct TableWalk {
    slots: u64,
    length: u64,
    busy: u64,
}

unsafe extern "C" fn descriptor_step(index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `is_busy` passes to the loop.
    let walk = unsafe { &mut *context.cast::<TableWalk>() };
    let index = u64::from(index);
    if index >= walk.length {
        return 1;
    }
    let file = probe(walk.slots + index * 8, 0);
    if let Some((key, _)) = descriptor::endpoint(file)
        && let Some(watch) = WATCHES.get_ptr(key)
        // SAFETY: an aligned word of a map entry.
        && unsafe { (&raw const (*watch).counted).read_volatile() } != 0
    {
        walk.busy = 1;
        return 1;
    }
    0
}

/// Notes whether an endpoint is held open now.
unsafe extern "C" fn endpoint_step(
    _map: *mut c_void,
    key: *const EndpointKey,
    counters: *mut EndpointCounters,
    _context: *mut c_void,
) -> i64 {
    // SAFETY: the kernel passes an element of the map; aligned words of it are read and stored.
    unsafe {
        let key = EndpointKey {
            ino: (&raw const (*key).ino).read_volatile(),
            dev: (&raw const (*key).dev).read_volatile(),
            kind: (&raw const (*key).kind).read_volatile(),
        };
        let [read, written] = held(key, (&raw const (*counters).inode).read_volatile());
        (&raw mut (*counters).held[0]).write_volatile(read);
        (&raw mut (*counters).held[1]).write_volatile(written);
        (&raw mut (*counters).surveyed).write_volatile(bpf_ktime_get_boot_ns());
    }
    0
}

/// Whether the reading and the writing end of the inode at `inode` are open, if it is still the one of
/// `key`: the memory of a freed inode may be reused for another.
#[inline(always)]
fn held(key: EndpointKey, inode: u64) -> [u32; 2] {
    if Probed::load::<u64>(inode, OFF_INODE_INO.load()) != key.ino {
        return [0; 2];
    }
    if key.kind == EndpointKind::Pipe as u32 {
        let pipe: u64 = probe(inode, OFF_INODE_PIPE.load());
        if pipe == 0 {
            return [0; 2];
        }
        [
            u32::from(probe::<u32>(pipe, OFF_PIPE_READERS.load()) != 0),
            u32::from(probe::<u32>(pipe, OFF_PIPE_WRITERS.load()) != 0),
        ]
    } else {
        let socket = inode - u64::from(OFF_SOCKET_ALLOC_INODE.load());
        [u32::from(probe::<u64>(socket, OFF_SOCKET_SK.load()) != 0); 2]
    }
}
