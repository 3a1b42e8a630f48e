//! Contains servers because of findings, without asking anyone, if the configuration says so.

use mcpinspect_engine::event::Event;
use mcpinspect_engine::{ContainmentPolicy, ContainmentRequest};
use mcpinspect_engine::{Judgement, MessageSeen, Output};

/// An output that passes everything on and collects what the policy requests.
pub(super) struct Containment<'a, O> {
    pub(super) policy: &'a mut ContainmentPolicy,
    pub(super) output: &'a mut O,
    pub(super) requested: &'a mut Vec<ContainmentRequest>,
}

impl<O: Output> Output for Containment<'_, O> {
    fn judged(&mut self, message: &MessageSeen<'_>, judgement: &Judgement) {
        self.output.judged(message, judgement);
    }

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

#[cfg(test)]
mod tests {
    use mcpinspect_core::model::Direction;
    use mcpinspect_core::source::script::Script;
    use mcpinspect_engine::{Engine, Limits};
    use mcpinspect_judge::detect::NoDetector;
    use mcpinspect_judge::registry::Registry;

    use super::*;

    /// A miniature guard.
    #[derive(Default)]
    struct Guard {
        judged: usize,
        told: usize,
    }

    impl Output for Guard {
        fn judged(&mut self, _message: &MessageSeen<'_>, _judgement: &Judgement) {
            self.judged += 1;
        }

        fn message(&mut self, _message: &MessageSeen<'_>) {
            self.told += 1;
        }

        fn event(&mut self, _event: Event) {}
    }

    #[test]
    fn a_guard_behind_containment_is_shown_judgements() {
        let mut guard = Guard::default();
        let mut contained = Containment {
            policy: &mut ContainmentPolicy::default(),
            output: &mut guard,
            requested: &mut Vec::new(),
        };
        let registry = Registry::in_memory();
        let mut engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
        let mut script = Script::new("files");
        engine.handle(script.start(), &mut contained);
        let ping = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
        let ping = script.line(Direction::ClientToServer, ping);
        engine.handle(ping, &mut contained);
        assert_eq!((guard.judged, guard.told), (1, 1));
    }
}
