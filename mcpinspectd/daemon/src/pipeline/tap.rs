//! The short pipeline of `mcpinspectd tap`: a source, the engine, an output.

use mcpinspect_core::model::{Input, InputSink, Timestamp};
use mcpinspect_engine::{Engine, OutputSink};

/// An output that may hold lines back until nothing else is left to do.
pub trait Flush {
    /// Releases what was held back.
    fn flush(&mut self);
}

/// Takes inputs through the engine to an output.
pub struct TapPipeline<O> {
    /// The engine.
    pub engine: Engine,
    /// Where its messages and events go.
    pub output: O,
}

impl<O: OutputSink + Flush> InputSink for TapPipeline<O> {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.output);
    }

    fn idle(&mut self, now: Timestamp) {
        self.engine.idle(now, &mut self.output);
        self.output.flush();
    }
}
