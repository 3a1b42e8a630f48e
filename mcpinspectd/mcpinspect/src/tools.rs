//! `mcpinspect tools`: the tools of this machine's servers, compared with their pins.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_cli::terminal::wants_colour;
use mcpinspect_core::model::{Action, Detection, ItemKind, Severity, Timestamp};
use mcpinspect_core::text::escape;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_judge::detect::scan::LineReport;
use mcpinspect_judge::registry::{DecidedBy, DecisionKind, ItemView};
use mcpinspect_settings::rule_files;
use serde::Serialize;

use super::pins::{self, OwnerOption, RegistryLocation};

/// How long an undecided item counts as new, in nanoseconds: one day.
const NEW_FOR: u64 = 86_400_000_000_000;

/// Longest name in the table, in characters.
const WIDTH: usize = 40;

/// List the tools of all servers and compare them with their pins
///
/// A `new` tool was first seen and pinned within the last day, and no one has decided on it yet;
/// `unchanged` matches its pin; `changed` does not; `approved` is on a signed list of approvals;
/// `removed` is no longer offered; `unpinned` will be pinned when it is next seen. A server's own
/// metadata is listed as (instructions) and (server info).
#[derive(clap::Args)]
pub struct Tools {
    /// List only this server's tools.
    server: Option<String>,
    /// Print one JSON array.
    #[arg(long)]
    json: bool,
    /// List only changed and removed tools.
    #[arg(long)]
    changed: bool,
    #[command(flatten)]
    owner_option: OwnerOption,
    /// Directory (or file) with your own detection rules and suppressions.
    #[arg(long, value_name = "DIR", default_value = rule_files::DIRECTORY)]
    rules: PathBuf,
    #[command(flatten)]
    location: RegistryLocation,
}

/// How an item compares with its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    New,
    Unchanged,
    Changed,
    Removed,
    Unpinned,
    Approved,
}

impl Status {
    fn of(item: &ItemView, now: Timestamp) -> Self {
        let undecided = item.pinned_by.is_none() && item.last_decision.is_none();
        match item.pinned {
            _ if item.removed_at.is_some() => Self::Removed,
            None => Self::Unpinned,
            // Not the pin, or one that no one here decided on.
            Some(pinned)
                if item.listed.is_some()
                    && (pinned != item.current || item.pinned_by.is_none()) =>
            {
                Self::Approved
            }
            Some(pinned) if pinned != item.current => Self::Changed,
            Some(_) if undecided && now.nanos_since(item.first_seen) < NEW_FOR => Self::New,
            Some(_) => Self::Unchanged,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Unchanged => "unchanged",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Unpinned => "unpinned",
            Self::Approved => "approved",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Changed => AnsiColor::Red.on_default().bold(),
            Self::Removed | Self::Unpinned => AnsiColor::Yellow.on_default(),
            Self::New => AnsiColor::Green.on_default(),
            Self::Approved | Self::Unchanged => Style::new(),
        }
    }

    fn is_difference(self) -> bool {
        matches!(self, Self::Changed | Self::Removed)
    }
}

/// An item in JSON.
#[derive(Serialize)]
struct ListedItem<'a> {
    server_id: &'a str,
    /// `user`, `shared`, `unknown` or `earlier`.
    owner: &'static str,
    owner_uid: Option<u32>,
    item: &'static str,
    tool_name: Option<&'a str>,
    status: Status,
    pinned_hash: Option<String>,
    pinned_at: Option<Timestamp>,
    /// `first_use`, `person` or `policy`.
    pinned_how: Option<&'static str>,
    pinned_by: Option<u32>,
    current_hash: String,
    first_seen: Timestamp,
    last_seen: Timestamp,
    removed_at: Option<Timestamp>,
    decision: Option<LastDecision<'a>>,
    /// Who put the current definition on a signed list, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    listed: Option<&'a str>,
    verdict: Action,
    max_severity: Option<Severity>,
    category: Option<&'a str>,
}

/// The last decision in JSON.
#[derive(Serialize)]
struct LastDecision<'a> {
    decision: &'static str,
    hash: Option<String>,
    by: &'static str,
    uid: Option<u32>,
    timestamp: Timestamp,
    reason: &'a str,
}

/// An item with its status and findings.
struct Row<'a> {
    item: &'a ItemView,
    status: Status,
    outcome: &'a LineReport,
}

