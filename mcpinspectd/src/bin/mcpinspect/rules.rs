//! `mcpinspect rules`: people's own rules, checked before the daemon reads them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mcpinspectd::detect::knowledge::{self, Knowledge, USER_RULES};

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
                    println!("{}: {count} rules, no errors", path.display());
                    Ok(ExitCode::SUCCESS)
                }
                Err(errors) => {
                    errors.iter().for_each(|error| eprintln!("{error}"));
                    Ok(ExitCode::FAILURE)
                }
            },
            Command::List { rules } => {
                let (knowledge, errors) = Knowledge::load(&rules);
                errors
                    .iter()
                    .for_each(|error| eprintln!("mcpinspect: {error} (this file is left out)"));
                for (rule, weight) in knowledge
                    .rules
                    .rules()
                    .iter()
                    .zip(&knowledge.weights.definition.rules)
                {
                    println!(
                        "{:<30} {:<24} {:<9} {weight:>5.2}  {}",
                        rule.id,
                        rule.category,
                        rule.severity.as_str(),
                        rule.says
                    );
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
