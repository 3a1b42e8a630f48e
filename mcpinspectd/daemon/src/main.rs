//! `mcpinspectd`: the daemon, and the commands that need its privileges.

mod command;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use mcpinspect_cli::manual;
use mcpinspect_cli::manual::Section;
use mcpinspect_store::query;

fn main() -> ExitCode {
    if let Some(written) = manual::asked_for(command::Cli::command, Section::Administration) {
        return written;
    }
    if let Some(answered) = query::worker::asked_for() {
        return answered;
    }
    command::Cli::parse().run()
}
