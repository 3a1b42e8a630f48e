//! What waits in sessions, all together: for bytes that have not arrived, for the other end, for its turn, or for
//! the client to show itself.
//!
//! Each wait is short and bounded, but a user can have many sessions. So all of them share one budget. Beyond
//! it, the session with most lets go, of the user with most: what waits there is passed on uncompared and
//! with gaps, and the user is reported.

use std::collections::HashMap;

use super::blind_spots;
use super::delivery::{self, pass_on};
use super::flow::{Flow, SessionIndex};
use super::step::Step;
use crate::capture::Origin;
use crate::model::{BlindMechanism, GapReason};

/// The memory taken by what waits, by session. `bytes` is always the sum.
#[derive(Debug, Default)]
pub struct Backlog {
    by_session: HashMap<SessionIndex, usize>,
    bytes: usize,
}

impl Backlog {
    /// How much waits in all sessions.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The sessions in which anything waits.
    pub fn iter(&self) -> impl Iterator<Item = (SessionIndex, usize)> {
        self.by_session
            .iter()
            .map(|(index, bytes)| (*index, *bytes))
    }

    pub(super) fn set(&mut self, session: SessionIndex, bytes: usize) {
        let before = match bytes {
            0 => self.by_session.remove(&session),
            _ => self.by_session.insert(session, bytes),
        };
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
    }
}

/// Notes how much waits in a session. Call this after each change.
pub fn count(step: &mut Step<'_>, index: SessionIndex) {
    let Some(session) = step.sessions.get(index) else {
        return;
    };
    let flows = session
        .streams()
        .filter_map(|(key, _)| step.streams.flow(key));
    let in_flows: usize = flows.map(Flow::memory).sum();
    let bytes = in_flows + session.turns.memory() + session.pending.memory();
    step.sessions.set_backlog(index, bytes);
}

/// Has sessions let go of what waits until the rest is within the budget.
pub fn make_room(step: &mut Step<'_>, now: u64) {
    while step.sessions.backlog().bytes() > step.settings.max_backlog {
        let Some((user, index)) = step.sessions.with_most_backlog() else {
            return;
        };
        let tgid = step
            .sessions
            .get(index)
            .and_then(|session| session.server)
            .unwrap_or(0);
        let origin = Origin { tgid, time: now };
        blind_spots::report_user(step, BlindMechanism::SessionBudget, user, origin);
        let_go(step, index, now);
    }
}

fn let_go(step: &mut Step<'_>, index: SessionIndex, now: u64) {
    tracing::debug!(
        session = index,
        "too much waits in sessions; this one lets go"
    );
    delivery::announce_pending(step, index, now);
    let Some(session) = step.sessions.get(index) else {
        return;
    };
    for (key, _) in session.streams() {
        pass_on(step, key, GapReason::RingFull, now, |flow, emit| {
            flow.let_go(now, emit);
        });
    }
    delivery::finish_turns(step, index);
    // Nothing waits any more. Whatever remains counts again with the next change.
    step.sessions.set_backlog(index, 0);
}
