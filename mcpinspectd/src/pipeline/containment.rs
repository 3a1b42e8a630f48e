//! Where findings have a server contained without asking anyone, if the configuration says so.

use crate::contain::{ContainmentPolicy, ContainmentRequest};
use crate::engine::{MessageSeen, Output};
use crate::event::Event;

/// An output that passes everything on, and collects what the policy requests.
pub(super) struct Containment<'a, O> {
    pub(super) policy: &'a mut ContainmentPolicy,
    pub(super) output: &'a mut O,
    pub(super) requested: &'a mut Vec<ContainmentRequest>,
}

impl<O: Output> Output for Containment<'_, O> {
    fn message(&mut self, message: &MessageSeen<'_>) {
        self.output.message(message);
    }

    fn wants_members(&self) -> bool {
        self.output.wants_members()
    }

    fn member(&mut self, member: &MessageSeen<'_>) {
        self.output.member(member);
    }

    fn event(&mut self, event: Event) {
        self.requested.extend(self.policy.consider(&event));
        self.output.event(event);
    }
}
