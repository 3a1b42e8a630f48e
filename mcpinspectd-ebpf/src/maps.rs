//! The maps: what the probes share with each other and with user space.

use crate::copy::Copy;
use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use mcpinspect_common::{
    ENDPOINTS_MAX, EndpointCounters, EndpointKey, EndpointWatch, SYSCALL_TABLE_LEN, Stat,
    TRACKED_SLOTS,
};

/// Everything that goes to user space. The loader sets the size.
#[map]
pub static RECORDS: RingBuf = RingBuf::with_byte_size(16 << 20, 0);

/// System call number to [`mcpinspect_common::Operation`].
#[map]
pub static OPERATIONS: Array<u8> = Array::with_max_entries(SYSCALL_TABLE_LEN, 0);

/// Tracked processes by slot: 0, or a stamp of when the process was last marked. Eight bytes each,
/// which is how far the kernel spaces an array's values anyway. User space maps it and takes a mark back by compare-and-swap on the stamp, so that a mark set meanwhile stays.
#[map]
pub static TRACKED: Array<u64> = Array::with_max_entries(TRACKED_SLOTS, BPF_F_MMAPABLE);

/// Known endpoints and how far they are watched. Entries are changed by user space alone.
#[map]
pub static WATCHES: HashMap<EndpointKey, EndpointWatch> =
    HashMap::with_max_entries(ENDPOINTS_MAX, 0);

/// What is counted at the known endpoints. Entries are changed by the probes alone.
#[map]
pub static COUNTERS: HashMap<EndpointKey, EndpointCounters> =
    HashMap::with_max_entries(ENDPOINTS_MAX, 0);

/// Endpoints that the next run of the descriptor iterator shall register.
#[map]
pub static CANDIDATES: HashMap<EndpointKey, u8> = HashMap::with_max_entries(ENDPOINTS_MAX, 0);

/// Tracked processes that were already reported as users of a mechanism that hides its bytes.
#[map]
pub static BLIND_REPORTED: LruHashMap<u64, u8> = LruHashMap::with_max_entries(4096, 0);

/// Not 0 while function exits take over from the tracepoint.
#[map]
pub static HANDING_OVER: Array<u32> = Array::with_max_entries(1, 0);

/// Threads of tracked processes (as `bpf_get_current_pid_tgid` has them) that have ended a call since
/// then; see [`crate::handover`].
#[map]
pub static THREADS: HashMap<u64, u8> = HashMap::with_max_entries(8192, 0);

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

/// What the copying of the current call works on.
#[map]
pub static COPY: PerCpuArray<Copy> = PerCpuArray::with_max_entries(1, 0);
