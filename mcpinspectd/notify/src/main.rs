//! `mcpinspect-notify`: the session agent that shows the daemon's findings as desktop notifications.
//!
//! It runs as the logged-in user, started by the user's service manager, and needs no privileges: the
//! daemon's signals reach every user and contain names only. The agent shows those about the user's
//! own servers, and fetches the evidence when the person asks for it.

mod agent;
mod alert;
mod cards;
mod daemon;
mod details;
mod evidence;
mod group;
mod handover;
mod notifications;
mod program;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use mcpinspect_cli::logging;
use mcpinspect_cli::manual;
use mcpinspect_cli::manual::Section;
use mcpinspect_cli::terminal;
use mcpinspect_core::model::Severity;
use tokio::signal::unix::{SignalKind, signal};

use crate::agent::SavedState;
use crate::alert::Filter;
use crate::program::Executable;

/// What `--version` says.
static VERSION: LazyLock<String> =
    LazyLock::new(|| mcpinspect_cli::build::version(option_env!("MCPINSPECT_COMMIT")));

/// Shows mcpinspectd's findings about your MCP servers as desktop notifications.
#[derive(Debug, Parser)]
#[command(name = "mcpinspect-notify", version = VERSION.as_str())]
struct Arguments {
    /// Show alerts about all users' servers, not just your own.
    #[arg(long)]
    all: bool,
    /// The lowest severity to show: low, medium, high or critical.
    #[arg(long, default_value = "medium", value_parser = severity)]
    min_severity: Severity,
    /// Start with the events after the one with this id.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Restore notifications from standard input, where an earlier run wrote them.
    #[arg(long, hide = true)]
    resume: bool,
    /// Log filter, such as `debug`. Default: `RUST_LOG`, or `info` if that is not set.
    #[arg(long)]
    log: Option<String>,
}

impl Arguments {
    /// An equivalent command line that continues after the event `last`.
    fn restarted_after(&self, last: Option<String>) -> Vec<OsString> {
        let mut words = vec![
            "--resume".to_owned(),
            format!("--min-severity={}", self.min_severity.as_str()),
        ];
        words.extend(self.all.then(|| "--all".to_owned()));
        words.extend(last.map(|id| format!("--after={id}")));
        words.extend(self.log.as_ref().map(|log| format!("--log={log}")));
        words.into_iter().map(OsString::from).collect()
    }
}

fn severity(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "expected low, medium, high or critical".to_owned())
}

fn main() -> ExitCode {
    if let Some(written) = manual::asked_for(Arguments::command, Section::Commands) {
        return written;
    }
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(format_args!("mcpinspect-notify: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    logging::init(arguments.log.as_deref())?;
    let program = Executable::running();
    let own = nix::unistd::Uid::current().as_raw();
    let filter = Filter {
        uid: (!arguments.all).then_some(own),
        min_severity: arguments.min_severity,
    };
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let state = SavedState {
        last: arguments.after.clone(),
        cards: if arguments.resume {
            handover::read(std::io::stdin())
        } else {
            Vec::new()
        },
    };
    tokio::select! {
        state = agent::run(filter, state, program.as_ref()) => {
            if let Some(program) = &program {
                tracing::info!("this program has been replaced: starting the new version");
                let cards = handover::write(&state.cards).context("cannot save the notifications")?;
                let error = program.re_execute(arguments.restarted_after(state.last), cards);
                return Err(error).context("cannot start the program that replaced this one");
            }
        }
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}
