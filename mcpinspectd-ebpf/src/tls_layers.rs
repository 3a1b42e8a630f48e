//! Which TLS object a call of NSPR is about.
//!
//! NSS has no functions of its own that move bytes. TLS is a layer of a descriptor of NSPR's, right above the socket;
//! whoever uses it may have put others on top, as Firefox does. The same functions read files and plain sockets, which
//! have one layer.
//!
//! Minimum kernel version: 5.17, like the rest of [`crate::tls`].

use crate::kernel::user;

/// Where a layer (`PRFileDesc` in `prio.h`) has what is its own, and where the layer below it; as in every
/// version of NSPR.
const SECRET: u64 = 8;
const LOWER: u64 = 16;
/// Most layers to look at.
const LAYERS: u32 = 6;

/// `PR_MSG_PEEK`.
pub const PEEK: u64 = 2;

/// What the lowest layer but one keeps for itself: `sslSocket` if it is NSS's. `None` if there is one layer, or too many.
#[inline(always)]
pub fn object(top: u64) -> Option<u64> {
    let mut layer = top;
    let mut lower = user::<u64>(layer.wrapping_add(LOWER))?;
    for _ in 0..LAYERS {
        if lower == 0 {
            return None;
        }
        let below = user::<u64>(lower.wrapping_add(LOWER))?;
        if below == 0 {
            return user::<u64>(layer.wrapping_add(SECRET));
        }
        layer = lower;
        lower = below;
    }
    None
}
