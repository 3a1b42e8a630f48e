//! `mcpinspect policy`: checks policy files and tries them on recorded sessions.

mod load;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_judge::policy::DIRECTORY;

pub use load::{load, zone};

/// Check policies, and try them on recorded sessions
///
/// A policy is a set of rules in TOML files: which messages may pass between a client and a server,
/// and how they are changed. `mcpinspect guard` enforces it.
#[derive(clap::Args)]
pub struct PolicyCommand {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(Check),
    Test(test::Test),
}

/// Check policy files, and show the line of each mistake
#[derive(clap::Args)]
struct Check {
    /// Policy files, or directories with *.toml files.
    #[arg(default_value = DIRECTORY)]
    paths: Vec<PathBuf>,
}

impl PolicyCommand {
    /// Runs the command. Returns the exit code of the program.
    ///
    /// # Errors
    /// What kept it from its work, for people.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Check(command) => command.run(),
            Command::Test(command) => command.run(),
        }
    }
}

impl Check {
    fn run(self) -> anyhow::Result<ExitCode> {
        let Some(policy) = load(&self.paths) else {
            return Ok(ExitCode::FAILURE);
        };
        let count = policy.rules().len();
        terminal::print(|out| match count {
            1 => writeln!(out, "1 rule, no mistakes"),
            count => writeln!(out, "{count} rules, no mistakes"),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
