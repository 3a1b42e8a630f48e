//! From bytes to messages and events: all of it, without a kernel, a clock or a thread.
//!
//! The engine is a value that is fed [`Input`]s and tells an [`OutputSink`] what they meant. All times
//! come from the inputs, so the same inputs produce the same outputs: live, from a tape, in a test. It
//! works in three steps, which are never mixed:
//!
//! ```text
//!          observe                    judge                         tell
//! Input ─▶ framing ─▶ mcp ─▶ session ─▶ registry, detector, policy ─▶ Judgement ─▶ MessageSeen, Event
//! ```
//!
//! Nothing is reported before it is judged, so an inline guard can let a message wait for its
//! [`Judgement`] (see [`Output::Judged`]).
//!
//! - `live`: a session's two streams
//! - `observe`: frames become messages with a place in the session
//! - `judge`, `judge_definitions`: what they mean
//! - `overdue`: calls that wait too long for their answer
//! - `evaluation`: holds the judgement of one input until it is reported
//! - `tee`: feeds several sinks alike
//! - `record`: a message that can be kept
//! - `lessons`: what people's decisions teach detection
//!
//! Everything that it keeps is bounded: sessions by its caller, and per session the current line,
//! requests without an answer, unfinished listings and what was announced. What a flood pushes out is
//! counted and reported.
//!
//! # For other programs
//!
//! Programs that embed the library start here. They need this crate, `mcpinspect_core` and
//! `mcpinspect_judge`, and nothing of the kernel, the bus, a command line or a database: an [`Engine`]
//! takes the inputs of any [`source`](mcpinspect_core::source), and tells an [`OutputSink`] what they meant.
//!
//! ```
//! use mcpinspect_core::model::{Direction, EndReason};
//! use mcpinspect_core::source::script::Script;
//! use mcpinspect_engine::event::render;
//! use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
//! use mcpinspect_judge::detect::NoDetector;
//! use mcpinspect_judge::registry::Registry;
//!
//! #[derive(Default)]
//! struct Titles(Vec<String>);
//!
//! impl OutputSink for Titles {
//!     fn output(&mut self, output: Output<'_>) {
//!         if let Output::Event(event) = output {
//!             self.0.push(render::title(event));
//!         }
//!     }
//! }
//!
//! let mut engine = Engine::new(Limits::default(), Registry::in_memory(), Box::new(NoDetector));
//! let mut titles = Titles::default();
//! let mut session = Script::new("files");
//! engine.handle(session.start(), &mut titles);
//! let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n";
//! engine.handle(session.bytes(Direction::ClientToServer, line), &mut titles);
//! engine.handle(session.end(EndReason::ServerExited), &mut titles);
//! assert_eq!(
//!     titles.0,
//!     ["MCP session with files started", "MCP session with files ended"]
//! );
//! ```
//!
//! Two longer ones are below `mcpinspectd/engine/examples`: `guard.rs` decides before a message passes,
//! `replay.rs` reads a tape.

pub mod answer;
mod containment;
mod definitions;
mod evaluation;
pub mod event;
pub mod examine;
pub mod history;
mod judge;
mod judge_definitions;
mod lessons;
mod limits;
mod live;
mod observe;
mod output;
mod overdue;
mod policy;
mod record;
pub mod retention;
mod sanitise;
mod state;
mod tee;
mod throttle;

use std::collections::HashMap;

use mcpinspect_core::model::{Direction, EVERY_SERVER, Input, ServerId, SessionId, Timestamp};
use mcpinspect_core::session::PendingRequest;
use mcpinspect_core::text::escape::printable;
use mcpinspect_core::wire::framing::Framer;
use mcpinspect_core::wire::held::{BufferUsage, Scratch, UNFINISHED_IN_MEMORY, UNFINISHED_SMALL};
use mcpinspect_judge::detect::{Detector, Difference, Isolated};
use mcpinspect_judge::registry::Registry;

