//! Sizes that both sides rely on.

/// Endpoints that can be registered at a time on a small machine; the loader makes the tables larger on
/// others. A machine has far fewer MCP streams; the rest is room for the stdio of other processes until
/// user space has ruled them out.
pub const ENDPOINTS_MIN: u32 = 16_384;

/// Payload bytes of the largest size class of records. Longer transfers are shipped in pieces.
pub const PAYLOAD_MAX: u32 = 64 * 1024;

/// Payload capacities of the records. A reservation in the ring must have a constant size, so each
/// piece takes the smallest class that it fits into: at most four times its size, eight times below 256
/// bytes, or the smallest class. That one is for peers that write byte by byte: they make the most records.
pub const PAYLOAD_CLASSES: [u32; 6] = [32, 256, 1024, 4 * 1024, 16 * 1024, PAYLOAD_MAX];

/// Bytes of a TLS client's greeting to ship. With keys that withstand quantum computers, greetings have some 1,800.
/// A power of two.
pub const CLIENT_HELLO_MAX: u32 = 4 * 1024;

/// Bytes per end to ship of a stream that begins like JSON and may or may not be MCP. The
/// first line usually decides; the rest covers the time until user space has examined it.
pub const SNIFF_BUDGET_DEFAULT: u64 = 4 << 20;

/// Bytes per end to ship of a stream that begins like something else: a server may print some
/// text before its first message, but not much.
pub const NOT_JSON_BUDGET: u64 = 64 * 1024;

/// Added to a limit of [`crate::EndpointWatch::ship_limit`]: payload is shipped up to the limit even if
/// the stream begins like something else.
pub const SHIP_REGARDLESS: u64 = 1 << 63;

/// Shares of the ring: one for each user, unless two users' ids map to the same one.
pub const RING_SHARES: u32 = 256;

/// A user's waiting bytes may be this many times the free ones.
pub const RING_SHARE_FACTOR: u64 = 4;

/// While fewer bytes than this wait in the ring, there is room for everyone.
pub const RING_SHARED_ABOVE: u64 = 1 << 20;

/// The share of a user in the ring, from 1.
pub const fn ring_share_slot(uid: u32) -> u8 {
    // Fibonacci hashing: consecutive ids are spread.
    let slot = (uid.wrapping_mul(0x9e37_79b1) >> 24) as u8;
    if slot == 0 { 1 } else { slot }
}

/// System call numbers covered by the probes' table.
pub const SYSCALL_TABLE_LEN: u32 = 512;

/// Slots of the table of processes. A power of two.
pub const TRACKED_SLOTS: u32 = 65_536;

/// The slot of a process in the table of processes. Processes whose ids are equal modulo the
/// table's size share a slot: an untracked one then pays for look-ups that find nothing.
pub const fn tracked_slot(tgid: u32) -> u32 {
    tgid & (TRACKED_SLOTS - 1)
}

/// The bit of a process in its slot's word of processes with connections. Process ids are below 2^22, so no
/// two processes have the same slot and bit.
pub const fn connection_bit(tgid: u32) -> u64 {
    1 << ((tgid / TRACKED_SLOTS) & 63)
}
