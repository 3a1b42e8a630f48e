//! One engine, several sinks: the daemon's events, a store of messages, a guard.

use super::output::{Output, OutputSink};

/// Feeds two sinks alike, the first one first; for more than two, make one of them a `Tee`.
///
/// Both are shown a judgement before either receives the message. A judgement asks for
/// nothing back, so there is nothing to combine: every sink sees the same
/// [`disposition`](super::Judgement::disposition), which is the strictest of the findings. If each of
/// several guards makes up its own mind, [`Action`](mcpinspect_core::model::Action) is ordered by strictness: the
/// strictest of them, `max`, applies to all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee<A, B>(pub A, pub B);

impl<A: OutputSink, B: OutputSink> OutputSink for Tee<A, B> {
    fn output(&mut self, output: Output<'_>) {
        self.0.output(output);
        self.1.output(output);
    }
}

/// A borrowed sink.
impl<S: OutputSink + ?Sized> OutputSink for &mut S {
    fn output(&mut self, output: Output<'_>) {
        (**self).output(output);
    }
}

/// A sink that may be absent.
impl<S: OutputSink> OutputSink for Option<S> {
    fn output(&mut self, output: Output<'_>) {
        if let Some(sink) = self {
            sink.output(output);
        }
    }
}
