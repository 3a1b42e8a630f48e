//! Bounds what waits in all sessions together.
//!
//! Each wait is short and has a bound of its own, but a user can have many sessions. So all of them share one
//! budget. Beyond it, the session with most releases it, of the user with most: what waits there is passed on
//! uncompared and with gaps, and the user is reported.

use mcpinspect_core::model::{BlindMechanism, BootTime};

use super::delivery;
use super::flow::SessionIndex;
use super::step::Step;
use crate::capture::Origin;

/// Has sessions release what waits until the rest is within the budget.
pub fn enforce(step: &mut Step<'_>, now: BootTime) {
    while step.traffic.sessions.backlog().bytes() > step.settings.max_backlog {
        let Some((user, index)) = step.traffic.sessions.with_most_backlog() else {
            return;
        };
        let session = step.traffic.sessions.get(index);
        let tgid = session.and_then(|session| session.server).unwrap_or(0);
        let origin = Origin { tgid, time: now };
        step.quotas.report(
            &mut step.output,
            BlindMechanism::SessionBudget,
            user,
            origin,
        );
        release(step, index, now);
    }
}

fn release(step: &mut Step<'_>, index: SessionIndex, now: BootTime) {
    tracing::debug!(
        session = index,
        "too much data is waiting in sessions; discarding the data of this one"
    );
    delivery::announce_pending(step, index, now);
    let Some(session) = step.traffic.sessions.get(index) else {
        return;
    };
    for (key, _) in session.streams() {
        step.traffic
            .pass_on(&mut step.output, key, now, |flow, emit| {
                flow.release(now, emit);
            });
    }
    step.traffic.flush(&mut step.output, index);
    // What remains, such as spare capacity, is counted again with the next change.
    step.traffic.sessions.set_backlog(index, 0);
}
