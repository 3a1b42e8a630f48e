//! What people decided about pins, as events.

use std::sync::Arc;

use super::shown;
use crate::event::{Event, Subject};
use crate::model::{ServerId, SessionId};
use crate::registry::{Decided, Kind};

/// The event of a decision.
pub(super) fn event(decided: Decided) -> Event {
    let Decided {
        server,
        key,
        decision,
    } = decided;
    Event::Policy {
        subject: Subject {
            timestamp: decision.time,
            session_id: SessionId::none(),
            server_id: ServerId(Arc::from(server)),
            server_type: "stdio",
            server_pid: None,
        },
        item: key.kind.as_str().to_owned(),
        tool_name: (key.kind == Kind::Tool).then(|| shown::name(&key.name)),
        hash: decision.hash.map(|hash| hash.to_string()),
        decision: decision.verb.as_str().to_owned(),
        uid: decision.uid,
        reason: shown::description(&decision.reason),
    }
}
