//! The program's commands, one file each.

mod check;
mod session;
mod tap;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Watches every MCP server on this machine with eBPF, without wrapping anything.
#[derive(Debug, Parser)]
#[command(name = "mcpinspectd", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show every MCP message on this machine as it happens, in the foreground
    Tap(tap::Arguments),
    /// Check whether this machine offers what the probes need, and say what to do where it does not
    Check(check::Arguments),
}

impl Cli {
    /// Does what the command line asks for.
    pub fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Tap(arguments) => tap::run(arguments),
            Command::Check(arguments) => return check::run(&arguments),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("mcpinspectd: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}
