//! `mcpinspect explain WORD`: explains what a finding means and what to do about it.

use std::process::ExitCode;

use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_judge::detect::category::Category;
use mcpinspect_judge::detect::explain;
use mcpinspect_judge::detect::meaning::act::ACTS;

use super::pins::RegistryLocation;

/// Explain a category of findings: what triggers it, what does not, how to suppress it
#[derive(clap::Args)]
pub struct Explain {
    /// The category, such as `hidden_instructions`, or a finding of the model, such as
    /// `meaning-hides-from-user`; lists all categories if omitted.
    category: Option<String>,
    #[command(flatten)]
    location: RegistryLocation,
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
        let text = explanation(&word)?;
        let taught = category(&word).map(|category| self.location.taught(category));
        terminal::print(|out| {
            write!(out, "{text}")?;
            match taught {
                Some(taught) => write!(out, "{taught}"),
                None => Ok(()),
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The category that a word names, or that of the model's finding with this name.
fn category(word: &str) -> Option<Category> {
    let act = ACTS.iter().find(|act| act.pattern == word);
    act.map(|act| act.category)
        .or_else(|| Category::parse(&word.replace('-', "_")))
}

/// What a category of findings, or a finding of the model, means.
pub fn explanation(word: &str) -> anyhow::Result<String> {
    let act = ACTS.iter().find(|act| act.pattern == word);
    let Some(category) = category(word) else {
        let known: Vec<&str> = Category::ALL
            .iter()
            .map(|category| category.as_str())
            .collect();
        anyhow::bail!(
            "unknown category `{word}`; the categories are {}",
            known.join(", ")
        );
    };
    let of_the_model = act.map(|act| {
        format!(
            "{word}: a sentence of a definition. {}\n\nIt was found by the built-in model of what sentences ask, not by a rule: no single phrase triggers it.\nIts category is {category}.\n\n",
            act.says
        )
    });
    Ok(of_the_model.unwrap_or_default() + &explain::text(category))
}
