//! The maps that the probes share with each other and with user space.
//!
//! Cost to other processes: [`OPERATIONS`] is read by every system call (at the tracepoint), and
//! [`TRACKED`] by every call that carries bytes. Both are arrays, so a look-up is a bounds check and
//! a load. All other maps serve tracked processes alone.
//!
//! Minimum kernel version: 5.8 (ring buffer).

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use mcpinspect_common::{
    ENDPOINTS_MIN, EndpointCounters, EndpointKey, EndpointWatch, LEFT_ALONE_MAX, LeftAlone,
    RING_SHARES, SYSCALL_TABLE_LEN, Stat, TRACKED_SLOTS,
};

/// All records for user space. The loader sets the size.
#[map]
pub static RECORDS: RingBuf = RingBuf::with_byte_size(16 << 20, 0);

/// Bytes of each user's records that were written to [`RECORDS`], see [`crate::ring_share`].
#[map]
pub static RING_WRITTEN: Array<u64> = Array::with_max_entries(RING_SHARES, 0);

/// How many of these were read. User space maps the array and adds to it.
#[map]
pub static RING_READ: Array<u64> = Array::with_max_entries(RING_SHARES, BPF_F_MMAPABLE);

/// System call number to [`mcpinspect_common::Operation`].
#[map]
pub static OPERATIONS: Array<u8> = Array::with_max_entries(SYSCALL_TABLE_LEN, 0);

/// Processes by slot. The first word is 0, or the time at which a tracked process was last marked. User
/// space maps the array and takes a mark back by compare-and-swap on the time, so that a later mark
/// stays. The second word has a bit for each process that may have a TCP connection
/// ([`mcpinspect_common::connection_bit`]).
#[map]
pub static TRACKED: Array<[u64; 2]> = Array::with_max_entries(TRACKED_SLOTS, BPF_F_MMAPABLE);

/// Connections that are left alone, by [`mcpinspect_common::left_alone_key`]. Both sides insert and remove entries.
#[map]
pub static LEFT_ALONE: LruHashMap<u64, LeftAlone> = LruHashMap::with_max_entries(LEFT_ALONE_MAX, 0);

/// Connections that were registered: of all users in slot 0, and of each user in their slot
/// ([`mcpinspect_common::ring_share_slot`]).
#[map]
pub static CONNECTIONS_OPENED: Array<u64> = Array::with_max_entries(RING_SHARES, 0);

/// How many of these were forgotten. User space maps the array and adds to it.
#[map]
pub static CONNECTIONS_CLOSED: Array<u64> = Array::with_max_entries(RING_SHARES, BPF_F_MMAPABLE);

/// Known endpoints and how far they are watched. Only user space changes entries. The loader sets the
/// size. At most one fourth are connections.
#[map]
pub static WATCHES: HashMap<EndpointKey, EndpointWatch> =
    HashMap::with_max_entries(ENDPOINTS_MIN, 0);

/// Counters of the known endpoints. Only the probes change entries. The loader sets the size.
#[map]
pub static COUNTERS: HashMap<EndpointKey, EndpointCounters> =
    HashMap::with_max_entries(ENDPOINTS_MIN, 0);

/// Endpoints for the next run of the descriptor iterator to register.
#[map]
pub static CANDIDATES: HashMap<EndpointKey, u8> = HashMap::with_max_entries(ENDPOINTS_MIN, 0);

/// Descriptor tables that surveys have examined: what each found there, see [`crate::survey`].
#[map]
pub static TABLES: LruHashMap<u64, TableSeen> = LruHashMap::with_max_entries(16_384, 0);

/// What a survey found in a descriptor table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TableSeen {
    /// The survey's number, as the kernel assigns it to each open iterator.
    pub survey: u64,
    /// 1 if one of its descriptors leads to a watched endpoint.
    pub busy: u64,
}

/// Process and mechanism of each process-wide blind spot that was reported.
#[map]
pub static BLIND_REPORTED: LruHashMap<u64, u8> = LruHashMap::with_max_entries(4096, 0);

/// Not 0 while function exits take over from the tracepoint; see [`crate::switchover`].
#[map]
pub static SWITCHING_OVER: Array<u32> = Array::with_max_entries(1, 0);

/// Threads of tracked processes (as `bpf_get_current_pid_tgid` returns them) that have ended a call
/// since the switchover began.
#[map]
pub static THREADS_SEEN: HashMap<u64, u8> = HashMap::with_max_entries(8192, 0);

/// [`Stat`]s.
#[map]
pub static STATS: PerCpuArray<u64> = PerCpuArray::with_max_entries(Stat::COUNT, 0);

/// Adds to a statistic.
#[inline(always)]
pub fn count(stat: Stat, amount: u64) {
    if let Some(slot) = STATS.get_ptr_mut(stat as u32) {
        // SAFETY: a per-CPU slot, and the programs do not nest on a CPU.
        unsafe { *slot += amount };
    }
}
