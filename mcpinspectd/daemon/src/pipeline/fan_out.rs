//! The stages behind the engine: what it says goes to the policy, to containment, and to those who keep it.

use mcpinspect_engine::{ContainmentPolicy, ContainmentRequest};
use mcpinspect_engine::{Output, OutputSink};

use super::messages::MessageQueue;
use super::shadow::Shadow;
use crate::status::calls::CallCounts;

/// The stages behind the engine. Its fields are in their order.
pub(super) struct FanOut<'a, O> {
    pub(super) policy: &'a mut Shadow,
    /// Has a server contained because of a finding, if the configuration says so.
    pub(super) containment: &'a mut ContainmentPolicy,
    /// What containment requests, which is done when the engine is through.
    pub(super) requested: Vec<ContainmentRequest>,
    pub(super) output: &'a mut O,
    pub(super) messages: Option<&'a mut MessageQueue>,
    pub(super) calls: &'a mut CallCounts,
}

impl<O: OutputSink> OutputSink for FanOut<'_, O> {
    fn output(&mut self, output: Output<'_>) {
        self.pass(output);
        for event in self.policy.consider(output) {
            self.pass(Output::Event(&event));
        }
    }
}

impl<O: OutputSink> FanOut<'_, O> {
    /// Passes on what the engine or the policy says.
    fn pass(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.requested.extend(self.containment.consider(event));
        }
        self.output.output(output);
        if let Some(messages) = &mut self.messages {
            messages.output(output);
        }
        self.calls.output(output);
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

    impl OutputSink for Guard {
        fn output(&mut self, output: Output<'_>) {
            match output {
                Output::Judged(..) => self.judged += 1,
                Output::Message(_) => self.told += 1,
                _ => {}
            }
        }
    }

    #[test]
    fn a_guard_behind_containment_is_shown_judgements() {
        let mut guard = Guard::default();
        let mut sink = FanOut {
            policy: &mut Shadow::default(),
            containment: &mut ContainmentPolicy::default(),
            requested: Vec::new(),
            output: &mut guard,
            messages: None,
            calls: &mut CallCounts::default(),
        };
        let registry = Registry::in_memory();
        let mut engine = Engine::new(Limits::default(), registry, Box::new(NoDetector));
        let mut script = Script::new("files");
        engine.handle(script.start(), &mut sink);
        let ping = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
        let ping = script.line(Direction::ClientToServer, ping);
        engine.handle(ping, &mut sink);
        assert_eq!((guard.judged, guard.told), (1, 1));
    }
}
