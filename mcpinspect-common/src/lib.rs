//! What both sides of the kernel boundary agree on: records, endpoints, limits and statistics.
//!
//! The probes write these structures and the daemon reads them; one definition serves both, so
//! that they cannot drift apart. Everything is `repr(C)` without padding, in native byte order.
#![no_std]

mod endpoint;
mod limits;
mod record;
mod stats;
mod syscall;

pub use endpoint::{Counters, End, EndpointKey, EndpointKind, Watch};
pub use limits::{
    ENDPOINTS_MAX, INVOLVED_SLOTS, PAYLOAD_CLASSES, PAYLOAD_MAX, PLAIN_BUDGET,
    SNIFF_BUDGET_DEFAULT, SYSCALL_TABLE_LEN, involved_slot,
};
pub use record::{EndpointReport, RecordFlags, RecordHeader, RecordKind};
pub use stats::Stat;
pub use syscall::Operation;

#[cfg(feature = "user")]
mod pod {
    //! Marks the map keys and values as plain data for aya.

    use crate::{Counters, EndpointKey, Watch};

    // SAFETY: `repr(C)`, integers only, no padding, every bit pattern valid.
    unsafe impl aya::Pod for EndpointKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Watch {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Counters {}
}
