//! The whole data path: the one place that names every stage in order.
//!
//! ```text
//!  source                     │ pipeline                                                                │ outputs
//!  kernel ─▶ capture ─▶ discover ─▶ programs ─▶ sessions ─▶ engine ────▶ policy ─▶ containment ─▶ outbox ─▶ sinks: journal · jsonl
//!  tape ──────────────────────────▶             (paused?)   observe ─ judge ─ tell                        bus · status
//!                                                              │       │
//!                                         wire ─ mcp ─ session ┘       └ registry ─ detect ─ approval
//! ```
//!
//! | stage | what it does | where |
//! |---|---|---|
//! | source | finds sessions, and turns what happens in them into inputs | [`source`](mcpinspect_core::source) |
//! | guarded | leaves out of a guard's side what the server's side says | `guarded` |
//! | programs | has the program behind each server examined, beside the way | `programs` |
//! | sessions | knows the parties of each session; holds back what a paused server says | [`sessions`] |
//! | engine: observe | bytes become frames, messages, and calls with their answers | [`wire`](mcpinspect_core::wire), [`mcp`](mcpinspect_core::mcp), [`session`](mcpinspect_core::session) |
//! | engine: judge | compares definitions with their pins, and looks for attacks | [`registry`](mcpinspect_judge::registry), [`detect`](mcpinspect_judge::detect) |
//! | engine: tell | messages and events, in order | [`engine`](mcpinspect_engine), [`event`](mcpinspect_engine::event) |
//! | policy | says what a guard would have done with each message, where there is a policy | `shadow` |
//! | messages | copies messages for a consumer of their own, where there is one | `messages` |
//! | calls | counts exchanges by method, for monitoring | [`status`](crate::status::calls) |
//! | leftovers | looks for servers that run on after their client is gone | `leftovers` |
//! | lessons | what people's decisions taught detection is kept beside the registry | `lessons` |
//! | containment | findings that have a server frozen or killed, where that is configured | `containment` |
//! | outbox | holds an event back until the registry's writes before it are on disk | `store` |
//! | outputs | every sink has a queue of its own | [`outputs`] |
//!
//! All stages up to the outbox run on one thread, and take plain values: the same inputs from a tape
//! lead to the same events. People's requests are answered on that thread too, between two batches of
//! records (`requests`).

mod approvals;
mod containment;
mod guarded;
mod host;
mod leftovers;
mod lessons;
mod messages;
pub mod outputs;
mod programs;
mod requests;
pub mod sessions;
mod shadow;
mod tap;

use std::borrow::Cow;
use std::path::PathBuf;

use mcpinspect_core::model::{Account, Input, InputSink, Pid, Timestamp};
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_engine::{Engine, Output, OutputSink, Tee};
use mcpinspect_process as process;

use self::containment::Containment;
use self::guarded::Guarded;
use self::leftovers::Leftovers;
use self::programs::ProgramLookup;
use self::sessions::SessionTable;
use self::shadow::{Shadow, Shadowed};
use crate::control::{ContainmentThread, ControlHandle, ControlQueue};
use crate::status::calls::CallCounts;

pub use host::{Host, Reloaded};
pub use messages::{MessageQueue, message_queue};
pub use shadow::ShadowPolicy;
pub use tap::{Flush, TapPipeline};

