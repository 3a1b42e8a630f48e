//! What detection says about a tape: it goes through the same engine as what the kernel shows.

use std::io::BufRead;

use mcpinspect_core::model::{Input, InputSink};
use mcpinspect_core::source::lines::TapeError;
use mcpinspect_core::source::{Progress, Source as _};
use mcpinspect_engine::event::json::event_json;
use mcpinspect_engine::event::render;
use mcpinspect_engine::{Engine, Limits, Output, OutputSink};
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::detect::{ActiveRules, WeightedRules};
use mcpinspect_judge::registry::Registry;

use super::collect::SessionEvent;
use crate::read::{TapeReader, TapeSource};

/// Bytes of an event's JSON.
const EVENT: usize = 16 << 10;

/// Examines a tape. Every tool on it is new: what is pinned on this machine does not matter.
pub struct TapeExaminer {
    engine: Engine,
    events: Vec<SessionEvent>,
}

impl TapeExaminer {
    /// With the built-in rules.
    pub fn new() -> Self {
        let active = ActiveRules::new(WeightedRules::builtin());
        Self {
            engine: Engine::new(
                Limits::default(),
                Registry::in_memory(),
                Box::new(RuntimeDetector::new(active.into())),
            ),
            events: Vec::new(),
        }
    }

    /// Reads the whole tape, and hands over its events.
    ///
    /// # Errors
    /// A line cannot be read. What was found before it has been handed over.
    pub fn examine<R: BufRead>(
        mut self,
        tape: TapeReader<R>,
        mut take: impl FnMut(SessionEvent),
    ) -> Result<(), TapeError> {
        let mut source = TapeSource::new(tape);
        loop {
            let progress = source.poll(&mut self);
            self.events.drain(..).for_each(&mut take);
            if !matches!(progress?, Progress::Open) {
                return Ok(());
            }
        }
    }
}

impl Default for TapeExaminer {
    fn default() -> Self {
        Self::new()
    }
}

impl InputSink for TapeExaminer {
    fn input(&mut self, input: Input<'_>) {
        let Self { engine, events } = self;
        engine.handle(input, &mut EventCollector(events));
    }
}

/// Keeps the events.
struct EventCollector<'a>(&'a mut Vec<SessionEvent>);

impl OutputSink for EventCollector<'_> {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            let json = event_json(event, "", EVENT).map(|json| json.text);
            self.0.push(SessionEvent {
                time: event.time,
                kind: event.kind().name().to_owned(),
                severity: event
                    .severity()
                    .map(|severity| severity.as_str().to_owned()),
                title: render::title(event),
                json: json.unwrap_or_default(),
            });
        }
    }
}
