//! `mcpinspectd run --from-tape`: what the daemon would have reported about a tape.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::Reader;
use mcpinspect_core::model::{Input, InputSink, Timestamp};
use mcpinspect_core::source;
use mcpinspect_core::source::tape::TapeError;
use mcpinspect_core::source::{Source, tape};
use mcpinspect_engine::event::envelope::{Envelope, EventId};
use mcpinspect_engine::{Engine, Output, OutputSink};
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::registry::Registry;
use mcpinspect_settings::config::Config;
use mcpinspect_tape::file;
use mcpinspect_tape::read::{TapeReader, TapeSource};
use memchr::memmem;

use super::detection::Rules;
use super::session;

/// Longest JSON of an event, in bytes.
const MAX_EVENT: usize = 1 << 20;

/// Plays the tape at `path` and prints its events. Times are those of the tape: nothing depends on when
/// it is played.
pub fn play(path: &Path, config: &Config) -> anyhow::Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let mut input = file::open(path).with_context(cannot)?;
    let beginning = input.fill_buf().with_context(cannot)?;
    // The first line names the format, near its start.
    let first = &beginning[..beginning.len().min(256)];
    let holds_inputs = memmem::find(first, tape::FORMAT.as_bytes()).is_some();
    let playing = Playing {
        engine: Engine::new(
            session::limits(config),
            // What is pinned on this machine does not matter.
            Registry::in_memory(),
            Box::new(RuntimeDetector::new(Rules::load(None).active())),
        ),
        lines: Lines::default(),
    };
    let played = if holds_inputs {
        tape::TapeReader::new(input).and_then(|tape| run(tape, playing))
    } else {
        TapeReader::new(input).and_then(|tape| run(TapeSource::new(tape), playing))
    };
    played.with_context(|| path.display().to_string())
}

/// Plays it to its end, or until no one reads the output.
fn run(mut source: impl Source<Error = TapeError>, mut playing: Playing) -> Result<(), TapeError> {
    let stop = AtomicBool::new(false);
    let played = source::run(&mut source, &stop, &mut playing, |playing, _| {
        if playing.lines.reader_is_gone {
            stop.store(true, Ordering::Release);
        }
    });
    playing.lines.print();
    played
}

struct Playing {
    engine: Engine,
    lines: Lines,
}

impl InputSink for Playing {
    fn input(&mut self, input: Input<'_>) {
        self.engine.handle(input, &mut self.lines);
    }

    fn idle(&mut self, _now: Timestamp) {
        self.lines.print();
    }
}

/// Events as lines of JSON, numbered from the time of the first one.
#[derive(Default)]
struct Lines {
    text: String,
    first: Option<Timestamp>,
    number: u64,
    reader_is_gone: bool,
}

impl Lines {
    fn print(&mut self) {
        let text = std::mem::take(&mut self.text);
        match terminal::print(|out| out.write_all(text.as_bytes())) {
            Ok(Reader::Listening) => {}
            Ok(Reader::Gone) => self.reader_is_gone = true,
            Err(error) => {
                tracing::error!(%error, "cannot print events");
                self.reader_is_gone = true;
            }
        }
    }
}

impl OutputSink for Lines {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output {
            self.number += 1;
            let first = *self.first.get_or_insert(event.time);
            match Envelope::new(event, EventId::new(first, self.number), None, MAX_EVENT) {
                Ok(envelope) => {
                    self.text.push_str(&envelope.json);
                    self.text.push('\n');
                }
                Err(error) => tracing::error!(%error, "cannot print an event"),
            }
        }
    }
}
