//! The report on a terminal.
//!
//! Text from hosts was escaped when it was read.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_core::model::{Severity, Timestamp};
use mcpinspect_fleet::digest::{DefinitionEntry, Digest, Truncated};
use mcpinspect_fleet::report::{Definition, FindingReport, Settings, State, Summary, ToolReport};

/// Maximum rows of a section.
const SHOWN: usize = 20;
/// Digits of a hash.
const HASH: usize = 12;
/// Maximum number of names on one line.
const NAMED: usize = 8;
/// Longest quoted description, in characters.
const QUOTED: usize = 90;

/// Says how many rows are not shown.
fn more<T>(list: &Truncated<T>, out: &mut dyn Write) -> io::Result<()> {
    match list.more() {
        0 => Ok(()),
        more => writeln!(out, "… and {more} more; --json has them"),
    }
}

/// The lists to show.
pub struct Text(Digest);

impl Default for Text {
    fn default() -> Self {
        Self(Digest::new(SHOWN))
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

impl Text {
    /// What gathers the lists.
    pub fn digest(&mut self) -> &mut Digest {
        &mut self.0
    }

    /// Prints everything.
    pub fn print(
        &self,
        out: &mut dyn Write,
        summary: &Summary,
        settings: &Settings,
        colour: bool,
    ) -> io::Result<()> {
        let paint = Paint { colour };
        if self.0.hosts.count == 0 {
            writeln!(out, "The journals contain no entries of any host.")?;
            return left_out(out, summary);
        }
        self.hosts(out, summary, &paint)?;
        self.differences(out, &paint)?;
        self.news(out, summary, settings, &paint)?;
        self.servers(out, &paint)?;
        self.approvals(out, &paint)?;
        self.decisions(out, &paint)?;
        self.alerts(out, summary, &paint)?;
        left_out(out, summary)
    }

    fn hosts(&self, out: &mut dyn Write, summary: &Summary, paint: &Paint) -> io::Result<()> {
        let is_small = self.0.hosts.count <= SHOWN as u64;
        let shown = if is_small {
            &self.0.hosts
        } else {
            let states = summary.states.iter();
            let states: Vec<String> = states
                .map(|(state, count)| format!("{count} {}", word(*state)))
                .collect();
            writeln!(out, "{} hosts: {}.", self.0.hosts.count, states.join(", "))?;
            if self.0.conspicuous.count == 0 {
                return Ok(());
            }
            writeln!(out)?;
            &self.0.conspicuous
        };
        aligned(out, |out| {
            paint.head(out, "HOST\tSTATE\tLAST ENTRY\tSERVERS\tLOST")?;
            for host in &shown.shown {
                let style = paint.of(match host.state {
                    State::Watched => AnsiColor::Green,
                    State::Unwatched => AnsiColor::Yellow,
                    State::Stopped | State::Failed | State::Silent => AnsiColor::Red,
                });
                writeln!(
                    out,
                    "{}\t{style}{}{style:#}\t{}\t{}\t{}",
                    host.host,
                    word(host.state),
                    minute(host.last_entry),
                    host.servers,
                    host.losses().unwrap_or_else(|| "-".to_owned())
                )?;
            }
            Ok(())
        })?;
        more(shown, out)
    }

    fn differences(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.0.differences.count == 0 {
            return writeln!(out, "\nAll hosts see the same definitions of shared tools.");
        }
        writeln!(out)?;
        paint.head(out, "DIFFERENT BETWEEN HOSTS")?;
        let red = paint.of(AnsiColor::Red);
        for differing in &self.0.differences.shown {
            let tool = &differing.tool;
            writeln!(out, "{red}{} / {}{red:#}", differing.server, tool.tool)?;
            for seen in tool.definitions.iter().take(NAMED) {
                definition(out, tool, seen)?;
            }
            let more = tool.definitions.len().saturating_sub(NAMED);
            if more > 0 {
                writeln!(out, "  … and {more} more definitions; --json has them")?;
            }
            if !differing.is_one {
                writeln!(
                    out,
                    "  It is launched in different ways and may not be the same server."
                )?;
            }
        }
        more(&self.0.differences, out)
    }

    fn news(
        &self,
        out: &mut dyn Write,
        summary: &Summary,
        settings: &Settings,
        paint: &Paint,
    ) -> io::Result<()> {
        if self.0.new_servers.count + self.0.new_definitions.count == 0 {
            return Ok(());
        }
        let hours = settings.new_within / 3_600_000_000_000;
        let begin = minute(summary.oldest);
        writeln!(out)?;
        paint.head(out, &format!("FIRST SEEN IN THE LAST {hours} HOURS"))?;
        writeln!(out, "The collection begins at {begin}.")?;
        for server in &self.0.new_servers.shown {
            let (name, host) = (&server.server, &server.first_host);
            let time = minute(server.first_seen);
            writeln!(out, "{time}  server {name}, first on {host}")?;
        }
        more(&self.0.new_servers, out)?;
        for DefinitionEntry { server, tool, seen } in &self.0.new_definitions.shown {
            let hash = seen.hash.as_deref().map_or("", short);
            writeln!(
                out,
                "{}  {server} / {tool} {hash}, first on {}; now on {}",
                minute(seen.since),
                seen.first_host,
                counted(seen.host_count)
            )?;
        }
        more(&self.0.new_definitions, out)
    }

    fn servers(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        writeln!(out)?;
        paint.head(out, "SERVERS")?;
        for server in &self.0.servers.shown {
            let head = &server.head;
            let mut line = named(&head.hosts, head.host_count);
            let versions: Vec<String> = head
                .versions
                .iter()
                .take(NAMED)
                .map(|version| {
                    let hosts = named(&version.hosts, version.host_count);
                    format!("{} on {hosts}", version.version)
                })
                .collect();
            if !versions.is_empty() {
                line.push_str(&format!("; versions: {}", versions.join("; ")));
            }
            writeln!(out, "{} on {line}", head.server)?;
            if server.tool_count > 0 {
                writeln!(out, "  {}", named(&server.tools, server.tool_count))?;
            }
        }
        more(&self.0.servers, out)
    }

    fn approvals(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.0.not_approved.count > 0 {
            writeln!(out)?;
            paint.head(out, "APPROVED ON MOST HOSTS, BUT NOT ON ALL")?;
            for DefinitionEntry { server, tool, seen } in &self.0.not_approved.shown {
                let lacking = seen.host_count - seen.approved_count;
                writeln!(
                    out,
                    "{server} / {tool} {}: approved on {} of {}, not on {}",
                    seen.hash.as_deref().map_or("", short),
                    seen.approved_count,
                    counted(seen.host_count),
                    named(&seen.not_approved, lacking)
                )?;
            }
            more(&self.0.not_approved, out)?;
        }
        if self.0.nobody_approved.count > 0 {
            writeln!(out)?;
            paint.head(out, "SERVERS WITHOUT ANY APPROVAL")?;
            for (server, hosts) in &self.0.nobody_approved.shown {
                writeln!(out, "{server} on {}", counted(*hosts))?;
            }
            more(&self.0.nobody_approved, out)?;
        }
        Ok(())
    }

    fn decisions(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.0.decisions.count == 0 {
            return Ok(());
        }
        writeln!(out)?;
        paint.head(out, "DECISIONS")?;
        for decided in &self.0.decisions.shown {
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
        more(&self.0.decisions, out)
    }

    fn alerts(&self, out: &mut dyn Write, summary: &Summary, paint: &Paint) -> io::Result<()> {
        if summary.alert_counts.is_empty() {
            return Ok(());
        }
        let counts: Vec<String> = summary
            .alert_counts
            .iter()
            .rev()
            .map(|(severity, count)| format!("{count} {}", severity.as_str()))
            .collect();
        writeln!(out)?;
        paint.head(out, &format!("ALERTS: {}", counts.join(", ")))?;
        for (severity, time, host, sentence) in self.0.alerts.iter().rev() {
            let style = paint.of(if *severity >= Severity::High {
                AnsiColor::Red
            } else {
                AnsiColor::Yellow
            });
            writeln!(
                out,
                "{}  {style}{:8}{style:#}  {host}: {sentence}",
                minute(*time),
                severity.as_str(),
            )?;
        }
        let more = self.0.alert_count - self.0.alerts.len() as u64;
        if more > 0 {
            writeln!(out, "… and {more} more; --json has them")?;
        }
        self.alerting(out, paint)?;
        findings(out, "ALERTS BY KIND", &summary.findings, paint)?;
        if !summary.secrets.is_empty() {
            findings(out, "SECRETS SEEN", &summary.secrets, paint)?;
        }
        Ok(())
    }

    fn alerting(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        writeln!(out)?;
        aligned(out, |out| {
            paint.head(out, "ALERTS BY HOST\tCOUNT\tA DAY")?;
            for (count, host, per_day) in self.0.alerting.iter().rev() {
                writeln!(out, "{host}\t{count}\t{per_day}")?;
            }
            Ok(())
        })?;
        match self.0.alerting_count - self.0.alerting.len() as u64 {
            0 => Ok(()),
            more => writeln!(out, "… and {more} more; --json has them"),
        }
    }
}

fn findings(
    out: &mut dyn Write,
    title: &str,
    findings: &[FindingReport],
    paint: &Paint,
) -> io::Result<()> {
    writeln!(out)?;
    aligned(out, |out| {
        paint.head(
            out,
            &format!("{title}\tHOSTS\tCOUNT\tA DAY\tSERVER\tTOOL\tRULE"),
        )?;
        for finding in findings.iter().take(SHOWN) {
            let what = &finding.what;
            writeln!(
                out,
                "{} {}\t{}\t{}\t{}\t{}\t{}\t{}",
                what.severity.as_str(),
                what.category.as_deref().unwrap_or(&what.event),
                finding.host_count,
                finding.count,
                finding.per_day,
                what.server,
                what.tool.as_deref().unwrap_or("-"),
                what.pattern.as_deref().unwrap_or("-"),
            )?;
        }
        Ok(())
    })?;
    let more = findings.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(out, "… and {more} more; --json has them")?;
    }
    Ok(())
}

fn definition(out: &mut dyn Write, tool: &ToolReport, seen: &Definition) -> io::Result<()> {
    writeln!(
        out,
        "  {:12}  {}, since {}{}",
        seen.hash.as_deref().map_or("(gone)", short),
        named(&seen.hosts, seen.host_count),
        minute(seen.since),
        if seen.approved { "; approved" } else { "" }
    )?;
    if seen.spread.len() > 1 {
        let days = seen.spread.iter().take(NAMED);
        let days: Vec<String> = days
            .map(|day| format!("{} on {}", day.hosts, day.day))
            .collect();
        writeln!(out, "    first seen by {}", days.join(", "))?;
    }
    for change in seen.changes.iter().take(NAMED) {
        let previous = change.previous_hash.as_deref().map_or("", short);
        writeln!(out, "    differs from {previous} in {}", change.fields)?;
    }
    let is_told = |other: &Definition| other.description.is_some();
    let is_another = |other: &Definition| is_told(other) && other.description != seen.description;
    if let Some(description) = &seen.description
        && tool.definitions.iter().any(is_another)
    {
        let quoted: String = description.chars().take(QUOTED).collect();
        let more = if quoted.len() < description.len() {
            "…"
        } else {
            ""
        };
        writeln!(out, "    “{quoted}{more}”")?;
    }
    Ok(())
}

fn left_out(out: &mut dyn Write, summary: &Summary) -> io::Result<()> {
    let left = summary.left_out;
    for (count, what) in [
        (
            left.forged,
            "entries claim to be from mcpinspectd but were not written by root",
        ),
        (left.unreadable, "entries could not be read"),
    ] {
        if count > 0 {
            writeln!(out, "\n{count} {what}.")?;
        }
    }
    Ok(())
}

fn word(state: State) -> &'static str {
    match state {
        State::Watched => "watched",
        State::Unwatched => "UNWATCHED",
        State::Stopped => "STOPPED",
        State::Failed => "FAILED",
        State::Silent => "SILENT",
    }
}

/// A UTC time, to the minute.
fn minute(time: Timestamp) -> String {
    let text: String = time.to_string().chars().take(16).collect();
    text.replace('T', " ")
}

fn short(hash: &str) -> &str {
    hash.get(..HASH).unwrap_or(hash)
}

fn counted(hosts: u64) -> String {
    match hosts {
        1 => "1 host".to_owned(),
        hosts => format!("{hosts} hosts"),
    }
}

/// The first of `count` names.
fn named(names: &[String], count: u64) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let mut text = shown.join(", ");
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
