//! Reports where bytes move past the probes.

use mcpinspect_core::model::{BlindMechanism, BootTime};

use super::flow::SessionIndex;
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
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    if covered_by_other_end {
        step.processes.blind.count_covered();
        tracing::debug!(
            session = %session.id,
            %mechanism,
            pid = origin.tgid,
            "a blind spot, covered by the other end of the stream"
        );
    } else if session.announced {
        step.output
            .blind_spot(Some(&session.id), mechanism, origin, None, None);
    }
}

/// Reports the sessions whose parties are blind processes.
pub fn report_processes(step: &mut Step<'_>, time: BootTime) {
    let mut found = Vec::new();
    for (index, session) in step.traffic.sessions.iter() {
        for tgid in [session.server, session.client].into_iter().flatten() {
            if let Some(mechanism) = step.processes.blind.mechanism_of(tgid) {
                found.push((index, mechanism, Origin { tgid, time }));
            }
        }
    }
    for (index, mechanism, origin) in found {
        // The stream is unknown, so nothing says that its other end was seen.
        report(step, index, mechanism, origin, false);
    }
}

/// Reports what was noted about a session's streams before it was announced.
pub fn report_suspicions(step: &mut Step<'_>, index: SessionIndex, time: BootTime) {
    let Some(session) = step.traffic.sessions.get_mut(index) else {
        return;
    };
    if !session.announced {
        return;
    }
    for (mechanism, tgid) in std::mem::take(&mut session.suspicions) {
        report(step, index, mechanism, Origin { tgid, time }, false);
    }
}
