//! `mcpinspect scan`: definitions and messages from a file, a pipe, or a server that is started.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use mcpinspectd::detect::knowledge::{Knowledge, USER_RULES};
use mcpinspectd::detect::scan::{self, Content, Line, Outcome};
use mcpinspectd::model::{Action, Timestamp};
use mcpinspectd::terminal;

use super::launch;
use super::report;

/// Look for poisoned tools and injected content in definitions and messages
///
/// Each line of the input is a tool's definition, {"tool": …, "server": …}, a JSON-RPC message,
/// {"message": …}, or a tools/list result. Lines with the same `server` are that server's tools: a
/// tool that copies or shadows another server's is found when both are in the input. With `--` and a
/// command, starts that MCP server, lists what it offers, looks at it, and stops it.
#[derive(clap::Args)]
pub struct Scan {
    /// File with one JSON value a line; standard input when absent or `-`.
    #[arg(conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Form of the output.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Exit with status 1 from this verdict on.
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOn>,
    /// Directory (or file) with rules and suppressions of your own.
    #[arg(long, value_name = "DIR", default_value = USER_RULES)]
    rules: PathBuf,
    /// How long a started server may take in all, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// An MCP server to start, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// To be read.
    Human,
    /// One JSON object per line of input.
    Jsonl,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    Warn,
    Alert,
    Block,
}

impl FailOn {
    fn action(self) -> Action {
        match self {
            Self::Warn => Action::Warn,
            Self::Alert => Action::Alert,
            Self::Block => Action::Block,
        }
    }
}

impl Scan {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (knowledge, problems) = Knowledge::load(&self.rules);
        for problem in &problems {
            terminal::complain(format_args!(
                "mcpinspect: {problem} (this file is left out)"
            ));
        }
        let (lines, source) = self.lines()?;
        let outcomes = scan::scan(&knowledge, &lines, Timestamp::now());
        terminal::print(|out| match self.format {
            Format::Human => report::human(out, &outcomes, io::stdout().is_terminal()),
            Format::Jsonl => report::jsonl(out, &outcomes),
            Format::Sarif => report::sarif(out, &outcomes, &knowledge, &source),
        })?;
        Ok(self.exit_code(&outcomes))
    }

    fn lines(&self) -> anyhow::Result<(Vec<Line>, String)> {
        if !self.command.is_empty() {
            let offer = launch::list(&self.command, Duration::from_secs(self.timeout))?;
            let contents = offer
                .messages
                .into_iter()
                .flat_map(|message| Content::heard(&offer.server, message))
                .enumerate();
            let lines = contents.map(|(index, content)| Line::new(index + 1, content));
            return Ok((lines.collect(), offer.server));
        }
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => {
                let input =
                    File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
                Ok((scan::read(input)?, file.display().to_string()))
            }
            None => Ok((scan::read(io::stdin().lock())?, "stdin".to_owned())),
        }
    }

    /// 0, 1 when a verdict reaches `--fail-on`, 2 when a line could not be read.
    fn exit_code(&self, outcomes: &[Outcome]) -> ExitCode {
        let unreadable: Vec<&Outcome> = outcomes
            .iter()
            .filter(|outcome| outcome.error.is_some())
            .collect();
        for outcome in unreadable.iter().take(10) {
            terminal::complain(format_args!(
                "mcpinspect: line {}: {}",
                outcome.line,
                outcome.error.as_deref().unwrap_or_default()
            ));
        }
        let failed = self.fail_on.is_some_and(|limit| {
            outcomes
                .iter()
                .any(|outcome| outcome.verdict >= limit.action())
        });
        ExitCode::from(match (failed, unreadable.is_empty()) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 0,
        })
    }
}
