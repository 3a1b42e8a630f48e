//! Putting records into the ring.

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP},
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_ktime_get_boot_ns, bpf_probe_read_user},
    },
};
use mcpinspect_common::{EndpointKey, RecordFlags, RecordHeader, RecordKind, Stat};

use crate::maps::{RECORDS, count};

/// Bytes that may gather in the ring before its reader, who lets small records do so, is called
/// again. It is called as long as no more wait than the second figure: above that it is at work.
const GATHERED: u64 = 64 << 10;
const AT_WORK: u64 = 512 << 10;
/// From how many bytes on the reader is behind: more than gather in its pauses.
const BEHIND: u64 = 128 << 10;

/// A record as it lies in the ring.
#[repr(C)]
struct Record<T> {
    header: RecordHeader,
    payload: T,
}

/// A header for something that the running thread did now.
#[inline(always)]
pub fn header(kind: RecordKind, end: u8, key: EndpointKey, position: u64) -> RecordHeader {
    let id = bpf_get_current_pid_tgid();
    RecordHeader {
        kind: kind as u8,
        end,
        flags: 0,
        len: 0,
        key,
        position,
        // SAFETY: no arguments.
        time: unsafe { bpf_ktime_get_boot_ns() },
        tgid: (id >> 32) as u32,
        tid: id as u32,
        aux: 0,
    }
}

/// Ships a header alone.
#[inline(always)]
pub fn bare(header: RecordHeader) {
    fixed(header, ());
}

/// Ships a header with a payload of constant size. Loss is counted.
#[inline(always)]
pub fn fixed<T: 'static>(mut header: RecordHeader, payload: T) {
    header.len = size_of::<T>() as u32;
    let Some(mut entry) = RECORDS.reserve::<Record<T>>(0) else {
        count(Stat::LifecycleLost, 1);
        return;
    };
    entry.write(Record { header, payload });
    entry.submit(0);
}

/// Ships `length` bytes, between 1 and `N`, of the running process's memory in a record of capacity
/// `N`. Gives back whether they are on their way.
#[inline(always)]
pub fn user_bytes<const N: usize>(mut header: RecordHeader, address: u64, length: u32) -> bool {
    let Some(mut entry) = RECORDS.reserve::<Record<[u8; N]>>(0) else {
        count(Stat::RecordsLost, 1);
        count(Stat::BytesLost, u64::from(length));
        return false;
    };
    let record = entry.as_mut_ptr();
    // Between 1 and N already; the verifier of older kernels has forgotten that by now, and a mask
    // reminds it whatever the compiler does with registers. N is a power of two.
    let size = (core::hint::black_box(length).wrapping_sub(1) & (N as u32 - 1)) + 1;
    // SAFETY: `payload` has N bytes and `size` is at most that; the helper checks the address.
    let copied = unsafe {
        bpf_probe_read_user(
            (&raw mut (*record).payload).cast(),
            size,
            address as *const _,
        )
    } == 0;
    if copied {
        header.len = length;
        count(Stat::Records, 1);
        count(Stat::Bytes, u64::from(length));
    } else {
        header.flags = RecordFlags::FAULT;
        header.aux = u64::from(length);
        count(Stat::BytesFaulted, u64::from(length));
    }
    // SAFETY: the record is reserved memory that is ours until submitted.
    unsafe { (&raw mut (*record).header).write(header) };
    entry.submit(wake_up());
    copied
}

/// Whether its reader is behind: time to do without what is not needed.
#[inline(always)]
pub fn is_behind() -> bool {
    RECORDS.query(u64::from(BPF_RB_AVAIL_DATA)) > BEHIND
}

/// How the reader is to be told of a record: by the kernel's own rule, which is when nothing else
/// waits, and at once when its pause would be too long.
#[inline(always)]
fn wake_up() -> u64 {
    let waiting = RECORDS.query(u64::from(BPF_RB_AVAIL_DATA));
    if waiting > GATHERED && waiting <= AT_WORK {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        0
    }
}
