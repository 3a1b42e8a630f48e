//! `mcpinspect rules`: people's own rules, checked before the daemon reads them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mcpinspectd::detect::knowledge::{self, Knowledge, USER_RULES};
use mcpinspectd::terminal;

/// Work with detection rules
#[derive(clap::Args)]
pub struct Rules {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check rules and suppressions; say the line of each error.
    Check {
        /// A file, or a directory with *.toml files.
        #[arg(default_value = USER_RULES)]
        path: PathBuf,
    },
    /// List the rules in use.
    List {
        /// Directory (or file) with rules of your own.
        #[arg(long, default_value = USER_RULES)]
        rules: PathBuf,
    },
}

impl Rules {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Check { path } => match knowledge::check(&path) {
                Ok(count) => {
                    terminal::print(|out| {
                        writeln!(out, "{}: {count} rules, no errors", path.display())
                    })?;
                    Ok(ExitCode::SUCCESS)
                }
                Err(errors) => {
                    for error in &errors {
                        terminal::complain(format_args!("{error}"));
                    }
                    Ok(ExitCode::FAILURE)
                }
            },
            Command::List { rules } => {
                let (knowledge, errors) = Knowledge::load(&rules);
                for error in &errors {
                    terminal::complain(format_args!("mcpinspect: {error} (this file is left out)"));
                }
                let weights = &knowledge.weights.definition.rules;
                terminal::print(|out| {
                    for (rule, weight) in knowledge.rules.rules().iter().zip(weights) {
                        writeln!(
                            out,
                            "{:<30} {:<24} {:<9} {weight:>5.2}  {}",
                            rule.id,
                            rule.category,
                            rule.severity.as_str(),
                            rule.says
                        )?;
                    }
                    Ok(())
                })?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
