//! `mcpinspectd tap`: tcpdump for MCP.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpinspectd::config::Config;
use mcpinspectd::engine::{Engine, MessageSeen, NoDetector, Output};
use mcpinspectd::event::Event;
use mcpinspectd::registry::Registry;
use mcpinspectd::sink::logging;
use mcpinspectd::tap::jsonl::Jsonl;

use super::session::{self, Flush, Pipeline};

/// Needs root. Ends with a summary on Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Lines for people, or JSON lines for programs
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Show messages in full: they contain secrets
    #[arg(long)]
    raw: bool,
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to log to standard error: a level (error, warn, info, debug, trace) or a filter
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Human,
    Jsonl,
}

/// Runs until a signal, or until nobody reads the output any more.
pub fn run(arguments: Arguments) -> anyhow::Result<()> {
    let config = Config::load(arguments.config.as_deref())?;
    logging::init(Some(arguments.log.as_deref().unwrap_or("warn")))?;
    session::preflight(&config)?;
    let stop = session::stop_flag()?;
    let mut monitor = session::start(&config, arguments.log.as_deref() == Some("trace"))?;

    // What is pinned is the daemon's business: a tap looks, and remembers nothing.
    let registry = Registry::in_memory()?;
    let mut pipeline = Pipeline {
        engine: Engine::new(session::limits(&config), registry, Box::new(NoDetector)),
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
