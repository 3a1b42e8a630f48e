//! Reports where bytes move past the probes.

use super::flow::SessionIndex;
use super::step::Step;
use crate::capture::Origin;
use crate::model::{BlindMechanism, Input, Pid};

/// Reports that a process of a session moved bytes in a way that the probes cannot see, if the
/// session has been announced.
///
/// Where the other end of the stream has the same bytes, nothing is lost and there is nothing to
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
        // The stream is not known, so nothing says that its other end was seen.
        report(step, index, mechanism, origin, false);
    }
}
