//! Sizes that both sides build on.

/// Endpoints that can be known at a time. A machine holds far fewer MCP streams; the rest is room
/// for the stdio of short-lived processes until user space has ruled them out.
pub const ENDPOINTS_MAX: u32 = 16_384;

/// Payload bytes of a record's largest size class. Longer transfers are shipped in pieces.
pub const PAYLOAD_MAX: u32 = 64 * 1024;

/// Payload capacities of the records: a reservation in the ring must have a constant size, so one
/// class is picked per piece. A piece takes at most four times its size.
pub const PAYLOAD_CLASSES: [u32; 5] = [256, 1024, 4 * 1024, 16 * 1024, PAYLOAD_MAX];

/// Bytes per end that are shipped of a stream that may or may not be MCP and begins like JSON. User
/// space usually knows after the first line; the rest is for the moments until it has looked.
pub const SNIFF_BUDGET_DEFAULT: u64 = 4 << 20;

/// Bytes per end that are shipped of a stream that begins like something else: a server may print
/// text before it speaks, but not much.
pub const NOT_JSON_BUDGET: u64 = 64 * 1024;

/// System call numbers that the probes can tell apart.
pub const SYSCALL_TABLE_LEN: u32 = 512;

/// Slots of the table of tracked processes. A power of two.
pub const TRACKED_SLOTS: u32 = 65_536;

/// The slot of a process in the table of tracked processes. Processes whose ids are equal modulo
/// the table's size share one: the untracked one of them then pays for a look-up that finds
/// nothing.
pub const fn tracked_slot(tgid: u32) -> u32 {
    tgid & (TRACKED_SLOTS - 1)
}