pub use self::containment::{ContainmentPolicy, ContainmentRequest};
use self::evaluation::{Evaluation, Judges};
pub use self::lessons::LessonChange;
pub use self::limits::Limits;
use self::live::LiveSession;
pub use self::output::{
    FrameInfo, Head, Judgement, MessageKind, MessageSeen, Output, OutputSink, Overdue, SessionInfo,
};
pub use self::policy::{ApprovalRule, AutoApproval, Vendor};
pub use self::record::{MAX_BODY, MessageRecord, Record};
pub use self::tee::Tee;
use crate::event::body::{BlindSpot, RegistryFull};
use crate::event::{Event, Subject};

/// How often to look for overdue calls, in nanoseconds.
const SWEEP_EVERY: u64 = 1_000_000_000;

/// How often to look for decisions, in nanoseconds.
const LOOK_EVERY: u64 = 100_000_000;

/// Most characters about what was found in place of something supported.
const MAX_FOUND: usize = 512;

/// Most lessons that wait to be taken.
const LESSONS: usize = 256;

/// Turns bytes into messages and events. See the module documentation.
pub struct Engine {
    limits: Limits,
    sessions: HashMap<SessionId, LiveSession>,
    /// What unfinished messages occupy.
    unfinished: BufferUsage,
    /// Where large ones of them are moved to.
    scratch: Option<Scratch>,
    /// When decisions were last looked for.
    looked: Timestamp,
    /// When overdue calls were last looked for.
    swept: Timestamp,
    /// Writes and texts that the registry had given up by then.
    given_up: (u64, u64),
    /// What decisions taught since this was last taken.
    lesson_changes: Vec<LessonChange>,
    judges: Judges,
}

impl Engine {
    /// An engine that holds servers to `registry` and lets `detector` inspect what passes. A panic of
    /// `detector` is a finding.
    pub fn new(limits: Limits, registry: Registry, detector: Box<dyn Detector + Send>) -> Self {
        Self {
            limits,
            sessions: HashMap::new(),
            unfinished: BufferUsage::default(),
            scratch: None,
            looked: Timestamp(0),
            swept: Timestamp(0),
            given_up: (0, 0),
            lesson_changes: Vec::new(),
            judges: Judges {
                registry,
                detector: Isolated::new(detector),
                approval: AutoApproval::default(),
            },
        }
    }

    /// Sets where large unfinished messages wait. By default they wait in memory.
    pub fn set_scratch(&mut self, scratch: Option<Scratch>) {
        self.scratch = scratch;
    }

    /// Sets the policy on which changes are accepted without a person. By default none are.
    pub fn with_approval(mut self, approval: AutoApproval) -> Self {
        self.set_approval(approval);
        self
    }

    /// Changes which changes are accepted without a person from now on.
    pub fn set_approval(&mut self, approval: AutoApproval) {
        self.judges.approval = approval;
    }

    /// The registry.
    pub fn registry(&self) -> &Registry {
        &self.judges.registry
    }

    /// The registry, to decide something.
    pub fn registry_mut(&mut self) -> &mut Registry {
        &mut self.judges.registry
    }

    /// What decisions taught since the last call.
    pub fn take_lessons(&mut self) -> Vec<LessonChange> {
        std::mem::take(&mut self.lesson_changes)
    }

    /// How many sessions are open.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// The requests in flight in all sessions, in no particular order.
    pub fn requests(&self) -> impl Iterator<Item = (&SessionId, Direction, &PendingRequest)> {
        self.sessions.iter().flat_map(|(id, session)| {
            let requests = session.requests();
            requests.map(move |(direction, request)| (id, direction, request))
        })
    }

