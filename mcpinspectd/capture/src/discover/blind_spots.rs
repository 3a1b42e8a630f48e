//! Reports where bytes move past the probes.

use mcpinspect_core::model::{BlindMechanism, Input, Pid, SessionId};

use super::flow::SessionIndex;
use super::shares::{NOBODY_KNOWN, Uid};
use super::step::Step;
use crate::capture::Origin;

/// Reports that a process of a session moved bytes in a way that the probes cannot see, if the
/// session has been announced.
///
/// If the other end of the stream has the same bytes, nothing is lost and there is nothing to
/// report: that is only counted.
pub fn report(
    step: &mut Step<'_>,
    index: SessionIndex,
    mechanism: BlindMechanism,
    origin: Origin,
    covered_by_other_end: bool,
) {
    let Some(session) = step.sessions.get(index) else {
        return;
    };
    if covered_by_other_end {
        step.blind.count_covered();
        tracing::debug!(
            session = %session.id,
            %mechanism,
            pid = origin.tgid,
            "a blind spot, covered by the other end of the stream"
        );
    } else if session.announced {
        step.sink.input(Input::BlindSpot {
            session: (&session.id).into(),
            mechanism,
            pid: Pid(origin.tgid),
            uid: None,
            found: None,
            time: step.clock.at(origin.time),
        });
    }
}

/// Reports the sessions whose parties are blind processes.
pub fn report_processes(step: &mut Step<'_>, time: u64) {
    let mut found = Vec::new();
    for (index, session) in step.sessions.iter() {
        for tgid in [session.server, session.client].into_iter().flatten() {
            if let Some(mechanism) = step.blind.mechanism_of(tgid) {
                found.push((index, mechanism, Origin { tgid, time }));
            }
        }
    }
    for (index, mechanism, origin) in found {
        // The stream is unknown, so nothing says that its other end was seen.
        report(step, index, mechanism, origin, false);
    }
}

/// Reports that a user has exhausted their share, unless that was reported recently.
pub fn report_user(step: &mut Step<'_>, budget: BlindMechanism, user: Uid, origin: Origin) {
    if !step.notices.is_due(user, budget, origin.time) {
        return;
    }
    tracing::warn!(
        user,
        pid = origin.tgid,
        budget = budget.as_str(),
        "a user has used up what there is for one"
    );
    step.sink.input(Input::BlindSpot {
        session: std::borrow::Cow::Owned(SessionId::none()),
        mechanism: budget,
        pid: Pid(origin.tgid),
        uid: (user != NOBODY_KNOWN).then_some(user),
        found: None,
        time: step.clock.at(origin.time),
    });
}

/// Reports that a process known to speak MCP does so in a way that cannot be followed, and what was
/// found out about it.
pub fn report_party(
    step: &mut Step<'_>,
    mechanism: BlindMechanism,
    origin: Origin,
    found: Option<String>,
) {
    step.sink.input(Input::BlindSpot {
        session: std::borrow::Cow::Owned(SessionId::none()),
        mechanism,
        pid: Pid(origin.tgid),
        uid: None,
        found: found.map(std::borrow::Cow::Owned),
        time: step.clock.at(origin.time),
    });
}

/// Reports what was noted about a session's streams before it was announced.
pub fn report_suspicions(step: &mut Step<'_>, index: SessionIndex, time: u64) {
    let Some(session) = step.sessions.get_mut(index) else {
        return;
    };
    if !session.announced {
        return;
    }
    for (mechanism, tgid) in std::mem::take(&mut session.suspicions) {
        report(step, index, mechanism, Origin { tgid, time }, false);
    }
}
