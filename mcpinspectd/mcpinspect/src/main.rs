//! `mcpinspect`: the command line for people.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when the reader has left; `terminal` does not"
)]
mod contain;
mod daemon;
mod decide;
mod diff;
mod events;
mod explain;
mod fleet;
mod forget;
mod lessons;
mod mcp;
mod pins;
mod recordings;
mod registry;
mod report;
mod rules;
mod tape;
mod text_diff;
mod tools;
mod top;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory as _, Parser, Subcommand};
use mcpinspect_cli::manual;
use mcpinspect_cli::manual::Section;
use mcpinspect_cli::terminal;
use mcpinspect_client::commands::{call, replay, scan};
use mcpinspect_core::panics;
use mcpinspect_guard::policy;
use mcpinspect_store::query;

/// What `--version` says.
static VERSION: LazyLock<String> =
    LazyLock::new(|| mcpinspect_cli::build::version(option_env!("MCPINSPECT_COMMIT")));

/// Inspects MCP servers, their tools and their messages.
#[derive(Parser)]
#[command(name = "mcpinspect", version = VERSION.as_str(), about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Status(daemon::Status),
    Servers(daemon::Servers),
    Events(events::Events),
    Top(top::Top),
    Freeze(contain::Freeze),
    Thaw(contain::Thaw),
    Kill(contain::Kill),
    Pause(contain::Pause),
    Resume(contain::Resume),
    Tools(tools::Tools),
    Diff(diff::Diff),
    Approve(decide::Approve),
    Reject(decide::Reject),
    Pin(decide::Pin),
    Unpin(decide::Unpin),
    Forget(forget::Forget),
    Registry(registry::RegistryCommand),
    Sessions(recordings::Sessions),
    Show(recordings::Show),
    Search(recordings::Search),
    Stats(recordings::Stats),
    Query(recordings::Query),
    Mcp(mcp::Mcp),
    Tape(tape::TapeCommand),
    Replay(replay::Replay),
    Report(report::ReportCommand),
    Scan(scan::Scan),
    Call(call::Call),
    Explain(explain::Explain),
    Rules(rules::Rules),
    Policy(policy::PolicyCommand),
    Guard(mcpinspect_guard::Guard),
    Fleet(fleet::FleetCommand),
}

fn main() -> ExitCode {
    if let Some(written) = manual::asked_for(Arguments::command, Section::Commands) {
        return written;
    }
    if let Some(answered) = query::worker::asked_for() {
        return answered;
    }
    panics::set_hook(panics::print);
    let outcome = match Arguments::parse().command {
        Command::Status(command) => command.run(),
        Command::Servers(command) => command.run(),
        Command::Events(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Freeze(command) => command.run(),
        Command::Thaw(command) => command.run(),
        Command::Kill(command) => command.run(),
        Command::Pause(command) => command.run(),
        Command::Resume(command) => command.run(),
        Command::Tools(command) => command.run(),
        Command::Diff(command) => command.run(),
        Command::Approve(command) => command.run(),
        Command::Reject(command) => command.run(),
        Command::Pin(command) => command.run(),
        Command::Unpin(command) => command.run(),
        Command::Forget(command) => command.run(),
        Command::Registry(command) => command.run(),
        Command::Sessions(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Search(command) => command.run(),
        Command::Stats(command) => command.run(),
        Command::Query(command) => command.run(),
        Command::Mcp(command) => command.run(),
        Command::Tape(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Report(command) => command.run(),
        Command::Scan(command) => command.run(),
        Command::Call(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Rules(command) => command.run(),
        Command::Policy(command) => command.run(),
        Command::Guard(command) => command.run(),
        Command::Fleet(command) => command.run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(format_args!("mcpinspect: {error:#}"));
            ExitCode::from(2)
        }
    }
}
