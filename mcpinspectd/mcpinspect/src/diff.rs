//! `mcpinspect diff`: a changed definition beside the accepted one.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::Style;
use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::wants_colour;
use mcpinspect_client::scan_report;
use mcpinspect_core::model::{Action, Detection, FieldChange, ItemKind, Timestamp};
use mcpinspect_core::text::diff::diff;
use mcpinspect_core::text::escape;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_judge::detect::scan::LineReport;
use mcpinspect_judge::registry::{Comparison, ItemView};
use mcpinspect_settings::rule_files;
use serde::Serialize;
use serde_json::Value;

use super::pins::{self, Item, NAME, RegistryLocation};
use super::text_diff::{self, Options};

/// Maximum number of findings to show.
const FINDINGS: usize = 6;

/// Show how a tool differs from its accepted definition
///
/// Shows each field that differs, with removed words marked [-so-] and added words {+so+}. Exits with
/// status 0 if nothing differs, 1 if something does, and 2 on errors.
#[derive(clap::Args)]
pub struct Diff {
    #[command(flatten)]
    item: Item,
    /// Print one JSON object, with the fields in full.
    #[arg(long)]
    json: bool,
    /// Show long texts in full.
    #[arg(long)]
    full: bool,
    /// Directory (or file) with your own detection rules and suppressions.
    #[arg(long, value_name = "DIR", default_value = rule_files::DIRECTORY)]
    rules: PathBuf,
    #[command(flatten)]
    location: RegistryLocation,
}

/// The comparison in JSON.
#[derive(Serialize)]
struct DefinitionDiff<'a> {
    server_id: &'a str,
    owner: &'static str,
    owner_uid: Option<u32>,
    item: &'static str,
    tool_name: Option<&'a str>,
    pinned: bool,
    removed: bool,
    previous_hash: String,
    new_hash: String,
    changes: &'a [FieldChange],
    verdict: Action,
    detections: &'a [Detection],
}

impl Diff {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let registry = self.location.read()?;
        let item = self.item.find(&registry)?;
        let comparison = registry
            .compare(pins::server_of(&item), &item.key, None, None)
            .context("cannot compare the two definitions")?;
        let items = pins::all(&registry)?;
        let outcomes = pins::findings(
            &registry,
            &self.location,
            &items,
            &self.rules,
            Timestamp::now(),
        )?;
        let mut outcomes = items.iter().zip(outcomes);
        let outcome = outcomes
            .find(|(other, _)| {
                pins::server_of(other) == pins::server_of(&item) && other.key == item.key
            })
            .map(|(_, outcome)| outcome)
            .context("the item no longer exists; run `mcpinspect tools` for the current list")?;
        if self.json {
            let text = terminal_safe(&compared(&item, &comparison, &outcome))?;
            terminal::print(|out| writeln!(out, "{text}"))?;
        } else {
            let options = Options {
                colour: wants_colour(io::stdout().is_terminal()),
                full: self.full,
            };
            let arguments = pins::arguments(&item, &items);
            terminal::print(|out| human(out, &item, &arguments, &comparison, &outcome, options))?;
        }
        Ok(if comparison.changes.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn compared<'a>(
    item: &'a ItemView,
    comparison: &'a Comparison,
    outcome: &'a LineReport,
) -> DefinitionDiff<'a> {
    let is_tool = item.key.kind == ItemKind::Tool;
    DefinitionDiff {
        server_id: &item.server,
        owner: item.owner.as_str(),
        owner_uid: item.owner.uid(),
        item: item.key.kind.as_str(),
        tool_name: is_tool.then_some(&*item.key.name),
        pinned: item.pinned.is_some(),
        removed: item.removed_at.is_some(),
        previous_hash: comparison.previous.to_string(),
        new_hash: comparison.new.to_string(),
        changes: &comparison.changes,
        verdict: outcome.verdict,
        detections: &outcome.detections,
    }
}

fn human(
    out: &mut dyn Write,
    item: &ItemView,
    arguments: &str,
    comparison: &Comparison,
    outcome: &LineReport,
    options: Options,
) -> io::Result<()> {
    let bold = if options.colour {
        Style::new().bold()
    } else {
        Style::new()
    };
    let server = escape::printable(&item.server, NAME);
    writeln!(out, "{bold}{server} {}{bold:#}", pins::noun(&item.key))?;
    match (item.pinned, item.pinned_at) {
        (Some(pinned), at) => {
            let by = item
                .pinned_by
                .map_or("first use".to_owned(), |by| by.to_string());
            let at = at.map_or(String::new(), |at| format!(", {}", pins::day(at)));
            writeln!(out, "pinned   {}  by {by}{at}", pins::short(pinned))?;
        }
        (None, _) => writeln!(out, "not pinned: the next definition seen will be accepted")?,
    }
    writeln!(
        out,
        "current  {}  last seen {}",
        pins::short(item.current),
        pins::day(item.last_seen)
    )?;
    if let Some(removed) = item.removed_at {
        writeln!(out, "no longer offered since {}", pins::day(removed))?;
    }
    if comparison.changes.is_empty() {
        return writeln!(out, "\nNothing differs.");
    }
    for change in &comparison.changes {
        field(out, change, options, bold)?;
    }
    if outcome.verdict != Action::None {
        writeln!(out, "\n{bold}What the current definition shows{bold:#}")?;
        let paint = |style: Style, text: &str| match options.colour {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        };
        for detection in outcome.detections.iter().take(FINDINGS) {
            scan_report::finding(out, detection, &paint)?;
        }
    }
    let arguments = format!("--hash {} {arguments}", pins::short(item.current));
    let differ = match comparison.changes.len() {
        1 => "1 field differs".to_owned(),
        count => format!("{count} fields differ"),
    };
    writeln!(
        out,
        "\n{differ}.\n  to accept it  sudo mcpinspect approve {arguments}\n  to refuse it  sudo mcpinspect reject {arguments}"
    )
}

fn field(
    out: &mut dyn Write,
    change: &FieldChange,
    options: Options,
    bold: Style,
) -> io::Result<()> {
    let note = match (&change.previous, &change.new) {
        (Value::Null, _) => "  (added)",
        (_, Value::Null) => "  (removed)",
        _ => "",
    };
    let name = escape::printable(&change.field, 4 * NAME);
    writeln!(out, "\n{bold}{name}{bold:#}{note}")?;
    let (previous, new) = match (&change.previous, &change.new) {
        (Value::String(previous), Value::String(new)) => (previous.clone(), new.clone()),
        (Value::Null, Value::String(new)) => (String::new(), new.clone()),
        (Value::String(previous), Value::Null) => (previous.clone(), String::new()),
        (Value::Null, new) => (String::new(), new.to_string()),
        (previous, Value::Null) => (previous.to_string(), String::new()),
        (previous, new) => (previous.to_string(), new.to_string()),
    };
    writeln!(
        out,
        "{}",
        text_diff::render(&diff(&previous, &new), options)
    )
}
