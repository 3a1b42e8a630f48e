//! What one side sent differs from what the other has: the bytes of a stream at its two ends, or what a
//! client has to hand back unchanged.

use mcpinspect_core::model::Direction;
use mcpinspect_core::model::{Action, Severity};

use super::findings::{FindingKind, finding};
use crate::detect::analysis::Report;
use crate::detect::api::Difference;
use crate::detect::category::Category;
use crate::detect::text::sanitise::excerpt;

/// The finding that the two ends of a stream differ.
pub(super) fn judge(difference: &Difference<'_>) -> Report {
    let Difference {
        direction,
        position,
        bytes,
        read,
        written,
    } = *difference;
    let (client, server, how) = match direction {
        Direction::ClientToServer => (written, read, "the client sent"),
        Direction::ServerToClient => (read, written, "the client received"),
    };
    let kind = FindingKind {
        pattern: "ends-disagree",
        category: Category::WireTampering,
        severity: Severity::High,
        action: Action::Alert,
    };
    let server = excerpt(&String::from_utf8_lossy(server), 160);
    let explanation = format!(
        "What {how} is not what stood in the server's memory: from byte {position} of the stream on, up to {bytes} \
         bytes differ. There the server had `{server}`. One that rewrites its buffers in the moment of the call \
         wants to be recorded with other words than it used; the record has the client's bytes."
    );
    finding(
        kind,
        direction.as_str(),
        &String::from_utf8_lossy(client),
        explanation,
    )
}

/// The finding that a `requestState` came back altered.
pub(super) fn altered_state() -> Report {
    let kind = FindingKind {
        pattern: "request-state-altered",
        category: Category::WireTampering,
        severity: Severity::Medium,
        action: Action::Warn,
    };
    let explanation = "The client went on with a call that had asked for input, and sent back another \
        `requestState` than the server had issued. The state is the server's: a client has to return it as it \
        was, and one that changes it may change what the server believes it has agreed to.";
    finding(kind, "params.requestState", "", explanation.into())
}
