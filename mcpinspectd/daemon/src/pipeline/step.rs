//! What moves the pipeline.

use mcpinspect_core::model::{Input, Timestamp};

/// What moves the pipeline. Each stage passes it on to the next, and before it whatever has waited for it.
#[expect(
    clippy::large_enum_variant,
    reason = "one is made for each input, and only borrowed"
)]
pub(super) enum Step<'a> {
    /// Something arrived.
    Input(Input<'a>),
    /// Time has passed: it is now this late.
    Time(Timestamp),
}
