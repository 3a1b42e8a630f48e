//! Where inputs come from.
//!
//! The pipeline does not know what feeds it: the kernel's view of this machine, a tape of an
//! earlier run, or a script in a test. Each is a [`Source`], which pushes [`Input`]s into an
//! [`InputSink`] until it is stopped or has nothing left.
//!
//! - [`tape`]: a file of inputs, one JSON line each.
//! - [`lines`]: reads the lines of a tape, in this format and that of recorded sessions.
//! - [`recorder`]: writes a tape of the inputs that pass.
//! - [`script`]: makes a session's inputs by hand, for tests and benchmarks.
//!
//! [`Input`]: crate::model::Input

pub mod lines;
pub mod recorder;
pub mod script;
pub mod tape;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::{Account, CaptureTotals, InputSink, Timestamp};

/// Something that inputs come from.
pub trait Source {
    /// Why it cannot go on.
    type Error;

    /// Passes on what has happened. If nothing has, waits for a moment, but never long, so that a
    /// caller can attend to other things in between.
    ///
    /// # Errors
    /// The source is broken. What it passed on before is valid.
    fn poll(&mut self, sink: &mut dyn InputSink) -> Result<Progress, Self::Error>;

    /// Stops, and passes on what is left. Open sessions end.
    ///
    /// # Errors
    /// The source is broken. What it passed on before is valid.
    fn finish(&mut self, sink: &mut dyn InputSink) -> Result<(), Self::Error>;

    /// What the streams of all sessions have carried so far.
    fn account(&self) -> Account {
        Account::default()
    }

    /// What the capture behind it has done so far.
    fn totals(&mut self) -> CaptureTotals {
        CaptureTotals::default()
    }
}

/// Whether a source has more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More may come.
    Open,
    /// Nothing more comes.
    Exhausted,
}

/// Feeds `sink` from `source` until `stop` is set or the source is exhausted. Calls `attend` between
/// polls, several times a second, busy or idle.
///
/// # Errors
/// The source is broken. What it passed on before is valid.
pub fn run<S: Source, K: InputSink>(
    source: &mut S,
    stop: &AtomicBool,
    sink: &mut K,
    mut attend: impl FnMut(&mut K, &mut S),
) -> Result<(), S::Error> {
    while !stop.load(Ordering::Acquire) {
        let progress = source.poll(sink)?;
        sink.idle(Timestamp::now());
        attend(sink, source);
        if progress == Progress::Exhausted {
            break;
        }
    }
    source.finish(sink)
}
