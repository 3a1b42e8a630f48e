//! `mcpinspectd`: the daemon, and what needs its privileges.

mod command;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    command::Cli::parse().run()
}
