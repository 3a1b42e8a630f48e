//! A server whose end of the wire says something else than the client's.

use super::{Finding, finding, shown};
use crate::detect::analyse::Report;
use crate::detect::api::Difference;
use crate::detect::category::Category;
use crate::model::{Action, Direction, Severity};

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
    let what = Finding {
        pattern: "ends-disagree",
        category: Category::WireTampering,
        severity: Severity::High,
        action: Action::Alert,
    };
    let server = shown::excerpt(&String::from_utf8_lossy(server), 160);
    let explanation = format!(
        "What {how} is not what stood in the server's memory: from byte {position} of the stream on, up to {bytes} \
         bytes differ. There the server had `{server}`. One that rewrites its buffers in the moment of the call \
         wants to be recorded with other words than it used; the record has the client's bytes."
    );
    finding(
        what,
        direction.as_str(),
        &String::from_utf8_lossy(client),
        explanation,
    )
}