/// The daemon's pipeline, from a source's inputs to an output. Its fields are its stages, in order.
pub struct Pipeline<O, H> {
    guarded: Guarded,
    programs: ProgramLookup,
    sessions: SessionTable,
    engine: Engine,
    shadow: Shadow,
    containment: ContainmentPolicy,
    messages: Option<MessageQueue>,
    calls: CallCounts,
    leftovers: Leftovers,
    output: O,
    requests: ControlQueue,
    /// Containment runs beside the pipeline.
    containing: ContainmentThread,
    host: H,
    /// Where requested suppressions are written.
    suppressions: PathBuf,
    account: Account,
    counted: Option<Timestamp>,
}

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// A pipeline that ends in `output` and answers what arrives through `requests`.
    ///
    /// # Errors
    /// A thread that runs beside the pipeline cannot be started.
    pub fn start(
        engine: Engine,
        output: O,
        (control, requests): (ControlHandle, ControlQueue),
        host: H,
        suppressions: PathBuf,
    ) -> std::io::Result<Self> {
        Ok(Self {
            guarded: Guarded::default(),
            programs: ProgramLookup::start()?,
            sessions: SessionTable::new(|pid: Pid| process::start_time(pid)),
            engine,
            shadow: Shadow::default(),
            containment: ContainmentPolicy::default(),
            messages: None,
            calls: CallCounts::default(),
            leftovers: Leftovers::default(),
            output,
            requests,
            containing: ContainmentThread::start(control)?,
            host,
            suppressions,
            account: Account::default(),
            counted: None,
        })
    }

    /// Adds a consumer of messages; without one, nothing is copied.
    #[must_use]
    pub fn with_messages(mut self, messages: MessageQueue) -> Self {
        self.messages = Some(messages);
        self
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// Takes an input through every stage after the first.
    fn take(&mut self, input: Input<'_>) {
        self.programs.look_up(&input);
        let mut requested = Vec::new();
        let mut ended = None;
        let registry = self.engine.registry();
        self.shadow
            .attend(input.session(), &self.sessions, registry);
        match &input {
            Input::SessionStarted(start) => self.leftovers.started(start),
            Input::SessionEnded {
                session,
                reason,
                time,
            } => {
                ended = Some(session.clone().into_owned());
                if let Some(parties) = self.sessions.parties(session) {
                    self.leftovers.ended(parties, *reason, *time);
                }
            }
            _ => {}
        }
        let copies = Tee(self.messages.as_mut(), &mut self.calls);
        let mut outputs = Tee(&mut self.output, copies);
        let mut contained = Containment {
            policy: &mut self.containment,
            output: &mut outputs,
            requested: &mut requested,
        };
        let mut shadowed = Shadowed {
            shadow: &mut self.shadow,
            output: &mut contained,
            due: Vec::new(),
        };
        let engine = &mut self.engine;
        self.sessions.pass(input, &mut |input| {
            engine.handle(input, &mut shadowed);
        });
        if let Some(session) = ended {
            self.shadow.ended(&session);
        }
        for request in requested {
            self.contain(request);
        }
    }
}

impl<O: OutputSink, H: Host> InputSink for Pipeline<O, H> {
    fn input(&mut self, input: Input<'_>) {
        if !self.guarded.concerns(&input) {
            return self.take(input);
        }
        let mut guarded = std::mem::take(&mut self.guarded);
        guarded.pass(input, &mut |input| self.take(input));
        self.guarded = guarded;
    }

    fn idle(&mut self) {
        let found: Vec<_> = self.programs.found().collect();
        for (session, program) in found {
            self.take(Input::Program {
                session: Cow::Borrowed(&session),
                definition: program.definition().into(),
                time: Timestamp::now(),
            });
        }
        let now = Timestamp::now();
        let mut guarded = std::mem::take(&mut self.guarded);
        guarded.pass_time(now, &mut |input| self.take(input));
        self.guarded = guarded;
        let copies = Tee(self.messages.as_mut(), &mut self.calls);
        let copies = Tee(copies, &mut self.shadow);
        let mut outputs = Tee(&mut self.output, copies);
        self.engine.idle(now, &mut outputs);
        self.engine.pass_time(now, &mut outputs);
        let taught = self.engine.take_lessons();
        let serves = |process| self.sessions.serves(process);
        for event in self.leftovers.due(now, serves, process::snapshot) {
            outputs.output(Output::Event(&event));
        }
        self.learn(taught);
    }
}