    /// At `now`: reports which calls have waited too long for their answer. Call this often while
    /// inputs arrive live; the times of inputs count too. Most calls do nothing.
    pub fn pass_time(&mut self, now: Timestamp, sink: &mut dyn OutputSink) {
        // A clock that was set back is treated as a new one.
        if now >= self.swept && now.nanos_since(self.swept) < SWEEP_EVERY {
            return;
        }
        self.swept = now;
        let mut overdue: Vec<Overdue> = Vec::new();
        for session in self.sessions.values_mut() {
            overdue.append(&mut session.overdue(now));
        }
        // A hash table's order varies, but the order of events must not.
        overdue.sort_by(|one, other| {
            let key = |overdue: &Overdue| (overdue.due, overdue.session_id.clone());
            key(one).cmp(&key(other))
        });
        for overdue in overdue {
            if let Some(session) = self.sessions.get_mut(&overdue.session_id) {
                let mut evaluation = Evaluation::new(overdue.due, &mut self.judges, sink);
                session.report_overdue(&mut evaluation, &overdue);
            }
        }
    }

    /// While nothing is happening: reports what people decided about pins since the last call, in this
    /// process or another. Call this often; most calls do nothing.
    pub fn idle(&mut self, now: Timestamp, sink: &mut dyn OutputSink) {
        // A clock that was set back is treated as a new one.
        if now >= self.looked && now.nanos_since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        for decided in self.judges.registry.take_decisions() {
            let Judges {
                registry, detector, ..
            } = &mut self.judges;
            // If nothing takes them, as in a tap, they do not pile up.
            if self.lesson_changes.len() < LESSONS {
                self.lesson_changes
                    .extend(lessons::lesson_change(&decided, registry, detector));
            }
            sink.output(Output::Event(&policy::event(decided)));
        }
        let registry = &mut self.judges.registry;
        registry.save(now);
        let health = registry.health();
        let (lost, texts_lost) =
            std::mem::replace(&mut self.given_up, (health.lost, health.texts_lost));
        if (health.lost, health.texts_lost) != (lost, texts_lost) {
            let body = RegistryFull {
                limit: "disk",
                uid: None,
                not_pinned: health.lost.saturating_sub(lost),
                without_text: health.texts_lost.saturating_sub(texts_lost),
            };
            let every_server = ServerId(EVERY_SERVER.into());
            let event = Event::new(now, Subject::server(every_server), body);
            sink.output(Output::Event(&event));
        }
    }

