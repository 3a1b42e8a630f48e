//! One input on its way through the three steps: observe, judge, report.
//!
//! What is observed and judged collects here as a [`Judgement`]; none of it leaves until the step
//! is over. A consumer that has to decide whether a message passes (an inline guard) is shown the
//! judgement first, as [`Output::Judged`]. Reporting nothing early also keeps the order
//! crash-safe: a pin is on disk before anything reports it.

use mcpinspect_core::model::{Action, Timestamp};
use mcpinspect_judge::detect::Isolated;
use mcpinspect_judge::registry::Registry;

use super::output::{Judgement, MessageSeen, Output, OutputSink, Overdue};
use super::policy::AutoApproval;
use crate::event::Event;

/// What judges, shared by all sessions.
pub(super) struct Judges {
    pub(super) registry: Registry,
    pub(super) detector: Isolated,
    pub(super) approval: AutoApproval,
}

/// Most events that one judgement holds, and most bytes of memory for them.
const MAX_HELD: usize = 4096;
const MAX_HELD_BYTES: usize = 2 << 20;

/// The evaluation of one input.
pub(super) struct Evaluation<'a> {
    /// When the input happened.
    pub(super) time: Timestamp,
    pub(super) judges: &'a mut Judges,
    judgement: Judgement,
    /// Bytes of memory that its events occupy.
    held: usize,
    sink: &'a mut dyn OutputSink,
}

impl<'a> Evaluation<'a> {
    /// An evaluation for an input that happened at `time`.
    pub(super) fn new(
        time: Timestamp,
        judges: &'a mut Judges,
        sink: &'a mut dyn OutputSink,
    ) -> Self {
        Self {
            time,
            judges,
            judgement: Judgement::CLEAN,
            held: 0,
            sink,
        }
    }

    /// Adds an event to the judgement. If it already holds [`MAX_HELD`], or much memory, reports them
    /// first: a hostile message must not decide how much memory its judgement takes.
    pub(super) fn report(&mut self, event: Event) {
        if self.judgement.events.len() == MAX_HELD || self.held >= MAX_HELD_BYTES {
            self.flush();
        }
        self.held += event.body.size();
        self.judgement.events.push(event);
    }

    /// Raises the judgement's disposition to at least `action`.
    pub(super) fn raise(&mut self, action: Action) {
        self.judgement.disposition = self.judgement.disposition.max(action);
    }

    /// Shows the judgement of a message, and reports the message. Its events follow.
    pub(super) fn emit_message(&mut self, message: &MessageSeen<'_>) {
        self.sink.output(Output::Judged(message, &self.judgement));
        self.sink.output(Output::Message(message));
        self.judgement.disposition = Action::None;
    }

    /// Reports a member of the last batch.
    pub(super) fn emit_member(&mut self, member: &MessageSeen<'_>) {
        self.sink.output(Output::Member(member));
    }

    /// Reports that a request is overdue.
    pub(super) fn emit_overdue(&mut self, overdue: &Overdue) {
        self.sink.output(Output::Overdue(overdue));
    }

    /// Reports the events that have collected.
    pub(super) fn flush(&mut self) {
        self.held = 0;
        for event in self.judgement.events.drain(..) {
            self.sink.output(Output::Event(&event));
        }
    }
}
