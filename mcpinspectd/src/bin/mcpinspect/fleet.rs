//! `mcpinspect fleet`: a report on many machines, from their collected journals.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use mcpinspectd::event::json::terminal_safe;
use mcpinspectd::fleet::Fleet;
use mcpinspectd::fleet::report::{HostReport, Report, State};
use mcpinspectd::fleet::source::{self, Extent};
use mcpinspectd::model::{Severity, Timestamp};
use mcpinspectd::terminal::table::aligned;
use mcpinspectd::terminal::{self, wants_colour};

/// Where systemd-journal-remote stores what it receives.
const COLLECTION: &str = "/var/log/journal/remote";
/// Maximum rows of a section in the human form.
const SHOWN: usize = 20;
/// Digits of a hash in the human form.
const HASH: usize = 12;
/// Maximum number of names on one line.
const NAMED: usize = 8;

/// Compare what the machines of a fleet see, from their collected journals
///
/// Reads journals collected by systemd-journal-remote, or files written by `journalctl -o json` or
/// `-o export`. Reports which servers and tools run where, which hosts see a different definition of
/// the same tool, decisions, alerts, and hosts that are silent or lost data. Exits with status 1 if
/// something needs attention, and 2 if the journals cannot be read.
#[derive(clap::Args)]
pub struct FleetCommand {
    /// Exported journals; `-` is standard input. Default: read the directory.
    files: Vec<PathBuf>,
    /// Directory with collected journals.
    #[arg(long, value_name = "DIR", default_value = COLLECTION)]
    directory: PathBuf,
    /// Read entries since this time, in the format of journalctl: `-7d`, `2026-01-31`.
    #[arg(
        long,
        value_name = "WHEN",
        conflicts_with = "files",
        allow_hyphen_values = true
    )]
    since: Option<String>,
    /// Report a host as silent after this long without entries, such as `90m`, `24h` or `7d`.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration)]
    silent_after: Duration,
    /// Stop reading after this many seconds and report on what was read.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
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

impl FleetCommand {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let mut fleet = Fleet::default();
        let extent = self.read(&mut fleet)?;
        // It is unknown when files were written; take their newest entry as the present.
        let now = if self.files.is_empty() {
            Timestamp::now()
        } else {
            fleet.newest()
        };
        let patience = u64::try_from(self.silent_after.as_nanos()).unwrap_or(u64::MAX);
        let report = fleet.report(now, patience);
        let complete = extent == Extent::Whole;
        if self.json {
            let mut value = serde_json::to_value(&report)?;
            value["complete"] = complete.into();
            let text = terminal_safe(&value)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            let colour = wants_colour(io::stdout().is_terminal());
            terminal::print(|out| show(out, &report, complete, colour))?;
        }
        Ok(if report.wants_a_look() || !complete {
            ExitCode::from(1)
        } else {
            ExitCode::SUCCESS
        })
    }

    fn read(&self, fleet: &mut Fleet) -> anyhow::Result<Extent> {
        if self.files.is_empty() {
            let directory = &self.directory;
            anyhow::ensure!(
                directory.is_dir(),
                "no collected journals in {}; set up systemd-journal-remote, or use --directory",
                directory.display()
            );
            let deadline = Instant::now() + Duration::from_secs(self.timeout);
            return source::journals(fleet, directory, self.since.as_deref(), deadline)
                .with_context(|| format!("cannot read {}", directory.display()));
        }
        for path in &self.files {
            let read = if path == Path::new("-") {
                source::exported(fleet, io::stdin().lock())
            } else {
                File::open(path).and_then(|file| source::exported(fleet, file))
            };
            read.with_context(|| format!("cannot read {}", path.display()))?;
        }
        Ok(Extent::Whole)
    }
}

/// Applies colours, if wanted.
struct Paint {
    colour: bool,
}

impl Paint {
    fn of(&self, colour: AnsiColor) -> Style {
        if self.colour {
            colour.on_default()
        } else {
            Style::new()
        }
    }

    fn head(&self, out: &mut dyn Write, text: &str) -> io::Result<()> {
        let style = if self.colour {
            Style::new().bold()
        } else {
            Style::new()
        };
        writeln!(out, "{style}{text}{style:#}")
    }
}

/// Prints a report. Its text was escaped when it was read.
fn show(out: &mut dyn Write, report: &Report, complete: bool, colour: bool) -> io::Result<()> {
    let paint = Paint { colour };
    if report.hosts.is_empty() {
        return writeln!(out, "The journals contain no entries of any host.");
    }
    hosts(out, report, &paint)?;
    differences(out, report, &paint)?;
    servers(out, report, &paint)?;
    decisions(out, report, &paint)?;
    alerts(out, report, &paint)?;
    let left = report.left_out;
    for (count, what) in [
        (
            left.forged,
            "entries claim to be from mcpinspectd but were not written by root",
        ),
        (left.unreadable, "entries could not be read"),
        (
            left.too_many,
            "entries exceed the limits on hosts, servers or tools",
        ),
    ] {
        if count > 0 {
            writeln!(out, "\n{count} {what}.")?;
        }
    }
    if !complete {
        writeln!(
            out,
            "\nTimed out before everything was read: see --timeout and --since."
        )?;
    }
    Ok(())
}

