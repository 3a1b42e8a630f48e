//! `mcpinspectd check`: a preflight, for people and for machines.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use mcpinspectd::config::Config;
use mcpinspectd::preflight::{self, Check, Outcome};

/// Runs every check, also after one has failed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Exit code 0 where the daemon can run, 1 where it cannot.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(arguments.config.as_deref())?;
    let mut checks = preflight::run(&super::session::requirements(&config));
    if preflight::first_failure(&checks).is_none() {
        checks.push(preflight::attach(&super::session::probes(&config, false)));
    }
    let failed = preflight::first_failure(&checks).is_some();
    let written = if arguments.json {
        json(&checks, failed)
    } else {
        table(&checks, failed)
    };
    Ok(if failed || written.is_err() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn json(checks: &[Check], failed: bool) -> std::io::Result<()> {
    let report = serde_json::json!({ "ok": !failed, "checks": checks });
    writeln!(std::io::stdout(), "{report:#}")
}

fn table(checks: &[Check], failed: bool) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for check in checks {
        let (mark, style) = match check.verdict {
            Outcome::Ok => ("ok", anstyle::AnsiColor::Green),
            Outcome::Warning => ("warn", anstyle::AnsiColor::Yellow),
            Outcome::Failed => ("FAIL", anstyle::AnsiColor::Red),
        };
        let style = if colour {
            style.on_default()
        } else {
            anstyle::Style::new()
        };
        writeln!(
            out,
            "{style}{mark:>4}{style:#}  {:<24} {}",
            check.name, check.found
        )?;
        if !check.advice.is_empty() {
            writeln!(out, "{:32}→ {}", "", check.advice)?;
        }
    }
    let verdict = if failed {
        "mcpinspectd cannot run here yet: see the lines marked FAIL."
    } else {
        "mcpinspectd can run here."
    };
    writeln!(out, "\n{verdict}")
}
