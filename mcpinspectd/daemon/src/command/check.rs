//! `mcpinspectd check`: a preflight, for people and for machines.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;

use mcpinspect_capture::preflight;
use mcpinspect_capture::preflight::{Check, Outcome};
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::wants_colour;
use mcpinspect_core::model::TlsChoice;
use mcpinspect_settings::config::Config;

/// Runs every check, even after one has failed.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Configuration file; without one, /etc/mcpinspectd/config.toml or the defaults
    #[arg(long, value_name = "FILE")]
    config: Option<std::path::PathBuf>,
}

/// Exit code 0 if the daemon can run, 1 if it cannot.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let config = Config::load(arguments.config.as_deref())?;
    let mut checks = preflight::run(&super::session::requirements(&config));
    if preflight::first_failure(&checks).is_none() {
        checks.extend(preflight::attach(&super::session::probes(&config, false)));
    }
    if config.capture.http && config.capture.tls != TlsChoice::Off {
        checks.extend(preflight::tls_libraries());
    }
    let failed = preflight::first_failure(&checks).is_some();
    terminal::print(|out| match arguments.json {
        true => json(out, &checks, failed),
        false => table(out, &checks, failed),
    })?;
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn json(out: &mut dyn Write, checks: &[Check], failed: bool) -> io::Result<()> {
    let report = serde_json::json!({ "ok": !failed, "checks": checks });
    writeln!(out, "{report:#}")
}

fn table(out: &mut dyn Write, checks: &[Check], failed: bool) -> io::Result<()> {
    let colour = wants_colour(io::stdout().is_terminal());
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
        "mcpinspectd cannot run here: see the lines marked FAIL."
    } else {
        "mcpinspectd can run here."
    };
    writeln!(out, "\n{verdict}")
}
