//! `mcpinspectd tap`: tcpdump for MCP.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use anyhow::Context as _;
use mcpinspect_cli::logging;
use mcpinspect_cli::terminal::wants_colour;
use mcpinspect_core::model::{Pid, Timestamp};
use mcpinspect_core::source;
use mcpinspect_core::source::Source as _;
use mcpinspect_engine::{Engine, Output, OutputSink};
use mcpinspect_judge::detect::runtime::RuntimeDetector;
use mcpinspect_judge::registry::{Registry, ServerNames};
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_settings::config::Config;
use mcpinspectd::pipeline::{Flush, TapPipeline};
use mcpinspectd::tap::{Filter, Format, Human, Jsonl, Ready, Tap};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::detection::Rules;
use super::session;

/// Requires root. Ends with a summary on Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Output format: lines for people, or JSON lines for programs
    #[arg(long, value_enum, default_value = "human")]
    format: Shape,
    /// Show messages in full: they contain secrets
    #[arg(long)]
    raw: bool,
    /// Show only servers whose name matches this pattern, such as 'github*'
    #[arg(long, value_name = "GLOB")]
    server: Option<String>,
    /// Show only sessions of this process, as the server or the client
    #[arg(long, value_name = "N")]
    pid: Option<u32>,
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What to log to standard error: a level (error, warn, info, debug, trace) or a filter
    #[arg(long, value_name = "FILTER", default_value = "warn")]
    log: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    Human,
    Jsonl,
}

/// Runs until a signal, or until the output has no reader.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = Config::load(arguments.config.as_deref())?;
    logging::init(Some(&arguments.log))?;
    let filter = Filter::new(arguments.server.as_deref(), arguments.pid.map(Pid))
        .context("invalid pattern for --server")?;
    session::preflight(&config)?;
    let raw = arguments.raw;
    match arguments.format {
        Shape::Jsonl => watch(arguments, &config, filter, Jsonl { raw }),
        Shape::Human => {
            let colour = wants_colour(io::stdout().is_terminal());
            let format = Human::new(colour, session::terminal_width()).with_raw(raw);
            watch(arguments, &config, filter, format)
        }
    }
}

/// Accounts of ended streams to include in the summary.
const ACCOUNTS: usize = 4096;

fn watch(
    arguments: &Arguments,
    config: &Config,
    filter: Filter,
    format: impl Format,
) -> anyhow::Result<()> {
    if io::stderr().is_terminal() {
        // Nothing depends on whether it is read.
        let _ = writeln!(
            io::stderr(),
            "Attaching the probes. Those for TLS take a few seconds."
        );
    }
    let stop = session::stop_flag()?;
    let notifier = Notifier::default();
    let mut source = session::start(
        config,
        Arc::new(RwLock::new(config.tags())),
        ServerNames::default(),
        session::Usage {
            accounts: ACCOUNTS,
            ..session::Usage::default()
        },
        arguments.log == "trace",
        notifier.clone(),
    )?;
    session::wake_on_signals(&[SIGINT, SIGTERM], notifier)?;
    // Pins are the daemon's business: a tap looks, and remembers nothing.
    let registry = Registry::in_memory();
    let mut pipeline = TapPipeline {
        engine: Engine::new(
            session::limits(config),
            registry,
            Box::new(RuntimeDetector::new(Rules::load(None).active())),
        ),
        output: Live {
            tap: Tap::new(io::stdout(), format, filter),
            stop: Arc::clone(&stop),
            is_opening: true,
        },
    };
    pipeline.output.tap.ready(&Ready::now(Timestamp::now()));
    let Ok(()) = source::run(&mut source, &stop, &mut pipeline, |pipeline, source| {
        if pipeline.output.is_opening && !source.is_opening() {
            pipeline.output.is_opening = false;
            pipeline.output.flush();
        }
    });
    let totals = source.totals();
    let tap = pipeline.output.tap;
    tap.finish(Timestamp::now(), source.ledger(), totals)
        .context("cannot write")
}

/// A tap that ends the program when its output has no reader.
struct Live<F> {
    tap: Tap<Stdout, F>,
    stop: Arc<AtomicBool>,
    /// TLS probes are still loading. Until then the first line, which says that nothing goes unseen, waits, and
    /// with it what follows, as long as that is not much.
    is_opening: bool,
}

impl<F: Format> OutputSink for Live<F> {
    fn output(&mut self, output: Output<'_>) {
        self.tap.output(output);
    }
}

impl<F: Format> Flush for Live<F> {
    fn flush(&mut self) {
        if self.is_opening {
            return;
        }
        self.tap.flush();
        if !self.tap.is_open() {
            self.stop.store(true, Ordering::Release);
        }
    }
}
