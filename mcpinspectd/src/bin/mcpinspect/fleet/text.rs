//! The report for people: the beginning of each answer, and how long it goes on.
//!
//! Text from hosts was escaped when it was read.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use mcpinspectd::fleet::report::{
    AlertReport, DecisionReport, Definition, FindingReport, HostReport, Output, ServerReport,
    Settings, State, Summary, ToolReport,
};
use mcpinspectd::model::{Severity, Timestamp};
use mcpinspectd::terminal::table::aligned;

/// Maximum rows of a section.
const SHOWN: usize = 20;
/// Digits of a hash.
const HASH: usize = 12;
/// Maximum number of names on one line.
const NAMED: usize = 8;
/// Longest quoted description, characters.
const QUOTED: usize = 90;

/// The first of many.
struct First<T> {
    shown: Vec<T>,
    count: u64,
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self {
            shown: Vec::new(),
            count: 0,
        }
    }
}

impl<T> First<T> {
    fn add(&mut self, one: T) {
        if self.shown.len() < SHOWN {
            self.shown.push(one);
        }
        self.count += 1;
    }

    fn more(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.count - self.shown.len() as u64 {
            0 => Ok(()),
            more => writeln!(out, "… and {more} more; --json has them"),
        }
    }
}

/// A server with the names of its tools.
struct Server {
    head: ServerReport,
    tools: Vec<String>,
    tool_count: u64,
}

/// Collects what is shown.
#[derive(Default)]
pub struct Text {
    hosts: First<HostReport>,
    conspicuous: First<HostReport>,
    differences: First<(String, bool, ToolReport)>,
    servers: First<Server>,
    server: Option<Server>,
    new_servers: First<(String, Timestamp, String)>,
    new_definitions: First<(String, String, Definition)>,
    not_approved: First<(String, String, Definition)>,
    nobody_approved: First<(String, u64)>,
    decisions: First<DecisionReport>,
    /// By severity and time, the least first.
    alerts: BTreeSet<(Severity, Timestamp, String, String)>,
    alert_count: u64,
}

impl Output for Text {
    fn host(&mut self, host: HostReport) -> io::Result<()> {
        if host.wants_a_look() {
            self.conspicuous.add(host.clone());
        }
        self.hosts.add(host);
        Ok(())
    }

    fn server(&mut self, head: ServerReport) -> io::Result<()> {
        if head.is_new {
            self.new_servers.add((
                head.server.clone(),
                head.first_seen,
                head.first_host.clone(),
            ));
        }
        self.server = Some(Server {
            head,
            tools: Vec::new(),
            tool_count: 0,
        });
        Ok(())
    }

