//! `mcpinspect-notify`: the session agent that shows a person, on their desktop, what the daemon
//! found out about their MCP servers.
//!
//! It runs as the person, started by the user's service manager, and needs no rights: the daemon's
//! signals reach every user, and hold names only. It shows those that concern servers that run as
//! this user; the evidence is fetched when the person asks for it.

mod agent;
mod alert;
mod board;
mod desktop;
mod details;
mod peer;
mod program;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::LazyLock;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser};
use mcpinspectd::logging;
use mcpinspectd::manual::{self, Section};
use mcpinspectd::model::Severity;
use mcpinspectd::terminal;
use tokio::signal::unix::{SignalKind, signal};

use crate::alert::Filter;
use crate::program::Program;

/// What `--version` says.
static VERSION: LazyLock<String> =
    LazyLock::new(|| mcpinspectd::build::version(option_env!("MCPINSPECT_COMMIT")));

/// Shows desktop notifications for what mcpinspectd finds out about your MCP servers.
#[derive(Debug, Parser)]
#[command(name = "mcpinspect-notify", version = VERSION.as_str())]
struct Arguments {
    /// Show alerts about everyone's servers, not just your own.
    #[arg(long)]
    all: bool,
    /// The least severity to show: low, medium, high or critical.
    #[arg(long, default_value = "medium", value_parser = severity)]
    min_severity: Severity,
    /// Begin with what was signalled after the event with this id.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// What to log, such as `debug`; else RUST_LOG says, else `info`.
    #[arg(long)]
    log: Option<String>,
}

impl Arguments {
    /// A command line of the same meaning, to go on after the event `last`.
    fn once_more(&self, last: Option<String>) -> Vec<OsString> {
        let mut words = vec![format!("--min-severity={}", self.min_severity.as_str())];
        words.extend(self.all.then(|| "--all".to_owned()));
        words.extend(last.map(|id| format!("--after={id}")));
        words.extend(self.log.as_ref().map(|log| format!("--log={log}")));
        words.into_iter().map(OsString::from).collect()
    }
}

fn severity(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "neither low, medium, high nor critical".to_owned())
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
    let program = Program::running();
    let own = nix::unistd::Uid::current().as_raw();
    let filter = Filter {
        uid: (!arguments.all).then_some(own),
        least: arguments.min_severity,
    };
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    tokio::select! {
        last = agent::run(filter, arguments.after.clone(), program.as_ref()) => {
            if let Some(program) = &program {
                tracing::info!("this program has been replaced: going on as the new one");
                let error = program.renew(arguments.once_more(last));
                return Err(error).context("cannot start the program that replaced this one");
            }
        }
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    Ok(())
}
