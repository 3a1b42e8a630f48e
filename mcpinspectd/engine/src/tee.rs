//! One engine, several outputs: the daemon's events, a store of messages, a guard.

use super::output::{Judgement, MessageSeen, Output, Overdue};
use crate::event::Event;

/// Feeds two outputs alike, the first one first; for more than two, make one of them a `Tee`.
///
/// Both are shown a judgement before either receives the message. A judgement asks for
/// nothing back, so there is nothing to combine: every output sees the same
/// [`disposition`](Judgement::disposition), which is the strictest of the findings. If each of
/// several guards makes up its own mind, [`Action`](mcpinspect_core::model::Action) is ordered by strictness: the
/// strictest of them, `max`, applies to all.
///
/// An output that wants no members or no events costs nothing for those.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: Output, B: Output> Output for Tee<A, B> {
    fn judged(&mut self, message: &MessageSeen<'_>, judgement: &Judgement) {
        self.0.judged(message, judgement);
        self.1.judged(message, judgement);
    }

    fn message(&mut self, message: &MessageSeen<'_>) {
        self.0.message(message);
        self.1.message(message);
    }

    fn wants_members(&self) -> bool {
        self.0.wants_members() || self.1.wants_members()
    }

    fn member(&mut self, member: &MessageSeen<'_>) {
        if self.0.wants_members() {
            self.0.member(member);
        }
        if self.1.wants_members() {
            self.1.member(member);
        }
    }

    fn overdue(&mut self, overdue: &Overdue) {
        self.0.overdue(overdue);
        self.1.overdue(overdue);
    }

    fn wants_events(&self) -> bool {
        self.0.wants_events() || self.1.wants_events()
    }

    fn event(&mut self, event: Event) {
        match (self.0.wants_events(), self.1.wants_events()) {
            (true, true) => {
                self.0.event(event.clone());
                self.1.event(event);
            }
            (true, false) => self.0.event(event),
            (false, true) => self.1.event(event),
            (false, false) => {}
        }
    }
}

/// A borrowed output.
impl<O: Output + ?Sized> Output for &mut O {
    fn judged(&mut self, message: &MessageSeen<'_>, judgement: &Judgement) {
        (**self).judged(message, judgement);
    }

    fn message(&mut self, message: &MessageSeen<'_>) {
        (**self).message(message);
    }

    fn wants_members(&self) -> bool {
        (**self).wants_members()
    }

    fn member(&mut self, member: &MessageSeen<'_>) {
        (**self).member(member);
    }

    fn overdue(&mut self, overdue: &Overdue) {
        (**self).overdue(overdue);
    }

    fn wants_events(&self) -> bool {
        (**self).wants_events()
    }

    fn event(&mut self, event: Event) {
        (**self).event(event);
    }
}

/// An output that may be absent, and then wants nothing.
impl<O: Output> Output for Option<O> {
    fn judged(&mut self, message: &MessageSeen<'_>, judgement: &Judgement) {
        if let Some(output) = self {
            output.judged(message, judgement);
        }
    }

    fn message(&mut self, message: &MessageSeen<'_>) {
        if let Some(output) = self {
            output.message(message);
        }
    }

    fn wants_members(&self) -> bool {
        self.as_ref().is_some_and(Output::wants_members)
    }

    fn member(&mut self, member: &MessageSeen<'_>) {
        if let Some(output) = self {
            output.member(member);
        }
    }

    fn overdue(&mut self, overdue: &Overdue) {
        if let Some(output) = self {
            output.overdue(overdue);
        }
    }

    fn wants_events(&self) -> bool {
        self.as_ref().is_some_and(Output::wants_events)
    }

    fn event(&mut self, event: Event) {
        if let Some(output) = self {
            output.event(event);
        }
    }
}
