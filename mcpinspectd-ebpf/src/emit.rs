//! Writes records into the ring.
//!
//! Cost to other processes: none. A watched process pays for one reservation and one copy per
//! record. Waking the reader costs more than both, so the probes leave it to the kernel's own rule
//! unless the reader's pause would become too long.
//!
//! Minimum kernel version: 5.8 (ring buffer, `bpf_ktime_get_boot_ns`).

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP},
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_ktime_get_boot_ns, bpf_probe_read_user},
    },
};
use mcpinspect_common::{
    CLIENT_HELLO_MAX, End, EndpointKey, RecordFlags, RecordHeader, RecordKind, Stat,
};

use crate::maps::{RECORDS, count};
use crate::ring_share;

/// The reader lets small records gather for a moment. If more bytes than this wait, a record wakes it
/// early.
const WAKE_ABOVE: u64 = 64 << 10;
/// If more bytes than this wait, the reader is at work, and waking it is pointless.
const AWAKE_ABOVE: u64 = 512 << 10;
/// If more bytes than this wait, the reader is behind: fewer gather in its pauses.
const BEHIND_ABOVE: u64 = 128 << 10;

/// A record as laid out in the ring.
#[repr(C)]
struct Record<T> {
    header: RecordHeader,
    payload: T,
}

/// A header for what the running thread does now.
#[inline(always)]
pub fn header(kind: RecordKind, end: u8, key: EndpointKey, position: u64) -> RecordHeader {
    let id = bpf_get_current_pid_tgid();
    RecordHeader {
        kind: kind as u8,
        end,
        flags: 0,
        share: 0,
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

/// Ships a header without a payload.
#[inline(always)]
pub fn header_only(header: RecordHeader) {
    with_payload(header, ());
}

/// Ships a header with a payload of constant size. A record that does not fit is counted. Returns whether
/// it is in the ring.
#[inline(always)]
pub fn with_payload<T: 'static>(mut header: RecordHeader, payload: T) -> bool {
    header.len = size_of::<T>() as u32;
    let Some(mut entry) = RECORDS.reserve::<Record<T>>(0) else {
        count(Stat::LifecycleLost, 1);
        return false;
    };
    entry.write(Record { header, payload });
    entry.submit(0);
    true
}

/// Ships a header with a copy of a payload that is in a map: it may be too large for the stack.
#[inline(always)]
pub fn with_copy_of<T: Copy + 'static>(mut header: RecordHeader, payload: &T) -> bool {
    header.len = size_of::<T>() as u32;
    let Some(mut entry) = RECORDS.reserve::<Record<T>>(0) else {
        count(Stat::LifecycleLost, 1);
        return false;
    };
    let record = entry.as_mut_ptr();
    // SAFETY: reserved memory that belongs to this program until it is submitted.
    unsafe {
        (&raw mut (*record).header).write(header);
        (&raw mut (*record).payload).copy_from_nonoverlapping(payload, 1);
    }
    entry.submit(0);
    true
}

/// Ships `length` bytes (1 to `N`) of a stream in a record of capacity `N`. They are in the running process's
/// memory. Returns whether they are in the ring.
#[inline(always)]
pub fn user_bytes<const N: usize>(header: RecordHeader, address: u64, length: u32) -> bool {
    let shipped = copied::<N>(header, address, length);
    match shipped {
        Shipped::Whole => {
            count(Stat::Records, 1);
            count(Stat::Bytes, u64::from(length));
        }
        Shipped::Fault => count(Stat::BytesFaulted, u64::from(length)),
        Shipped::NoRoom => {
            count(Stat::RecordsLost, 1);
            count(Stat::BytesLost, u64::from(length));
        }
    }
    matches!(shipped, Shipped::Whole)
}

/// Tells of `length` bytes of a stream that were taken from it without a copy.
#[inline(always)]
pub fn uncopied(mut header: RecordHeader, length: u64) {
    header.flags = RecordFlags::UNCOPIED;
    header.aux = length;
    header_only(header);
}

/// Ships the greeting of a TLS connection that the running process begins, which is `length` bytes (at least 1) at
/// `address`.
#[inline(always)]
pub fn client_hello(address: u64, length: u64) {
    const MAX: u32 = CLIENT_HELLO_MAX;
    let header = header(
        RecordKind::ClientHello,
        End::Writer as u8,
        EndpointKey::default(),
        0,
    );
    let length = if length < u64::from(MAX) {
        length as u32
    } else {
        MAX
    };
    if matches!(
        copied::<{ MAX as usize }>(header, address, length),
        Shipped::NoRoom
    ) {
        count(Stat::LifecycleLost, 1);
    }
}

/// What became of bytes that were to be shipped.
enum Shipped {
    Whole,
    /// They could not be read. The record says so.
    Fault,
    /// There was no room for a record.
    NoRoom,
}

/// Ships `length` bytes (1 to `N`) of the running process's memory in a record of capacity `N`.
#[inline(always)]
fn copied<const N: usize>(mut header: RecordHeader, address: u64, length: u32) -> Shipped {
    let room = ring_share::admit();
    let entry = room.and_then(|share| Some((share, RECORDS.reserve::<Record<[u8; N]>>(0)?)));
    let Some((share, mut entry)) = entry else {
        return Shipped::NoRoom;
    };
    share.charge(&mut header, size_of::<Record<[u8; N]>>());
    let record = entry.as_mut_ptr();
    // The length is between 1 and N, but older verifiers have lost that bound by now. The mask
    // restores it, whatever the compiler does with registers. N is a power of two.
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
    } else {
        header.flags = RecordFlags::FAULT;
        header.aux = u64::from(length);
    }
    // SAFETY: reserved memory that belongs to this program until it is submitted.
    unsafe { (&raw mut (*record).header).write(header) };
    entry.submit(wake_up());
    if copied {
        Shipped::Whole
    } else {
        Shipped::Fault
    }
}

/// Whether the reader is behind, so that dispensable records should be dropped.
#[inline(always)]
pub fn reader_is_behind() -> bool {
    RECORDS.query(u64::from(BPF_RB_AVAIL_DATA)) > BEHIND_ABOVE
}

/// How a record wakes the reader: by the kernel's own rule (only if nothing else waits), or at once
/// if too much has gathered.
#[inline(always)]
fn wake_up() -> u64 {
    let waiting = RECORDS.query(u64::from(BPF_RB_AVAIL_DATA));
    if waiting > WAKE_ABOVE && waiting <= AWAKE_ABOVE {
        u64::from(BPF_RB_FORCE_WAKEUP)
    } else {
        0
    }
}
