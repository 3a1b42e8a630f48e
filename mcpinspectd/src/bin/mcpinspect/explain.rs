//! `mcpinspect explain CATEGORY`: explains what a finding means and what to do about it.

use std::process::ExitCode;

use mcpinspectd::detect::category::Category;
use mcpinspectd::detect::explain;
use mcpinspectd::terminal;
use mcpinspectd::terminal::table::aligned;

/// Explain a category of findings: what triggers it, what does not, how to suppress it
#[derive(clap::Args)]
pub struct Explain {
    /// The category, such as `hidden_instructions`; lists all categories if omitted.
    category: Option<String>,
}

impl Explain {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(word) = self.category else {
            terminal::print(|out| {
                aligned(out, |out| {
                    for category in Category::ALL {
                        let title = &explain::page(*category).title;
                        writeln!(out, "{}\t{title}", category.as_str())?;
                    }
                    Ok(())
                })?;
                writeln!(out, "\nRun `mcpinspect explain CATEGORY` for details.")
            })?;
            return Ok(ExitCode::SUCCESS);
        };
        let Some(category) = Category::parse(&word.replace('-', "_")) else {
            let known: Vec<&str> = Category::ALL
                .iter()
                .map(|category| category.as_str())
                .collect();
            anyhow::bail!(
                "there is no category `{word}`; the categories are {}",
                known.join(", ")
            );
        };
        terminal::print(|out| write!(out, "{}", explain::text(category)))?;
        Ok(ExitCode::SUCCESS)
    }
}