    fn tool(&mut self, tool: ToolReport) -> io::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        let name = &server.head.server;
        if server.tools.len() < NAMED {
            server.tools.push(tool.tool.clone());
        }
        server.tool_count += 1;
        for definition in &tool.definitions {
            let named = || (name.clone(), tool.tool.clone(), definition.clone());
            if definition.is_new && definition.hash.is_some() && !server.head.is_new {
                self.new_definitions.add(named());
            }
            if definition.is_not_approved_by_some() {
                self.not_approved.add(named());
            }
        }
        if !tool.agreed {
            let is_one = server.head.fingerprints.len() < 2;
            self.differences.add((name.clone(), is_one, tool));
        }
        Ok(())
    }

    fn server_end(&mut self, is_approved: bool) -> io::Result<()> {
        if let Some(server) = self.server.take() {
            if !is_approved {
                let head = &server.head;
                self.nobody_approved
                    .add((head.server.clone(), head.host_count));
            }
            self.servers.add(server);
        }
        Ok(())
    }

    fn decision(&mut self, decision: DecisionReport) -> io::Result<()> {
        self.decisions.add(decision);
        Ok(())
    }

    fn alert(&mut self, alert: AlertReport) -> io::Result<()> {
        let what = alert.what;
        let times = if alert.count > 1 {
            format!(" ({} times)", alert.count)
        } else {
            String::new()
        };
        let sentence = format!(
            "{} {} {}{times}",
            what.server,
            what.tool.as_deref().unwrap_or(""),
            what.category.as_deref().unwrap_or(&what.event),
        );
        self.alert_count += 1;
        self.alerts
            .insert((what.severity, alert.time, alert.host, sentence));
        if self.alerts.len() > SHOWN {
            self.alerts.pop_first();
        }
        Ok(())
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
    /// Prints everything.
    pub fn print(
        &self,
        out: &mut dyn Write,
        summary: &Summary,
        settings: &Settings,
        colour: bool,
    ) -> io::Result<()> {
        let paint = Paint { colour };
        if self.hosts.count == 0 {
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
        let is_small = self.hosts.count <= SHOWN as u64;
        let shown = if is_small {
            &self.hosts
        } else {
            let states = summary.states.iter();
            let states: Vec<String> = states
                .map(|(state, count)| format!("{count} {}", word(*state)))
                .collect();
            writeln!(out, "{} hosts: {}.", self.hosts.count, states.join(", "))?;
            if self.conspicuous.count == 0 {
                return Ok(());
            }
            writeln!(out)?;
            &self.conspicuous
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
                    lost(host)
                )?;
            }
            Ok(())
        })?;
        shown.more(out)
    }

    fn differences(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.differences.count == 0 {
            return writeln!(out, "\nAll hosts see the same definitions of shared tools.");
        }
        writeln!(out)?;
        paint.head(out, "DIFFERENT BETWEEN HOSTS")?;
        let red = paint.of(AnsiColor::Red);
        for (server, is_one, tool) in &self.differences.shown {
            writeln!(out, "{red}{server} / {}{red:#}", tool.tool)?;
            for seen in tool.definitions.iter().take(NAMED) {
                definition(out, tool, seen)?;
            }
            let more = tool.definitions.len().saturating_sub(NAMED);
            if more > 0 {
                writeln!(out, "  … and {more} more definitions; --json has them")?;
            }
            if !is_one {
                writeln!(
                    out,
                    "  It is launched in different ways and may not be the same server."
                )?;
            }
        }
        self.differences.more(out)
    }

    fn news(
        &self,
        out: &mut dyn Write,
        summary: &Summary,
        settings: &Settings,
        paint: &Paint,
    ) -> io::Result<()> {
        if self.new_servers.count + self.new_definitions.count == 0 {
            return Ok(());
        }
        let hours = settings.new_within / 3_600_000_000_000;
        let begin = minute(summary.oldest);
        writeln!(out)?;
        paint.head(out, &format!("FIRST SEEN IN THE LAST {hours} HOURS"))?;
        writeln!(out, "The collection begins at {begin}.")?;
        for (server, time, host) in &self.new_servers.shown {
            writeln!(out, "{}  server {server}, first on {host}", minute(*time))?;
        }
        self.new_servers.more(out)?;
        for (server, tool, seen) in &self.new_definitions.shown {
            let hash = seen.hash.as_deref().map_or("", short);
            writeln!(
                out,
                "{}  {server} / {tool} {hash}, first on {}; now on {}",
                minute(seen.since),
                seen.first_host,
                counted(seen.host_count)
            )?;
        }
        self.new_definitions.more(out)
    }

    fn servers(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        writeln!(out)?;
        paint.head(out, "SERVERS")?;
        for server in &self.servers.shown {
            let head = &server.head;
            let mut line = named(&head.hosts, head.host_count);
            let versions: Vec<String> = head
                .versions
                .iter()
                .take(NAMED)
                .map(|version| format!("{} on {}", version.version, version.host_count))
                .collect();
            if !versions.is_empty() {
                line.push_str(&format!("; versions: {}", versions.join(", ")));
            }
            writeln!(out, "{} on {line}", head.server)?;
            if server.tool_count > 0 {
                writeln!(out, "  {}", named(&server.tools, server.tool_count))?;
            }
        }
        self.servers.more(out)
    }

    fn approvals(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.not_approved.count > 0 {
            writeln!(out)?;
            paint.head(out, "APPROVED ON MOST HOSTS, BUT NOT ON ALL")?;
            for (server, tool, seen) in &self.not_approved.shown {
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
            self.not_approved.more(out)?;
        }
        if self.nobody_approved.count > 0 {
            writeln!(out)?;
            paint.head(out, "SERVERS OF WHICH NOBODY APPROVED ANYTHING")?;
            for (server, hosts) in &self.nobody_approved.shown {
                writeln!(out, "{server} on {}", counted(*hosts))?;
            }
            self.nobody_approved.more(out)?;
        }
        Ok(())
    }

    fn decisions(&self, out: &mut dyn Write, paint: &Paint) -> io::Result<()> {
        if self.decisions.count == 0 {
            return Ok(());
        }
        writeln!(out)?;
        paint.head(out, "DECISIONS")?;
        for decided in &self.decisions.shown {
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
        self.decisions.more(out)
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
        for (severity, time, host, sentence) in self.alerts.iter().rev() {
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
        let more = self.alert_count - self.alerts.len() as u64;
        if more > 0 {
            writeln!(out, "… and {more} more; --json has them")?;
        }
        findings(out, "ALERTS BY KIND", &summary.findings, paint)?;
        if !summary.secrets.is_empty() {
            findings(out, "SECRETS SEEN", &summary.secrets, paint)?;
        }
        Ok(())
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

fn lost(host: &HostReport) -> String {
    let lost = host.lost;
    let parts: Vec<String> = [
        (lost.bytes, "bytes on the wire"),
        (lost.blind_spots, "blind spots"),
        (lost.events, "events"),
        (lost.by_journald, "times by journald"),
        (host.forged, "forged entries"),
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
