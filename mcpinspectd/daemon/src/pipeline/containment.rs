//! Contains servers because of findings, without asking anyone, if the configuration says so.

use mcpinspect_engine::{ContainmentPolicy, ContainmentRequest};
use mcpinspect_engine::{Output, OutputSink};

/// An output that passes everything on and collects what the policy requests.
pub(super) struct Containment<'a, O> {
    pub(super) policy: &'a mut ContainmentPolicy,
    pub(super) output: &'a mut O,
    pub(super) requested: &'a mut Vec<ContainmentRequest>,
}

impl<O: OutputSink> OutputSink for Containment<'_, O> {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.requested.extend(self.policy.consider(event));
        }
        self.output.output(output);
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
                Output::Judged(_, _) => self.judged += 1,
                Output::Message(_) => self.told += 1,
                _ => {}
            }
        }
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
