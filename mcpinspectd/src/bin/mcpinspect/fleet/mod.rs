//! `mcpinspect fleet`: a report on many machines, from their collected journals.

mod json;
mod progress;
mod text;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcpinspectd::fleet::collect::{self, Collected, Input, Options, Progress};
use mcpinspectd::fleet::journal::Extent;
use mcpinspectd::fleet::report::{self, Settings};
use mcpinspectd::fleet::state::StateDirectory;
use mcpinspectd::model::Timestamp;
use mcpinspectd::terminal::{self, complain, wants_colour};
use mcpinspectd::text::escape::plain;

/// Where systemd-journal-remote stores what it receives.
const COLLECTION: &str = "/var/log/journal/remote";

/// Compare what the machines of a fleet see, from their collected journals
///
/// Reads journals collected by systemd-journal-remote, or files written by `journalctl -o json` or
/// `-o export`, compressed by zstd or not. Reports which servers and tools run where, which hosts see a
/// different definition of the same tool, what is new, decisions, alerts, and hosts that are silent or
/// lost data. Exits with status 1 if something needs attention, and 2 if the journals cannot be read.
#[derive(clap::Args)]
pub struct FleetCommand {
    /// Exported journals, journal files, or directories of journal files; `-` is standard input.
    /// Default: read the directory.
    files: Vec<PathBuf>,
    /// Directory with collected journals.
    #[arg(long, value_name = "DIR", default_value = COLLECTION)]
    directory: PathBuf,
    /// Remember in this directory what was read, and read only what is new next time.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Read entries of journals since this time, in the format of journalctl: `-7d`, `2026-01-31`.
    #[arg(
        long,
        value_name = "WHEN",
        conflicts_with = "state",
        allow_hyphen_values = true
    )]
    since: Option<String>,
    /// Report a host as silent after this long without entries, such as `90m`, `24h` or `7d`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    silent_after: Duration,
    /// Report servers and definitions as new that were first seen within this time.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    new_within: Duration,
    /// Stop reading journals after this many seconds and report on what was read.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Name at most this many hosts in each list of the JSON; the numbers beside lists are exact.
    #[arg(long, value_name = "HOSTS", default_value_t = 1_000)]
    list: usize,
    /// Directory for what does not fit in memory [default: $TMPDIR, or /var/tmp]
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Keep up to this many MiB of rows in memory.
    #[arg(long, value_name = "MIB", default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; use a form such as 90m, 24h or 7d");
    let (number, unit) = text
        .split_at_checked(text.len().saturating_sub(1))
        .ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl FleetCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let collected = self.collect()?;
        for (path, reason) in &collected.unreadable {
            let path = path.display().to_string();
            complain(format_args!("{}: {reason}", plain(&path)));
        }
        let complete = collected.extent == Extent::Whole && collected.unreadable.is_empty();
        let settings = Settings {
            // It is unknown when files were written; take their newest entry as the present.
            now: self.files.is_empty().then(Timestamp::now),
            patience: nanos(self.silent_after),
            new_within: nanos(self.new_within),
            list_max: self.list,
        };
        let open = || Ok(collected.rows.rows());
        let mut wants_a_look = false;
        terminal::print(|out| {
            if self.json {
                let mut shown = json::Json::new(out)?;
                let summary = report::report(open, &settings, &mut shown)?;
                wants_a_look = summary.wants_a_look;
                return shown.finish(&summary, complete);
            }
            let mut shown = text::Text::default();
            let summary = report::report(open, &settings, &mut shown)?;
            wants_a_look = summary.wants_a_look;
            let colour = wants_colour(io::stdout().is_terminal());
            shown.print(out, &summary, &settings, colour)?;
            if !complete {
                writeln!(
                    out,
                    "\nNot everything was read: see --timeout, and errors above."
                )?;
            }
            Ok(())
        })?;
        Ok(if wants_a_look || !complete {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        })
    }

    fn collect(&self) -> anyhow::Result<Collected> {
        let inputs = self.inputs()?;
        let state = match &self.state {
            Some(_) if inputs.contains(&Input::Standard) => anyhow::bail!(
                "--state needs inputs that can be read on from where they were; write standard input to a file"
            ),
            Some(directory) => Some(StateDirectory::open(directory)?),
            None => None,
        };
        let mut options = Options {
            memory: (self.memory as usize) << 20,
            since: self.since.clone(),
            deadline: self
                .timeout
                .map(|seconds| Instant::now() + Duration::from_secs(seconds)),
            ..Options::default()
        };
        if let Some(temporary) = &self.temporary {
            options.temporary.clone_from(temporary);
        }
        let progress = Progress::default();
        let collected = progress::shown(&progress, || {
            collect::collect(inputs, state.as_ref(), &options, &progress)
        })?;
        Ok(collected)
    }

    fn inputs(&self) -> anyhow::Result<Vec<Input>> {
        let cannot_read = |path: &Path| format!("cannot read {}", path.display());
        if self.files.is_empty() {
            let directory = &self.directory;
            anyhow::ensure!(
                directory.is_dir(),
                "no collected journals in {}; set up systemd-journal-remote, or use --directory",
                directory.display()
            );
            return Input::at(directory).with_context(|| cannot_read(directory));
        }
        let mut inputs = Vec::new();
        for path in &self.files {
            if path == Path::new("-") {
                inputs.push(Input::Standard);
            } else {
                inputs.extend(Input::at(path).with_context(|| cannot_read(path))?);
            }
        }
        let is_file = |input: &Input| !matches!(input, Input::Journal(_));
        anyhow::ensure!(
            self.since.is_none() || !inputs.iter().any(is_file),
            "--since is for journals; `journalctl --since` selects what it exports"
        );
        Ok(inputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "h", "7", "7w", "-1h", "1é"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
