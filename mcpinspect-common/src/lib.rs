//! The types that both sides of the kernel boundary share: records, endpoints, limits, statistics.
//!
//! The probes write these structures and the daemon reads them. Both compile the same definition, so
//! that they cannot drift apart. Every structure is `repr(C)` without padding, in native byte order.
#![no_std]

mod connection;
mod endpoint;
mod exec;
mod limits;
mod record;
mod stats;
mod survey;
mod syscall;
mod tls;

pub use connection::{
    CONNECTION_BUDGET, CONNECTION_POST_BUDGET, CONNECTIONS_SHARE, ConnectionReport, LEFT_ALONE_MAX,
    LOOK_AT_BOTH, LeftAlone, NO_REQUESTS, PLACE_WORDS, TlsPartyKey, UNIX_ADDRESS, left_alone_key,
};
pub use endpoint::{End, EndpointCounters, EndpointKey, EndpointKind, EndpointWatch, REGISTERING};
pub use exec::{
    ARGUMENT_CLASSES, AncestorReport, EXEC_ANCESTORS, EXEC_NAME_MAX, EXEC_PATH_MAX, ExecReport,
    SHORT_NAME_MAX,
};
pub use limits::{
    CLIENT_HELLO_MAX, ENDPOINTS_MIN, NOT_JSON_BUDGET, PAYLOAD_CLASSES, PAYLOAD_MAX,
    RING_SHARE_FACTOR, RING_SHARED_ABOVE, RING_SHARES, SHIP_REGARDLESS, SNIFF_BUDGET_DEFAULT,
    SYSCALL_TABLE_LEN, TRACKED_SLOTS, connection_bit, ring_share_slot, tracked_slot,
};
pub use record::{EndpointReport, RecordFlags, RecordHeader, RecordKind};
pub use stats::Stat;
pub use survey::SurveyRow;
pub use syscall::Operation;
pub use tls::{GoEntry, TlsEntry, TlsExit, TlsNews, tls_scope};

#[cfg(feature = "user")]
mod pod {
    //! Declares the map keys and values as plain data for aya.

    use crate::{EndpointCounters, EndpointKey, EndpointWatch, LeftAlone, TlsPartyKey};

    // SAFETY: `repr(C)`, integers only, no padding, every bit pattern valid.
    unsafe impl aya::Pod for EndpointKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for EndpointWatch {}
    // SAFETY: as above.
    unsafe impl aya::Pod for EndpointCounters {}
    // SAFETY: as above.
    unsafe impl aya::Pod for LeftAlone {}
    // SAFETY: as above.
    unsafe impl aya::Pod for TlsPartyKey {}
}
