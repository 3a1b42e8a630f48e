//! The whole data path: the one place that names every stage in order.
//!
//! ```text
//!  source                     │ pipeline                                                                            │ outputs
//!  kernel ─▶ capture ─▶ discover ─▶ guarded ─▶ programs ─▶ sessions ─▶ engine ────▶ policy ─▶ containment ─▶ outbox ─▶ sinks: journal · jsonl
//!  tape ──────────────────────────▶                        (paused?)   observe ─ judge ─ tell                        bus · status
//!                                                                         │       │
//!                                                    wire ─ mcp ─ session ┘       └ registry ─ detect ─ approval
//! ```
//!
//! | stage | what it does | where |
//! |---|---|---|
//! | source | finds sessions, and turns what happens in them into inputs | [`source`](mcpinspect_core::source) |
//! | guarded | leaves out of a guard's side what the server's side says | `guarded` |
//! | programs | has the program behind each server examined, beside the way | `programs` |
//! | sessions | knows the parties of each session; holds back what a paused server says | [`sessions`] |
//! | leftovers | looks for servers that run on after their client is gone | `leftovers` |
//! | engine: observe | bytes become frames, messages, and calls with their answers | [`wire`](mcpinspect_core::wire), [`mcp`](mcpinspect_core::mcp), [`session`](mcpinspect_core::session) |
//! | engine: judge | compares definitions with their pins, and looks for attacks | [`registry`](mcpinspect_judge::registry), [`detect`](mcpinspect_judge::detect) |
//! | engine: tell | messages and events, in order | [`engine`](mcpinspect_engine), [`event`](mcpinspect_engine::event) |
//! | policy | says what a guard would have done with each message, where there is a policy | `shadow` |
//! | containment | findings that have a server frozen or killed, where that is configured | [`contain`](mcpinspect_contain) |
//! | outbox | holds an event back until the registry's writes before it are on disk | `store` |
//! | outputs | every sink has a queue of its own | [`outputs`] |
//! | messages | copies messages for a consumer of their own, where there is one | `messages` |
//! | calls | counts exchanges by method, for monitoring | [`status`](crate::status::calls) |
//! | lessons | what people's decisions taught detection is kept beside the registry | `lessons` |
//!
//! The order is the same whether something arrives or time passes (`Pipeline::step`). All stages up to the outbox
//! run on one thread, and take plain values, the time among them: the same inputs lead to the same events. What
//! they need of the machine, they ask of a [`Host`]. People's requests are answered on that thread too, between
//! two batches of records (`requests`).

mod approvals;
mod fan_out;
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
mod step;
mod tap;
#[cfg(test)]
mod testing;

use mcpinspect_core::model::{Account, Input, InputSink, Pid, Timestamp};
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_engine::{Engine, Output, OutputSink};

use self::fan_out::FanOut;
use self::guarded::Guarded;
use self::leftovers::Leftovers;
use self::sessions::SessionTable;
use self::shadow::Shadow;
use self::step::Step;
use crate::control::ControlQueue;
use crate::status::calls::CallCounts;

pub use host::{Host, Reloaded};
pub use messages::{MessageQueue, message_queue};
pub use shadow::ShadowPolicy;
pub use tap::{Flush, TapPipeline};

/// The daemon's pipeline, from a source's inputs to an output. Its fields are its stages, in order.
pub struct Pipeline<O, H> {
    guarded: Guarded,
    sessions: SessionTable,
    leftovers: Leftovers,
    engine: Engine,
    shadow: Shadow,
    containment: ContainmentPolicy,
    output: O,
    messages: Option<MessageQueue>,
    calls: CallCounts,
    requests: ControlQueue,
    host: H,
    account: Account,
    counted: Option<Timestamp>,
}

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// A pipeline that ends in `output` and answers what arrives through `requests`.
    pub fn new(engine: Engine, output: O, requests: ControlQueue, host: H) -> Self {
        Self {
            guarded: Guarded::default(),
            sessions: SessionTable::default(),
            leftovers: Leftovers::default(),
            engine,
            shadow: Shadow::default(),
            containment: ContainmentPolicy::default(),
            output,
            messages: None,
            calls: CallCounts::default(),
            requests,
            host,
            account: Account::default(),
            counted: None,
        }
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

    /// Takes a step through every stage, in order.
    fn step(&mut self, step: Step<'_>) {
        let Self {
            guarded,
            sessions,
            leftovers,
            engine,
            host,
            ..
        } = self;
        let host = &*host;
        let start_time = |pid: Pid| host.start_time(pid);
        let mut behind = FanOut {
            policy: &mut self.shadow,
            containment: &mut self.containment,
            requested: Vec::new(),
            output: &mut self.output,
            messages: self.messages.as_mut(),
            calls: &mut self.calls,
        };
        guarded.pass(step, &mut |step| {
            programs::pass(host, step, &mut |step| {
                sessions.pass(step, &start_time, &mut |sessions, step| {
                    for event in leftovers.look(&step, sessions, host) {
                        behind.output(Output::Event(&event));
                    }
                    match step {
                        Step::Input(input) => {
                            behind.policy.attend(&input, sessions, engine.registry());
                            engine.handle(input, &mut behind);
                        }
                        Step::Time(now) => {
                            engine.idle(now, &mut behind);
                            engine.pass_time(now, &mut behind);
                        }
                    }
                });
            });
        });
        for request in behind.requested {
            self.contain(request);
        }
        self.learn();
    }
}

impl<O: OutputSink, H: Host> InputSink for Pipeline<O, H> {
    fn input(&mut self, input: Input<'_>) {
        self.step(Step::Input(input));
    }

    fn idle(&mut self, now: Timestamp) {
        self.step(Step::Time(now));
    }
}
