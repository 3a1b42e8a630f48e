//! What bounds the engine.

use mcpinspect_core::session::DEFAULT_MAX_IN_FLIGHT;
use mcpinspect_core::wire::framing::{DEFAULT_MAX_FRAME, UNFINISHED_BESIDE};

/// What bounds the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest message, in bytes; larger ones are reported as lost.
    pub max_message: usize,
    /// Bytes of unfinished messages of all sessions together, in memory and files; above that, the largest is given up.
    pub max_unfinished: usize,
    /// Requests of one session and direction waiting for an answer; above that, the oldest are forgotten.
    pub max_in_flight: usize,
    /// Nanoseconds without an answer or progress after which a request counts as overdue.
    pub patience: u64,
}

/// The default for [`Limits::patience`]: how long the SDKs wait.
const PATIENCE: u64 = 60_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message: DEFAULT_MAX_FRAME,
            max_unfinished: DEFAULT_MAX_FRAME + UNFINISHED_BESIDE,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
            patience: PATIENCE,
        }
    }
}