fn hosts(out: &mut dyn Write, report: &Report, paint: &Paint) -> io::Result<()> {
    aligned(out, |out| {
        paint.head(out, "HOST\tSTATE\tLAST ENTRY\tSERVERS\tLOST")?;
        for host in &report.hosts {
            let style = paint.of(match host.state {
                State::Watched => AnsiColor::Green,
                State::Unwatched => AnsiColor::Yellow,
                State::Stopped | State::Failed | State::Silent => AnsiColor::Red,
            });
            writeln!(
                out,
                "{}\t{style}{}{style:#}\t{}\t{}\t{}",
                host.host,
                state(host.state),
                minute(host.last_entry),
                host.servers,
                lost(host)
            )?;
        }
        Ok(())
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::Watched => "watched",
        State::Unwatched => "UNWATCHED",
        State::Stopped => "STOPPED",
        State::Failed => "FAILED",
        State::Silent => "SILENT",
    }
}

fn lost(host: &HostReport) -> String {
    let lost = host.lost;
    let parts: Vec<String> = [
        (lost.bytes, "bytes on the wire"),
        (lost.blind_spots, "blind spots"),
        (lost.events, "events"),
        (lost.by_journald, "times by journald"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if parts.is_empty() {
        "-".to_owned()
    } else {
        parts.join(", ")
    }
}

fn differences(out: &mut dyn Write, report: &Report, paint: &Paint) -> io::Result<()> {
    let count = report.differences().count();
    if count == 0 {
        return writeln!(out, "\nAll hosts see the same definitions of shared tools.");
    }
    writeln!(out)?;
    paint.head(out, "DIFFERENT BETWEEN HOSTS")?;
    let red = paint.of(AnsiColor::Red);
    for (server, tool) in report.differences().take(SHOWN) {
        writeln!(out, "{red}{} / {}{red:#}", server.server, tool.tool)?;
        for seen in &tool.definitions {
            writeln!(
                out,
                "  {:12}  {}{}",
                seen.hash.as_deref().map_or("(gone)", short),
                named(&seen.hosts),
                if seen.approved { "; approved" } else { "" }
            )?;
        }
        if server.fingerprints.len() > 1 {
            writeln!(
                out,
                "  It is launched in {} different ways and may not be the same server.",
                server.fingerprints.len()
            )?;
        }
    }
    more(out, count)
}

fn servers(out: &mut dyn Write, report: &Report, paint: &Paint) -> io::Result<()> {
    writeln!(out)?;
    paint.head(out, "SERVERS")?;
    for server in report.servers.iter().take(SHOWN) {
        let tools: Vec<&str> = server.tools.iter().map(|tool| &*tool.tool).collect();
        writeln!(out, "{} on {}", server.server, named(&server.hosts))?;
        if !tools.is_empty() {
            writeln!(out, "  {}", named(&tools))?;
        }
    }
    more(out, report.servers.len())
}

fn decisions(out: &mut dyn Write, report: &Report, paint: &Paint) -> io::Result<()> {
    if report.decisions.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    paint.head(out, "DECISIONS")?;
    for decided in report.decisions.iter().take(SHOWN) {
        let who = match (decided.uid, &decided.by) {
            (Some(uid), _) => format!("user {uid}"),
            (None, Some(by)) => by.clone(),
            (None, None) => "an unknown user".to_owned(),
        };
        writeln!(
            out,
            "{}  {who} of {}: {} {} {} {}{}",
            minute(decided.time),
            decided.host,
            decided.decision,
            decided.server,
            decided.item,
            decided.hash.as_deref().map_or("", short),
            decided
                .reason
                .as_deref()
                .map(|reason| format!(" ({reason})"))
                .unwrap_or_default()
        )?;
    }
    more(out, report.decisions.len())
}

fn alerts(out: &mut dyn Write, report: &Report, paint: &Paint) -> io::Result<()> {
    if report.alert_counts.is_empty() {
        return Ok(());
    }
    let counts: Vec<String> = report
        .alert_counts
        .iter()
        .rev()
        .map(|(severity, count)| format!("{count} {}", severity.as_str()))
        .collect();
    writeln!(out)?;
    paint.head(out, &format!("ALERTS: {}", counts.join(", ")))?;
    for alert in report.alerts.iter().take(SHOWN) {
        let style = paint.of(if alert.severity >= Severity::High {
            AnsiColor::Red
        } else {
            AnsiColor::Yellow
        });
        writeln!(
            out,
            "{}  {style}{:8}{style:#}  {}: {} {} {}",
            minute(alert.time),
            alert.severity.as_str(),
            alert.host,
            alert.server,
            alert.tool.as_deref().unwrap_or(""),
            alert.category.as_deref().unwrap_or(alert.event),
        )?;
    }
    more(out, report.alerts.len())
}

fn more(out: &mut dyn Write, count: usize) -> io::Result<()> {
    if count > SHOWN {
        writeln!(out, "… and {} more; --json has them", count - SHOWN)?;
    }
    Ok(())
}

/// A UTC time, to the minute.
fn minute(time: Timestamp) -> String {
    let text: String = time.to_string().chars().take(16).collect();
    text.replace('T', " ")
}

fn short(hash: &str) -> &str {
    hash.get(..HASH).unwrap_or(hash)
}

fn named<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let mut text = shown.join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    text
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
