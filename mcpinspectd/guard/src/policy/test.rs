//! Tries a policy on a recorded session: what would have happened to its messages.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::table::aligned;
use mcpinspect_client::tape_file;
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::json::terminal_safe;
use mcpinspect_engine::examine::Examiner;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::session::Session;
use mcpinspect_judge::policy::situation::Parties;
use mcpinspect_judge::policy::{DIRECTORY, Policy};
use mcpinspect_tape::Entry;
use serde::Serialize;

use super::{load, zone};

/// Characters of names to show.
const NAME: usize = 60;

/// Show what a policy would have done to a recorded session
///
/// Checks each message of the tape as `mcpinspect guard` would have. Nothing is sent. A tape does
/// not record which tools were approved, so all count as unapproved.
#[derive(clap::Args)]
pub struct Test {
    /// The tape; see `mcpinspect tape export`.
    tape: PathBuf,
    /// Policy files, or directories with *.toml files.
    #[arg(long, value_name = "PATH", default_value = DIRECTORY)]
    policy: Vec<PathBuf>,
    /// Print a JSON object for each decision.
    #[arg(long)]
    json: bool,
}

/// A decision on a message of the tape.
#[derive(Serialize)]
struct TapeDecision {
    /// The message's number on the tape.
    sequence: u64,
    #[serde(flatten)]
    record: Record,
}

impl Test {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let Some(policy) = load(&self.policy) else {
            return Ok(ExitCode::from(2));
        };
        let (messages, decided) = self.decide(policy)?;
        if self.json {
            terminal::print(|out| {
                for decided in &decided {
                    writeln!(out, "{}", terminal_safe(decided)?)?;
                }
                Ok(())
            })?;
        } else {
            terminal::print(|out| table(out, messages, &decided))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// How many messages the tape has, and the decisions on them.
    fn decide(&self, policy: Policy) -> anyhow::Result<(u64, Vec<TapeDecision>)> {
        let tape = tape_file::open(&self.tape)?;
        let header = tape.header();
        let parties = Parties {
            zone: zone(),
            ..Parties::of(&header.server_id)
        };
        let asks = policy.asks_for_findings();
        let mut examiner = asks.then(|| Examiner::new(&header.server_id));
        let mut session = Session::new(Arc::new(policy), parties).recorded();
        let (mut messages, mut decided) = (0, Vec::new());
        let mut last = Timestamp::default();
        for entry in tape {
            let entry = entry.with_context(|| self.tape.display().to_string())?;
            let Some(text) = text(&entry) else {
                continue;
            };
            messages += 1;
            last = Timestamp::parse(&entry.time).unwrap_or(last).max(last);
            let examine =
                |examiner: &mut Examiner| examiner.examine(entry.direction, text.as_bytes(), last);
            let findings = examiner.as_mut().map(examine).unwrap_or_default();
            let handled = session.handle(entry.direction, text.as_bytes(), last, &findings);
            let records = handled.records.into_iter();
            decided.extend(records.map(|record| TapeDecision {
                sequence: entry.sequence,
                record,
            }));
        }
        Ok((messages, decided))
    }
}

fn text(entry: &Entry) -> Option<&str> {
    match (&entry.message, &entry.text) {
        (Some(message), _) => Some(message.0.get()),
        (None, text) => text.as_deref(),
    }
}

fn table(out: &mut dyn Write, messages: u64, decided: &[TapeDecision]) -> io::Result<()> {
    aligned(out, |out| {
        for TapeDecision { sequence, record } in decided {
            let way = match record.direction {
                Direction::ClientToServer => "→",
                Direction::ServerToClient => "←",
            };
            let kind = record.kind.map_or("unreadable", |kind| kind.as_str());
            let method = printable(record.method.as_deref().unwrap_or_default(), NAME);
            let tool = printable(record.tool.as_deref().unwrap_or_default(), NAME);
            let rules: Vec<&str> = record.rules.iter().map(|rule| rule.id.as_str()).collect();
            let mut why = rules.join(", ");
            if let Some(reason) = record.reason {
                why.push_str(&format!(" ({reason})"));
            }
            if !record.hidden.is_empty() {
                why.push_str(&format!(": {}", printable(&record.hidden.join(", "), NAME)));
            }
            let action = record.action;
            writeln!(
                out,
                "{sequence}\t{way} {kind}\t{method}\t{tool}\t{action}\t{why}"
            )?;
        }
        Ok(())
    })?;
    let held =
        |action: &&TapeDecision| matches!(action.record.action, "block" | "error" | "refuse");
    let kept = decided.iter().filter(held).count();
    let matched = decided.len();
    writeln!(
        out,
        "{messages} messages, {matched} matched, {kept} of them kept back"
    )
}