impl Tools {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let registry = self.location.read()?;
        let now = Timestamp::now();
        // Scan all of them: one server's tool may shadow another's.
        let items = pins::all(&registry)?;
        if let Some(server) = &self.server {
            pins::of_server(&registry, server)?;
        }
        let outcomes = pins::findings(&registry, &self.location, &items, &self.rules, now)?;
        let rows: Vec<Row<'_>> = items
            .iter()
            .zip(&outcomes)
            .map(|(item, outcome)| Row {
                item,
                status: Status::of(item, now),
                outcome,
            })
            .filter(|row| {
                let server = self.server.as_ref();
                server.is_none_or(|server| row.item.server == *server)
                    && self
                        .owner_option
                        .owner()
                        .is_none_or(|owner| row.item.owner == owner)
                    && (!self.changed || row.status.is_difference())
            })
            .collect();
        if self.json {
            let listed: Vec<ListedItem<'_>> = rows.iter().map(Row::listed).collect();
            let text = terminal_safe(&listed)?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            let colour = wants_colour(io::stdout().is_terminal());
            terminal::print(|out| table(out, &rows, items.is_empty(), self.changed, colour))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The worst finding.
fn worst(outcome: &LineReport) -> Option<&Detection> {
    outcome
        .detections
        .iter()
        .rev()
        .max_by_key(|detection| detection.severity)
        .filter(|_| outcome.verdict != Action::None)
}

impl Row<'_> {
    fn listed(&self) -> ListedItem<'_> {
        let item = self.item;
        let is_tool = item.key.kind == ItemKind::Tool;
        ListedItem {
            server_id: &item.server,
            owner: item.owner.as_str(),
            owner_uid: item.owner.uid(),
            item: item.key.kind.as_str(),
            tool_name: is_tool.then_some(&*item.key.name),
            status: self.status,
            pinned_hash: item.pinned.map(|hash| hash.to_string()),
            pinned_at: item.pinned_at,
            pinned_how: item
                .pinned
                .map(|_| item.pinned_by.map_or("first_use", DecidedBy::as_str)),
            pinned_by: item.pinned_by.and_then(DecidedBy::uid),
            current_hash: item.current.to_string(),
            first_seen: item.first_seen,
            last_seen: item.last_seen,
            removed_at: item.removed_at,
            decision: item.last_decision.as_ref().map(|decision| LastDecision {
                decision: decision.kind.as_str(),
                hash: decision.hash.map(|hash| hash.to_string()),
                by: decision.by.as_str(),
                uid: decision.by.uid(),
                timestamp: decision.time,
                reason: &decision.reason,
            }),
            listed: item.listed.as_deref(),
            verdict: self.outcome.verdict,
            max_severity: self.outcome.max_severity,
            category: worst(self.outcome).map(|detection| detection.category.as_str()),
        }
    }

    fn status(&self) -> String {
        let item = self.item;
        let rejected = item.last_decision.as_ref().is_some_and(|decision| {
            decision.kind == DecisionKind::Reject && decision.hash == Some(item.current)
        });
        match (self.status, rejected) {
            (Status::Changed, true) => "changed, rejected".to_owned(),
            (Status::Approved, _) => {
                let why = item.listed.as_deref().unwrap_or_default();
                format!("approved by {}", escape::printable(why, WIDTH))
            }
            (status, _) => status.word().to_owned(),
        }
    }

    fn finding(&self) -> String {
        let Some(detection) = worst(self.outcome) else {
            return "-".to_owned();
        };
        let verdict = match self.outcome.verdict {
            Action::None => "",
            Action::Warn => "warn",
            Action::Alert => "ALERT",
            Action::Block => "BLOCK",
        };
        format!(
            "{verdict} {} ({})",
            detection.category,
            detection.severity.as_str()
        )
    }
}

fn table(
    out: &mut dyn Write,
    rows: &[Row<'_>],
    nothing_known: bool,
    changed: bool,
    colour: bool,
) -> io::Result<()> {
    if rows.is_empty() {
        let why = match (nothing_known, changed) {
            (false, true) => "All items match their pins.",
            _ => "No server has been seen yet: use an MCP client while mcpinspectd is running.",
        };
        return writeln!(out, "{why}");
    }
    let heads = ["SERVER", "TOOL", "STATUS", "PIN", "LAST SEEN", "FINDING"];
    // Whose they are, where that is a question.
    let with_users = pins::are_several(rows.iter().map(|row| row.item.owner));
    let user = |row: &Row<'_>| match with_users {
        true => format!("{}\t", pins::owner_name(row.item.owner)),
        false => String::new(),
    };
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            [
                escape::printable(&row.item.server, WIDTH),
                escape::printable(&pins::noun(&row.item.key), WIDTH),
                row.status(),
                row.item.pinned.map_or_else(|| "-".to_owned(), pins::short),
                pins::day(row.item.last_seen),
                row.finding(),
            ]
        })
        .collect();
    aligned(out, |out| {
        let user_head = if with_users { "USER\t" } else { "" };
        writeln!(out, "{user_head}{}", heads.join("\t"))?;
        for (row, cells) in rows.iter().zip(&cells) {
            let mut styles = [Style::new(); 6];
            if colour {
                styles[2] = row.status.style();
                if row.outcome.verdict >= Action::Alert {
                    styles[5] = AnsiColor::Red.on_default();
                }
            }
            write!(out, "{}", user(row))?;
            line(out, cells, &styles)?;
        }
        Ok(())
    })?;
    let differ = rows.iter().filter(|row| row.status.is_difference()).count();
    if differ > 0 {
        writeln!(
            out,
            "\n{differ} of {} differ from their pins; `mcpinspect diff SERVER TOOL` shows how.",
            rows.len()
        )?;
    }
    Ok(())
}

fn line(out: &mut dyn Write, cells: &[String; 6], styles: &[Style; 6]) -> io::Result<()> {
    for (index, (cell, style)) in cells.iter().zip(styles).enumerate() {
        let tab = if index == 0 { "" } else { "\t" };
        write!(out, "{tab}{style}{cell}{style:#}")?;
    }
    writeln!(out)
}
