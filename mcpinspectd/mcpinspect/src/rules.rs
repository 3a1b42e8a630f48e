//! `mcpinspect rules`: checks rule files before the daemon reads them, and lists the rules in use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_settings::rule_files;

use super::lessons::ForgetLessons;

/// Check and list detection rules
#[derive(clap::Args)]
pub struct Rules {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check rules and suppressions, and show the line of each error.
    Check {
        /// A rule file, or a directory with *.toml files.
        #[arg(default_value = rule_files::DIRECTORY)]
        path: PathBuf,
    },
    ForgetLessons(ForgetLessons),
    /// List the rules in use.
    List {
        /// Directory (or file) with your own rules.
        #[arg(long, default_value = rule_files::DIRECTORY)]
        rules: PathBuf,
    },
}

impl Rules {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Check { path } => match rule_files::check(&path) {
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
            Command::ForgetLessons(forget) => forget.run(),
            Command::List { rules } => {
                let (active, errors) = rule_files::load(&[&rules]);
                for error in &errors {
                    terminal::complain(format_args!("mcpinspect: {error} (this file is left out)"));
                }
                let weights = &active.weights.definition.rules;
                terminal::print(|out| {
                    aligned(out, |out| {
                        for (rule, weight) in active.rules.rules().iter().zip(weights) {
                            writeln!(
                                out,
                                "{}\t{}\t{}\t{weight:>5.2}\t{}",
                                rule.id,
                                rule.category,
                                rule.severity.as_str(),
                                rule.explanation
                            )?;
                        }
                        Ok(())
                    })
                })?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
