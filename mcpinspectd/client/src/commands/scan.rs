//! `mcpinspect scan`: judges definitions and messages from a file, a pipe, or a server that it starts.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use mcpinspect_cli::terminal;
use mcpinspect_core::model::{Action, Timestamp};
use mcpinspect_judge::detect::Layers;
use mcpinspect_judge::detect::scan;
use mcpinspect_judge::detect::scan::{Content, Line, LineReport};
use mcpinspect_settings::rule_files;

use crate::launch;
use crate::scan_report;

/// Scan definitions and messages for poisoned tools and injected content
///
/// Each line of the input is a tool's definition, {"tool": …, "server": …}, a JSON-RPC message,
/// {"message": …}, a whole server, {"server": …, "tools": […]}, or a whole session, {"messages":
/// [{"server": …, "direction": …, "message": …}, …]}. Lines with the same `server` are that
/// server's tools: a tool that copies or shadows another server's tool is found if both are in the
/// input. A file may also be one JSON value with several servers. With `--` and a command, starts
/// that MCP server, scans what it offers, and stops it.
#[derive(clap::Args)]
pub struct Scan {
    /// File with one JSON value per line; standard input if omitted or `-`.
    #[arg(conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Exit with status 1 if a verdict is this one or worse.
    #[arg(long, value_enum, value_name = "VERDICT")]
    fail_on: Option<FailOn>,
    /// Directory (or file) with your own rules and suppressions.
    #[arg(long, value_name = "DIR", default_value = rule_files::DIRECTORY)]
    rules: PathBuf,
    /// The detection layers to use for sessions: evidence, meaning, context, behaviour.
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "evidence,meaning,context,behaviour"
    )]
    layers: Layers,
    /// Total time that a started server may take, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// An MCP server to start, with its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The output format.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
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
    /// Runs the command. Returns the exit code of the program.
    ///
    /// # Errors
    /// What kept it from its work, for people.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (rules, problems) = rule_files::load(&[&self.rules]);
        for problem in &problems {
            terminal::complain(format_args!(
                "mcpinspect: {problem} (this file is left out)"
            ));
        }
        let (lines, source) = self.lines()?;
        let reports = scan::scan_with(&rules, self.layers, &lines, Timestamp::now());
        terminal::print(|out| match self.format {
            Format::Human => scan_report::human(out, &reports, io::stdout().is_terminal()),
            Format::Jsonl => scan_report::jsonl(out, &reports),
            Format::Sarif => scan_report::sarif(out, &reports, &rules, &source),
        })?;
        Ok(self.exit_code(&reports))
    }

    /// The lines to scan, and what to call their source.
    fn lines(&self) -> anyhow::Result<(Vec<Line>, String)> {
        if !self.command.is_empty() {
            let offer = launch::list(&self.command, Duration::from_secs(self.timeout))?;
            let contents = offer
                .messages
                .into_iter()
                .flat_map(|message| Content::from_message(&offer.server, message))
                .enumerate();
            let lines = contents.map(|(index, content)| Line::new(index + 1, content));
            return Ok((lines.collect(), offer.server));
        }
        match self.file.as_deref().filter(|file| file.as_os_str() != "-") {
            Some(file) => {
                let input =
                    File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
                Ok((read(input)?, file.display().to_string()))
            }
            None => Ok((read(io::stdin().lock())?, "stdin".to_owned())),
        }
    }

    /// 1 if a verdict reaches `--fail-on`, 2 if a line could not be parsed, else 0.
    fn exit_code(&self, reports: &[LineReport]) -> ExitCode {
        let unreadable: Vec<&LineReport> = reports
            .iter()
            .filter(|report| report.error.is_some())
            .collect();
        for report in unreadable.iter().take(10) {
            terminal::complain(format_args!(
                "mcpinspect: line {}: {}",
                report.line,
                report.error.as_deref().unwrap_or_default()
            ));
        }
        let failed = self.fail_on.is_some_and(|limit| {
            reports
                .iter()
                .any(|report| report.verdict >= limit.action())
        });
        ExitCode::from(match (failed, unreadable.is_empty()) {
            (true, _) => 1,
            (false, false) => 2,
            (false, true) => 0,
        })
    }
}

/// Reads the lines of an input.
fn read(input: impl Read) -> anyhow::Result<Vec<Line>> {
    let mut text = Vec::new();
    // One byte more than the limit, so that a larger input is refused and not cut short.
    input
        .take(scan::INPUT_LIMIT as u64 + 1)
        .read_to_end(&mut text)
        .context("cannot read the input")?;
    Ok(scan::split(text)?)
}