    /// Takes in what happened: observes it, judges it, and tells `sink` what it meant.
    ///
    /// Inputs of an unknown or ended session are ignored.
    pub fn handle(&mut self, input: Input<'_>, sink: &mut dyn OutputSink) {
        if let Some(time) = input.time() {
            self.pass_time(time, sink);
        }
        if let Input::SessionStarted(start) = &input {
            // On disk before the event is emitted: the name must not be another's after a restart.
            let registry = &mut self.judges.registry;
            let owner = registry.owner(start.server_party.as_ref().map(|party| party.uid));
            registry.assign_name(owner, &start.server, start.time);
            // By the time of the input: a tape from last year must not evict what it has just shown.
            let evicted = self.judges.registry.evict(start.time);
            if evicted > 0 {
                tracing::info!(
                    items = evicted,
                    "removed items not seen for a year from the registry"
                );
            }
            self.judges.registry.save(start.time);
            let replaced = self.judges.registry.replaced(owner, &start.server);
            let session = LiveSession::new(start, owner, self.limits);
            let mut evaluation = Evaluation::new(start.time, &mut self.judges, sink);
            session.announce(start, &mut evaluation);
            if let Some(replaced) = &replaced {
                session.report_replaced(start, replaced, &mut evaluation);
            }
            evaluation.flush();
            self.sessions.insert(start.id.clone(), session);
            return;
        }
        let id = input.session();
        if let Input::BlindSpot {
            mechanism,
            pid,
            uid,
            found,
            time,
            ..
        } = &input
            && *id == SessionId::none()
        {
            let mut evaluation = Evaluation::new(*time, &mut self.judges, sink);
            let body = BlindSpot {
                mechanism: *mechanism,
                pid: *pid,
                uid: *uid,
                found: found.as_deref().map(|found| printable(found, MAX_FOUND)),
                covered_by_other_end: false,
            };
            // It belongs to no known session.
            let every_server = Subject::server(ServerId(EVERY_SERVER.into()));
            evaluation.report(Event::new(*time, every_server, body));
            evaluation.flush();
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else {
            tracing::debug!(session = %id, "input for an unknown session");
            return;
        };
        let before = session.unfinished();
        let mut evaluation =
            Evaluation::new(input.time().unwrap_or_default(), &mut self.judges, sink);
        match &input {
            Input::SessionStarted(_) => {}
            Input::PartiesChanged {
                server_pid,
                client_pid,
                ..
            } => session.parties_changed(*server_pid, *client_pid),
            Input::Program { definition, .. } => session.program(&mut evaluation, definition.raw()),
            Input::Bytes {
                direction,
                position,
                bytes,
                ..
            } => {
                session.bytes(&mut evaluation, *direction, *position, bytes);
            }
            Input::Message {
                direction,
                position,
                bytes,
                ..
            } => session.message(&mut evaluation, *direction, *position, bytes),
            Input::Gap {
                direction,
                position,
                bytes_lost,
                reason,
                ..
            } => session.gap(&mut evaluation, *direction, *position, *bytes_lost, *reason),
            Input::EndsDisagree {
                direction,
                position,
                bytes,
                read,
                written,
                ..
            } => {
                let difference = Difference {
                    direction: *direction,
                    position: *position,
                    bytes: *bytes,
                    read,
                    written,
                };
                session.ends_disagree(&mut evaluation, &difference);
            }
            Input::BlindSpot {
                mechanism,
                pid,
                uid,
                ..
            } => session.blind_spot(&mut evaluation, *mechanism, *pid, *uid),
            Input::EndOfStream { direction, .. } => {
                session.end_of_stream(&mut evaluation, *direction)
            }
            Input::SessionEnded { reason, .. } => session.end(&mut evaluation, *reason),
        }
        evaluation.flush();
        let unfinished = match &input {
            Input::SessionEnded { time, .. } => {
                self.judges.registry.save(*time);
                self.judges.detector.session_ended(id);
                self.sessions.remove(id);
                BufferUsage::default()
            }
            _ => session.unfinished(),
        };
        self.unfinished = self.unfinished - before + unfinished;
        let memory = self.unfinished.memory;
        if let Some(scratch) = &mut self.scratch
            && scratch.is_wanted(memory)
        {
            self.relieve_memory();
        }
        let has_files = self.scratch.as_ref().is_some_and(Scratch::works);
        if has_files && self.unfinished.memory > UNFINISHED_SMALL {
            self.give_up_largest(|room| room.memory);
        } else if self.unfinished.total() > self.limits.max_unfinished {
            self.give_up_largest(BufferUsage::total);
        }
    }

    /// Moves the largest unfinished messages from memory to files, until little is left or none is worth a file.
    fn relieve_memory(&mut self) {
        let Some(scratch) = &mut self.scratch else {
            return;
        };
        while self.unfinished.memory > UNFINISHED_IN_MEMORY {
            let framers = self.sessions.values_mut().flat_map(LiveSession::framers);
            let held = framers.map(Framer::held_mut);
            let worth_it = held.filter(|held| held.spillable() > 0);
            let Some(largest) = worth_it.max_by_key(|held| held.spillable()) else {
                scratch.found_nothing(self.unfinished.memory);
                break;
            };
            let before = largest.usage();
            largest.spill(scratch);
            self.unfinished = self.unfinished - before + largest.usage();
        }
    }

    /// Gives up the largest of all unfinished messages, not the one that happens to grow: the session that holds
    /// the most must not cost others theirs.
    fn give_up_largest(&mut self, size: impl Fn(BufferUsage) -> usize) {
        let framers = self.sessions.values_mut().flat_map(LiveSession::framers);
        if let Some(largest) = framers.max_by_key(|framer| size(framer.usage())) {
            let before = largest.usage();
            largest.abandon_line();
            self.unfinished = self.unfinished - before + largest.usage();
        }
    }
}

#[cfg(test)]
mod tests;
