//! Copies plain text: one buffer, piece by piece.
//!
//! Minimum kernel version: 5.17 (`bpf_loop`).

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_loop;
use mcpinspect_common::{End, EndpointKey, PAYLOAD_MAX};

use crate::{
    copy::ship,
    ledger,
    tls_slot::{self, Buffer},
};

/// Most pieces of one buffer: no call moves more than 2 GiB.
const PIECES_MAX: u32 = 1 << 15;

/// Accounts for `total` bytes at `address` that crossed `end`, and ships what the watch asks for.
#[inline(always)]
pub fn transferred(key: EndpointKey, end: End, address: u64, total: u64) {
    let extent = ledger::account(&key, end as usize, total);
    if extent.bytes == 0 {
        return;
    }
    if extent.bytes <= u64::from(PAYLOAD_MAX) {
        let length = extent.bytes as u32;
        return ship(&key, end as u8, extent.position, address, length);
    }
    let Some(index) = tls_slot::take() else {
        return ledger::lost(&key, end as usize, extent.bytes);
    };
    if let Some(slot) = tls_slot::at(index) {
        let buffer = Buffer {
            key,
            end: end as u64,
            position: extent.position,
            address,
            left: extent.bytes,
        };
        // SAFETY: a slot that this program has taken. The state is in a map because the verifier does not
        // track values through one: a step looks the same to it whatever came before.
        unsafe { (&raw mut (*slot).buffer).write(buffer) };
        let mut context = u64::from(index);
        // SAFETY: `step` has the signature of a loop callback, and the context outlives the loop.
        unsafe {
            bpf_loop(
                PIECES_MAX,
                step as *mut c_void,
                (&raw mut context).cast(),
                0,
            );
        }
    }
    tls_slot::release(index);
}

/// Ships one piece. Returns 1 if nothing is left.
unsafe extern "C" fn step(_index: u32, context: *mut c_void) -> i64 {
    // SAFETY: the context that `transferred` passes to the loop.
    let index = unsafe { context.cast::<u64>().read() } as u32;
    let Some(slot) = tls_slot::at(index) else {
        return 1;
    };
    // SAFETY: a slot that this program has taken.
    let buffer = unsafe { &mut (*slot).buffer };
    if buffer.left == 0 {
        return 1;
    }
    let length = if buffer.left < u64::from(PAYLOAD_MAX) {
        buffer.left as u32
    } else {
        PAYLOAD_MAX
    };
    ship(
        &buffer.key,
        buffer.end as u8 & 1,
        buffer.position,
        buffer.address,
        length,
    );
    let length = u64::from(length);
    buffer.position += length;
    buffer.address += length;
    buffer.left -= length;
    0
}
