//! Reports where bytes move past the probes.

use super::flow::SessionIndex;
use super::step::Step;
use crate::capture::Origin;
use crate::model::{Input, Pid};

/// Reports a blind spot of a session that has been announced.
pub fn report(
    step: &mut Step<'_>,
    index: SessionIndex,
    mechanism: &'static str,
    origin: Origin,
    covered_by_other_end: bool,
) {
    if let Some(session) = step.sessions.get(index)
        && session.announced
    {
        step.sink.input(Input::BlindSpot {
            session: (&session.id).into(),
            mechanism: mechanism.into(),
            pid: Pid(origin.tgid),
            covered_by_other_end,
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
        report(step, index, mechanism.as_str(), origin, false);
    }
}
