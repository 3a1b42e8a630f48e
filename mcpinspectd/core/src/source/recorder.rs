//! Records the inputs that pass.

use std::io::Write;

use super::tape::{TapeError, TapeWriter};
use crate::model::{Input, InputSink, Timestamp};

/// Passes inputs on, and writes them to a tape. If the tape cannot be written, cannot record any
/// more; recording has stopped and the inputs still pass.
#[derive(Debug)]
pub struct Recorder<S, W> {
    sink: S,
    /// The tape, or why it ended.
    tape: Result<TapeWriter<W>, TapeError>,
}

impl<S: InputSink, W: Write> Recorder<S, W> {
    /// Passes inputs on to `sink` and writes them to `out`.
    ///
    /// # Errors
    /// The tape's header cannot be written.
    pub fn new(sink: S, out: W) -> Result<Self, TapeError> {
        Ok(Self {
            sink,
            tape: Ok(TapeWriter::new(out)?),
        })
    }

    /// Where the inputs go.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Ends the tape.
    ///
    /// # Errors
    /// The tape could not be written, now or before: it ends earlier than the recording.
    pub fn finish(self) -> Result<(S, W), TapeError> {
        Ok((self.sink, self.tape?.finish()?))
    }

    fn record(&mut self, act: impl FnOnce(&mut TapeWriter<W>) -> Result<(), TapeError>) {
        if let Ok(tape) = &mut self.tape
            && let Err(error) = act(tape)
        {
            tracing::error!(%error, "cannot record any more; recording has stopped");
            self.tape = Err(error);
        }
    }
}

impl<S: InputSink, W: Write> InputSink for Recorder<S, W> {
    fn input(&mut self, input: Input<'_>) {
        self.record(|tape| tape.write(&input));
        self.sink.input(input);
    }

    fn idle(&mut self, now: Timestamp) {
        self.record(TapeWriter::flush);
        self.sink.idle(now);
    }
}
