//! Which streams are watched, and how far.
//!
//! User space writes these settings; the probes read them (and insert the first, see
//! [`crate::endpoint`]).
//!
//! Cost to other processes: none. A tracked process pays for the path from the descriptor to the
//! inode (see [`crate::descriptor`]) and one hash look-up for each call that carries bytes.

use mcpinspect_common::{EndpointKey, EndpointWatch};

use crate::{descriptor, kernel::probe, maps::WATCHES, offsets::OFF_INODE_INO};

/// The endpoint behind `file`, if its bytes are counted.
#[inline(always)]
pub fn watched(file: u64) -> Option<EndpointKey> {
    let (key, _) = descriptor::endpoint(file)?;
    // An ignored stream stays in the map: otherwise the next exec would register it as new.
    is_counted(key)?.then_some(key)
}

/// The TCP connection behind `file`, if its bytes are counted.
#[inline(always)]
pub fn watched_connection(file: u64) -> Option<EndpointKey> {
    let inode = descriptor::socket_inode(file)?;
    let key = descriptor::connection_key(probe(inode, OFF_INODE_INO.load()));
    is_counted(key)?.then_some(key)
}

/// Whether the bytes of an endpoint are counted; `None` if it is unknown.
#[inline(always)]
pub fn is_counted(key: EndpointKey) -> Option<bool> {
    let watch = WATCHES.get_ptr(key)?;
    // SAFETY: an aligned word of a map entry.
    Some(unsafe { (&raw const (*watch).counted).read_volatile() } != 0)
}

/// The stream position below which payload of `end` is shipped; 0 for an unknown endpoint.
#[inline(always)]
pub fn ship_limit(key: &EndpointKey, end: usize) -> u64 {
    WATCHES.get_ptr(key).map_or(0, |watch| limit(watch, end))
}

/// Whether what is written at `key` is shipped only to be compared with what is read.
#[inline(always)]
pub fn is_compare_only(key: &EndpointKey) -> bool {
    WATCHES.get_ptr(key).is_some_and(|watch| {
        // SAFETY: as in `limit`.
        unsafe { (&raw const (*watch).compare_only).read_volatile() != 0 }
    })
}

#[inline(always)]
fn limit(watch: *const EndpointWatch, end: usize) -> u64 {
    // SAFETY: an aligned word of a map entry. User space replaces entries while programs run, so
    // the value read may be the one before.
    unsafe { (&raw const (*watch).ship_limit[end & 1]).read_volatile() }
}
