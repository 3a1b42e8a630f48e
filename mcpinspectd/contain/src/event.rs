//! Containment as an event: who did what to which server, and why.

use mcpinspect_core::model::ContainmentAction;
use mcpinspect_core::model::{Pid, ServerId, SessionId, Timestamp};
use mcpinspect_engine::event::{Event, Subject, body};

use super::Contained;

/// Why a server is contained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A person wants it.
    Person {
        /// Who.
        uid: u32,
    },
    /// The configuration does, because of this finding.
    Policy {
        /// Name of the rule.
        pattern: String,
    },
}

/// The event that `contained` is.
pub fn event(
    server: &ServerId,
    session: Option<&SessionId>,
    pid: Option<Pid>,
    action: ContainmentAction,
    trigger: &Trigger,
    contained: &Contained,
    now: Timestamp,
) -> Event {
    let (uid, pattern) = match trigger {
        Trigger::Person { uid } => (Some(*uid), None),
        Trigger::Policy { pattern } => (None, Some(pattern.clone())),
    };
    let subject = Subject {
        session_id: session.cloned().unwrap_or_else(SessionId::none),
        server_pid: pid,
        server_uid: None,
        ..Subject::server(server.clone())
    };
    let body = body::Contained {
        action,
        cgroups: contained.cgroups.clone(),
        processes: contained.processes.clone(),
        missed: contained.missed.clone(),
        uid,
        pattern,
    };
    Event::new(now, subject, body)
}
