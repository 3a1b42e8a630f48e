//! The program's commands, one file each.

mod check;
mod detection;
mod heap;
mod play;
mod policy;
mod run;
mod session;
mod tap;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use mcpinspect_cli::terminal;

/// What `--version` says.
static VERSION: LazyLock<String> =
    LazyLock::new(|| mcpinspect_cli::build::version(option_env!("MCPINSPECT_COMMIT")));

/// Watches every MCP server on this machine with eBPF, without wrapping anything.
#[derive(Debug, Parser)]
#[command(name = "mcpinspectd", version = VERSION.as_str(), arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch this machine: the daemon itself, usually started by systemd
    Run(run::Arguments),
    /// Show every MCP message on this machine as it happens, in the foreground
    Tap(tap::Arguments),
    /// Check whether this machine meets the requirements of the probes, and print what to do if it does not
    Check(check::Arguments),
}

impl Cli {
    /// Carries out the command line.
    pub fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Run(arguments) => run::run(&arguments).map(|()| ExitCode::SUCCESS),
            Command::Tap(arguments) => tap::run(&arguments).map(|()| ExitCode::SUCCESS),
            Command::Check(arguments) => check::run(&arguments),
        };
        match result {
            Ok(code) => code,
            Err(error) => {
                terminal::complain(format_args!("mcpinspectd: {error:#}"));
                ExitCode::FAILURE
            }
        }
    }
}
