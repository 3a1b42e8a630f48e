//! `mcpinspectd`: the daemon, and what needs its privileges.

mod command;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use mcpinspectd::manual::{self, Section};

fn main() -> ExitCode {
    if let Some(written) = manual::asked_for(command::Cli::command, Section::Administration) {
        return written;
    }
    command::Cli::parse().run()
}
