//! What detection finds in a message, for rules that ask.
//!
//! The engine judges a message as it comes in, so its findings are there when the policy decides.

use std::borrow::Cow;
use std::sync::Arc;

use mcpinspect_core::model::{Detection, Direction, Input, SessionId, Timestamp};
use mcpinspect_core::source::script::Script;
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{ActiveRules, WeightedRules};
use mcpinspect_judge::policy::situation::MessageFinding;
use mcpinspect_judge::registry::Registry;

use crate::event::{Body, Event};
use crate::{Engine, Limits, Output, OutputSink};

/// Detection for one session.
pub struct Examiner {
    engine: Engine,
    session: SessionId,
    /// By [`Direction`].
    positions: [u64; 2],
    has_started: bool,
    script: Script,
}

/// Collects what the engine finds.
#[derive(Default)]
struct Findings(Vec<MessageFinding>);

impl OutputSink for Findings {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.0.extend(findings_in(event));
        }
    }
}

/// What detection found, as reported in an event.
pub fn findings_in(event: &Event) -> impl Iterator<Item = MessageFinding> {
    let found: &[Detection] = match &event.body {
        Body::Detection(body) => std::slice::from_ref(&body.detection),
        Body::ToolSeen(body) => &body.detections,
        Body::ToolChanged(body) => &body.detections,
        Body::ServerChanged(body) => &body.detections,
        _ => &[],
    };
    found.iter().map(|found| MessageFinding {
        severity: found.severity,
        category: found.category.clone(),
    })
}

impl Examiner {
    /// Detection with its built-in rules, for a session with `server`.
    pub fn new(server: &str) -> Self {
        let rules = Arc::new(ActiveRules::new(WeightedRules::builtin()));
        let detector = Box::new(RuntimeDetector::new(rules));
        let script = Script::new(server);
        Self {
            engine: Engine::new(Limits::default(), Registry::in_memory(), detector),
            session: script.id().clone(),
            positions: [0; 2],
            has_started: false,
            script,
        }
    }

    /// What is found in the next frame of a direction, at `time`.
    pub fn examine(
        &mut self,
        direction: Direction,
        frame: &[u8],
        time: Timestamp,
    ) -> Vec<MessageFinding> {
        let mut findings = Findings::default();
        if !self.has_started {
            self.has_started = true;
            self.engine.handle(self.script.start(), &mut findings);
        }
        let position = &mut self.positions[match direction {
            Direction::ClientToServer => 0,
            Direction::ServerToClient => 1,
        }];
        let input = Input::Message {
            session: Cow::Borrowed(&self.session),
            direction,
            position: *position,
            time,
            bytes: Cow::Borrowed(frame),
        };
        *position += frame.len() as u64;
        self.engine.handle(input, &mut findings);
        findings.0
    }
}
