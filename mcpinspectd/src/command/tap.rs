//! `mcpinspectd tap`: tcpdump for MCP.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpinspectd::capture::Options;
use mcpinspectd::engine::{Engine, Limits, MessageSeen, NoDetector, Output};
use mcpinspectd::event::Event;
use mcpinspectd::preflight::Requirements;
use mcpinspectd::registry::Registry;
use mcpinspectd::tap::jsonl::Jsonl;

use super::session::{self, Flush, Pipeline, RING_SIZE};

/// Bytes of a message that are kept at most.
const MAX_MESSAGE: u64 = 64 << 20;
/// Bytes per end that are looked at before a stream is taken for something else than MCP.
const SNIFF_BUDGET: u64 = 256 << 10;

/// Needs root. Ends with a summary on Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lines for people, or JSON lines for programs
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Show messages in full: they contain secrets
    #[arg(long)]
    raw: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Human,
    Jsonl,
}

/// Runs until a signal, or until nobody reads the output any more.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let requirements = Requirements {
        btf: None,
        ring_size: RING_SIZE,
    };
    session::preflight(&requirements)?;
    let stop = session::stop_flag()?;
    let options = Options {
        ring_size: RING_SIZE,
        sniff_budget: SNIFF_BUDGET,
        btf: None,
        diagnostics: false,
    };
    let mut monitor = session::start(options, MAX_MESSAGE)?;

    let registry = Registry::in_memory()?;
    let limits = Limits {
        max_message: MAX_MESSAGE as usize,
        ..Limits::default()
    };
    let mut pipeline = Pipeline {
        engine: Engine::new(limits, registry, Box::new(NoDetector)),
        output: Tap {
            lines: Jsonl::new(
                BufWriter::with_capacity(1 << 16, io::stdout()),
                arguments.raw,
            ),
            stop: Arc::clone(&stop),
            failure: None,
        },
    };
    pipeline.output.lines.ready(monitor.hook().as_str())?;
    monitor.run(&stop, &mut pipeline);
    if let Some(error) = pipeline.output.failure {
        // Whoever read the output has left: that is a way to end it.
        return if error.kind() == io::ErrorKind::BrokenPipe {
            Ok(())
        } else {
            Err(error.into())
        };
    }
    let totals = monitor.totals();
    pipeline.output.lines.summary(monitor.ledger(), &totals)?;
    Ok(())
}

struct Tap {
    lines: Jsonl<BufWriter<Stdout>>,
    stop: Arc<AtomicBool>,
    failure: Option<io::Error>,
}

impl Tap {
    fn written(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
            self.stop.store(true, Ordering::Release);
        }
    }
}

impl Flush for Tap {
    fn flush(&mut self) {
        let result = self.lines.flush();
        self.written(result);
    }
}

impl Output for Tap {
    fn message(&mut self, message: &MessageSeen<'_>) {
        let result = self.lines.message(message);
        self.written(result);
    }

    fn event(&mut self, event: Event) {
        let result = self.lines.event(&event);
        self.written(result);
    }
}
