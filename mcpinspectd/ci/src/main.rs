//! `mcpinspect-ci`: the commands that test a server, for a build machine.
//!
//! They are those of `mcpinspect`, without everything that needs the daemon: no kernel, no bus and no
//! database is built.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when the reader has left; `terminal` does not"
)]

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use mcpinspect_cli::{build, terminal};
use mcpinspect_client::commands::{call, replay, scan};
use mcpinspect_core::panics;

/// What `--version` says.
static VERSION: LazyLock<String> =
    LazyLock::new(|| build::version(option_env!("MCPINSPECT_COMMIT")));

/// Tests MCP servers: calls their tools, replays recorded sessions, scans their definitions.
#[derive(Parser)]
#[command(name = "mcpinspect-ci", version = VERSION.as_str(), about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Call(call::Call),
    Replay(replay::Replay),
    Scan(scan::Scan),
}

fn main() -> ExitCode {
    panics::set_hook(panics::print);
    let outcome = match Arguments::parse().command {
        Command::Call(command) => command.run(),
        Command::Replay(command) => command.run(),
        Command::Scan(command) => command.run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            terminal::complain(format_args!("mcpinspect-ci: {error:#}"));
            ExitCode::from(2)
        }
    }
}
