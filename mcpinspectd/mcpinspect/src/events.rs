//! `mcpinspect events`: past events and, with `--follow`, new ones as they happen.

use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use futures_util::StreamExt as _;
use mcpinspect_bus::client;
use mcpinspect_bus::client::{ClientError, EventStream, ManagerProxy, answer};
use mcpinspect_bus::rows::SignalRow;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::{Reader, wants_colour};
use mcpinspect_core::model::Severity;
use mcpinspect_core::text::escape;
use serde_json::Value;

use super::daemon::on_bus;

/// Longest title, in characters.
const TITLE: usize = 160;

/// Show the latest events that you may read, oldest first
///
/// Root and members of the group mcpinspect see every user's events; other users see those of their
/// own servers.
#[derive(clap::Args)]
pub struct Events {
    /// Keep printing new events until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Show at most this many past events.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    lines: u32,
    /// Show only this server's events.
    #[arg(long)]
    server: Option<String>,
    /// Show only events of at least this severity: low, medium, high or critical. By default, events
    /// without a severity are shown too.
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    min_severity: Option<Severity>,
    /// Print each event as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn severity(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "expected low, medium, high or critical".to_owned())
}

impl Events {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        on_bus(async {
            let manager = client::connect().await?;
            // Subscribe before asking for the past, so that no event falls between the two.
            let mut signals = match self.follow {
                true => Some(manager.receive_event().await?),
                false => None,
            };
            let last = self.past(&manager).await?;
            if let Some(signals) = &mut signals {
                self.follow(&manager, signals, last).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Prints past events and returns the id of the last one.
    async fn past(&self, manager: &ManagerProxy<'_>) -> anyhow::Result<Option<String>> {
        let signals = answer(manager.list_signals("")).await?;
        let last = signals.last().map(|signal| signal.event_id.clone());
        let by_id: HashMap<String, SignalRow> = signals
            .into_iter()
            .map(|signal| (signal.event_id.clone(), signal))
            .collect();
        let events = answer(manager.list_events("", 0)).await?;
        let mut shown = VecDeque::new();
        for text in &events {
            let event: Value = serde_json::from_str(text)
                .context("the daemon sent an event that is not valid JSON")?;
            let id = event["event_id"].as_str().unwrap_or_default();
            // An event that arrived between the two calls has no title yet.
            let Some(signal) = by_id.get(id) else {
                continue;
            };
            if self.is_wanted(signal) {
                shown.push_back(self.line(signal, Some((&event, text))));
                if shown.len() > self.lines as usize {
                    shown.pop_front();
                }
            }
        }
        terminal::print(|out| shown.iter().try_for_each(|line| writeln!(out, "{line}")))?;
        Ok(last)
    }

    async fn follow(
        &self,
        manager: &ManagerProxy<'_>,
        signals: &mut EventStream,
        last: Option<String>,
    ) -> anyhow::Result<()> {
        let mut printed = last.as_deref().and_then(number);
        while let Some(event) = signals.next().await {
            let Ok(signal) = event.message().body().deserialize::<SignalRow>() else {
                continue;
            };
            // Already printed as part of the past. A restarted daemon counts from one again.
            let number = number(&signal.event_id);
            let again = printed
                .as_ref()
                .zip(number.as_ref())
                .is_some_and(|(printed, new)| printed.0 == new.0 && new.1 <= printed.1);
            printed = number;
            if again || !self.is_wanted(&signal) {
                continue;
            }
            let line = match answer(manager.get_event(&signal.event_id)).await {
                Ok(text) => {
                    let event: Value = serde_json::from_str(&text)
                        .context("the daemon sent an event that is not valid JSON")?;
                    self.line(&signal, Some((&event, &text)))
                }
                // Another user's event.
                Err(ClientError::Denied(_)) => continue,
                // No longer kept; its title is all there is.
                Err(ClientError::Refused(_)) => self.line(&signal, None),
                Err(error) => return Err(error.into()),
            };
            if terminal::print(|out| writeln!(out, "{line}"))? == Reader::Gone {
                return Ok(());
            }
        }
        anyhow::bail!("lost the connection to the system bus")
    }

    fn is_wanted(&self, signal: &SignalRow) -> bool {
        let severity = Severity::from_word(&signal.severity);
        let severe_enough = self
            .min_severity
            .is_none_or(|least| severity.is_some_and(|own| own >= least));
        let server = self.server.as_ref();
        severe_enough && server.is_none_or(|wanted| *wanted == signal.server)
    }

    fn line(&self, signal: &SignalRow, event: Option<(&Value, &str)>) -> String {
        let SignalRow {
            kind,
            event_id: id,
            severity,
            title,
            ..
        } = signal;
        if self.json {
            // The daemon no longer keeps it: print its name at least.
            return event.map_or_else(
                || serde_json::json!({"type": kind, "event_id": id}).to_string(),
                |(_, text)| text.to_owned(),
            );
        }
        let time = event.and_then(|(event, _)| event["timestamp"].as_str());
        let colour = wants_colour(std::io::stdout().is_terminal());
        let style = match Severity::from_word(severity) {
            _ if !colour => Style::new(),
            Some(Severity::Critical | Severity::High) => AnsiColor::Red.on_default().bold(),
            Some(Severity::Medium) => AnsiColor::Yellow.on_default(),
            Some(Severity::Low) => AnsiColor::Cyan.on_default(),
            None => Style::new().dimmed(),
        };
        let word = if severity.is_empty() { "-" } else { severity };
        format!(
            "{}  {style}{word:8}{style:#}  {}",
            time.and_then(|time| time.get(..19)).unwrap_or("?"),
            escape::printable(title, TITLE)
        )
    }
}

/// Splits an event's id into the daemon's run and the number within it.
fn number(id: &str) -> Option<(String, u64)> {
    let (run, number) = id.rsplit_once('-')?;
    Some((run.to_owned(), number.parse().ok()?))
}
