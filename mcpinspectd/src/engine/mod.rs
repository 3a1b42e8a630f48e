//! From bytes to messages and events: the whole of it, without a kernel, a clock or a thread.
//!
//! The engine is a value that is fed [`Input`]s and tells an [`Output`] what they meant. All times
//! come from the inputs, so the same inputs give the same outputs: live, from a tape, in a test.
//!
//! ```text
//! Input ─▶ framing ─▶ mcp ─▶ session ─┬─▶ MessageSeen
//!                                     ├─▶ registry ─┐
//!                                     └─▶ detector ─┴─▶ Event
//! ```
//!
//! Everything that it keeps is bounded: sessions by who feeds it, and per session the line under way,
//! requests without an answer, listings under way and what was announced. What a flood pushes out is
//! counted and said.

mod live;
mod offers;
mod output;
mod policy;
mod shown;

use std::collections::HashMap;

use self::live::LiveSession;
pub use self::output::{MessageKind, MessageSeen, Output};
pub use self::policy::{ApprovalRule, AutoApproval, Vendor};
use crate::detect::{Detector, Difference};
use crate::model::{Input, SessionId, Timestamp};
use crate::registry::Registry;
use crate::session::DEFAULT_MAX_IN_FLIGHT;
use crate::wire::framing::DEFAULT_MAX_FRAME;

/// How often decisions are looked for, in nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// What bounds the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest message, in bytes; larger ones are reported as lost.
    pub max_message: usize,
    /// Bytes of unfinished messages of all sessions together; above, the one that grows is given up.
    pub max_unfinished: usize,
    /// Requests of one session and direction that wait for their answer; above, the oldest are forgotten.
    pub max_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_message: DEFAULT_MAX_FRAME,
            max_unfinished: 4 * DEFAULT_MAX_FRAME,
            max_in_flight: DEFAULT_MAX_IN_FLIGHT,
        }
    }
}

/// Turns bytes into messages and events. See the module's text.
pub struct Engine {
    limits: Limits,
    sessions: HashMap<SessionId, LiveSession>,
    /// Bytes of memory that unfinished messages take.
    unfinished: usize,
    /// When decisions were last looked for.
    looked: Timestamp,
    shared: Shared,
}

/// What all sessions share.
struct Shared {
    registry: Registry,
    detector: Box<dyn Detector + Send>,
    approval: AutoApproval,
}

impl Engine {
    /// An engine that holds servers to `registry` and lets `detector` look at what goes by.
    pub fn new(limits: Limits, registry: Registry, detector: Box<dyn Detector + Send>) -> Self {
        Self {
            limits,
            sessions: HashMap::new(),
            unfinished: 0,
            looked: Timestamp(0),
            shared: Shared {
                registry,
                detector,
                approval: AutoApproval::default(),
            },
        }
    }

    /// The engine with a policy on which changes are accepted without a person. By default none is.
    pub fn with_approval(mut self, approval: AutoApproval) -> Self {
        self.set_approval(approval);
        self
    }

    /// Accepts other changes without a person from now on.
    pub fn set_approval(&mut self, approval: AutoApproval) {
        self.shared.approval = approval;
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The registry, to decide something.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.shared.registry
    }

    /// How many sessions are under way.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Nothing is happening for now: tells what people decided about pins since the last time, in this
    /// process or another. To be called often; it does nothing most of the time.
    pub fn idle(&mut self, now: Timestamp, output: &mut dyn Output) {
        // A clock that was set back is looked at as a new one.
        if now >= self.looked && now.nanos_since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let registry = &mut self.shared.registry;
        for decided in registry.take_decisions() {
            output.event(policy::event(decided));
        }
        registry.save(now);
    }

    /// Takes in what happened and tells `output` what it meant.
    ///
    /// Inputs of a session that is not known (any more) say nothing.
    pub fn handle(&mut self, input: Input<'_>, output: &mut dyn Output) {
        if let Input::SessionStarted(start) = &input {
            // On disk before anybody is told: the name must not be another's after a restart.
            self.shared.registry.assign_name(&start.server, start.time);
            self.shared.registry.save(start.time);
            let session = LiveSession::new(start, self.limits);
            session.announce(start, output);
            self.sessions.insert(start.id.clone(), session);
            return;
        }
        let id = input.session();
        let Some(session) = self.sessions.get_mut(id) else {
            tracing::debug!(session = %id, "input of a session that is not known");
            return;
        };
        let shared = &mut self.shared;
        let before = session.unfinished();
        match &input {
            Input::SessionStarted(_) => {}
            Input::PartiesChanged {
                server_pid,
                client_pid,
                ..
            } => {
                session.parties_changed(*server_pid, *client_pid);
            }
            Input::Program {
                definition, time, ..
            } => session.program(shared, definition.raw(), *time, output),
            Input::Bytes {
                direction,
                position,
                time,
                bytes,
                ..
            } => {
                session.bytes(shared, *direction, *position, *time, bytes, output);
                if self.unfinished - before + session.unfinished() > self.limits.max_unfinished {
                    session.abandon_line(*direction);
                }
            }
            Input::Message {
                direction,
                position,
                time,
                bytes,
                ..
            } => session.message(shared, *direction, *position, *time, bytes, output),
            Input::Gap {
                direction,
                position,
                bytes_lost,
                reason,
                time,
                ..
            } => {
                session.gap(*direction, *position, *bytes_lost, reason, *time, output);
            }
            Input::EndsDisagree {
                direction,
                position,
                bytes,
                read,
                written,
                time,
                ..
            } => {
                let difference = Difference {
                    direction: *direction,
                    position: *position,
                    bytes: *bytes,
                    read,
                    written,
                };
                session.ends_disagree(shared, &difference, *time, output);
            }
            Input::BlindSpot {
                mechanism,
                pid,
                covered_by_other_end,
                time,
                ..
            } => {
                session.blind_spot(mechanism, *pid, *covered_by_other_end, *time, output);
            }
            Input::EndOfStream {
                direction, time, ..
            } => {
                session.end_of_stream(shared, *direction, *time, output);
            }
            Input::SessionEnded { reason, time, .. } => {
                session.end(shared, reason, *time, output);
                shared.registry.save(*time);
                shared.detector.session_ended(id);
                self.sessions.remove(id);
                self.unfinished -= before;
                return;
            }
        }
        self.unfinished = self.unfinished - before + session.unfinished();
    }
}

#[cfg(test)]
mod tests;
