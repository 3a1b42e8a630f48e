//! Which sessions to follow when there are more than there is room for.
//!
//! The room is shared between users: one with fewer sessions than another gets a place from the
//! one with the most, whose quietest session is dropped. A dropped or refused session is followed again, from
//! its next message on, as soon as there is room; what it carried meanwhile is a gap of known length.

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::{BlindMechanism, BootTime, GapReason};

use super::admission_queue::Role;
use super::following;
use super::lifecycle;
use super::sessions::Room;
use super::step::Step;
use super::stream::{Reason, Stream};
use crate::capture::Origin;

/// Admits sessions that wait for room, while there is any.
pub fn admit(step: &mut Step<'_>, now: BootTime) {
    for (key, role) in step.quotas.admissions.take_arrived() {
        if !step.traffic.streams.is_undecided(key) {
            continue;
        }
        let owner = step.traffic.streams.owner(key);
        match step.traffic.sessions.room_for(owner) {
            Room::Free => {}
            Room::InPlaceOf(quietest) => lifecycle::make_way(step, quietest, now),
            Room::None => {
                refuse(step, key, role, now);
                continue;
            }
        }
        following::promote(step, key, role, now);
    }
    while step.traffic.sessions.has_room() {
        let Some((key, role)) = step.quotas.admissions.next_refused() else {
            return;
        };
        if step.traffic.streams.is_ignored(key, Reason::NoRoom) {
            following::resume(step, key, GapReason::SessionBudget);
            following::promote(step, key, role, now);
        }
    }
}

/// Follows neither a stream nor the other direction of its programs until there is room.
fn refuse(step: &mut Step<'_>, key: EndpointKey, role: Role, now: BootTime) {
    step.traffic.sessions.refuse();
    let streams = &step.traffic.streams;
    let seen = |stream: &Stream| stream.last_seen.into_iter().flatten().next();
    let tgid = streams.get(key).and_then(seen).unwrap_or(0);
    let user = streams.owner(key);
    let origin = Origin { tgid, time: now };
    step.quotas.report(
        &mut step.output,
        BlindMechanism::SessionBudget,
        user,
        origin,
    );
    following::leave_alone(step, key);
    step.quotas.admissions.refuse(key, role);
}
