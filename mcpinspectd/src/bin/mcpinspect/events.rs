//! `mcpinspect events`: the latest events, and those that come.

use std::collections::{HashMap, VecDeque};
use std::io::IsTerminal as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use futures_util::StreamExt as _;
use mcpinspectd::bus::client::{Client, ClientError};
use mcpinspectd::bus::manager::{INTERFACE, NAME, PATH};
use mcpinspectd::model::Severity;
use mcpinspectd::terminal::{self, Reader, wants_colour};
use mcpinspectd::text::escape;
use serde_json::Value;
use zbus::{MatchRule, MessageStream, message};

use super::daemon::on_bus;

/// Characters of a title that are shown.
const TITLE: usize = 160;

/// Show the latest events that you may read, oldest first
///
/// Root and the members of the group mcpinspect read everyone's; anybody else reads what concerns
/// servers that run as themselves.
#[derive(clap::Args)]
pub struct Events {
    /// Go on with what happens from now on, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// How many of the past to show at most.
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    lines: u32,
    /// Show this server's alone.
    #[arg(long)]
    server: Option<String>,
    /// Show nothing less severe: low, medium, high or critical. Without it, also the ordinary course
    /// of things.
    #[arg(long, value_name = "SEVERITY", value_parser = severity)]
    min_severity: Option<Severity>,
    /// Print each event as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn severity(word: &str) -> Result<Severity, String> {
    Severity::from_word(word).ok_or_else(|| "neither low, medium, high nor critical".to_owned())
}

/// What a signal says: type, id, severity, server, uid, title.
type Signal = (String, String, String, String, u32, String);

impl Events {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        on_bus(async {
            let client = Client::connect().await?;
            // Heard from now on, so that nothing is missed between the past and the future.
            let mut signals = match self.follow {
                true => Some(listen(&client).await?),
                false => None,
            };
            let last = self.past(&client).await?;
            if let Some(signals) = &mut signals {
                self.future(&client, signals, last).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    /// Shows what was; gives the id of the last event.
    async fn past(&self, client: &Client) -> anyhow::Result<Option<String>> {
        let signals: Vec<Signal> = client.ask("ListSignals", &"").await?;
        let last = signals.last().map(|signal| signal.1.clone());
        let by_id: HashMap<String, Signal> = signals
            .into_iter()
            .map(|signal| (signal.1.clone(), signal))
            .collect();
        let events: Vec<String> = client.ask("ListEvents", &("", 0u32)).await?;
        let mut shown = VecDeque::new();
        for text in &events {
            let event: Value = serde_json::from_str(text).context("an event is no JSON")?;
            let id = event["event_id"].as_str().unwrap_or_default();
            // An event that came between the two questions has no title yet.
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

    async fn future(
        &self,
        client: &Client,
        signals: &mut MessageStream,
        last: Option<String>,
    ) -> anyhow::Result<()> {
        let mut told = last.as_deref().and_then(number);
        while let Some(message) = signals.next().await {
            let Ok(signal) = message?.body().deserialize::<Signal>() else {
                continue;
            };
            // Heard already as part of the past; another run of the daemon counts anew.
            let number = number(&signal.1);
            let again = told
                .as_ref()
                .zip(number.as_ref())
                .is_some_and(|(told, new)| told.0 == new.0 && new.1 <= told.1);
            told = number;
            if again || !self.is_wanted(&signal) {
                continue;
            }
            let line = match client.ask::<_, String>("GetEvent", &signal.1).await {
                Ok(text) => {
                    let event: Value =
                        serde_json::from_str(&text).context("an event is no JSON")?;
                    self.line(&signal, Some((&event, &text)))
                }
                // Somebody else's: there is a title, and no more.
                Err(ClientError::Denied(_)) => continue,
                Err(ClientError::Refused(_)) => self.line(&signal, None),
                Err(error) => return Err(error.into()),
            };
            if terminal::print(|out| writeln!(out, "{line}"))? == Reader::Gone {
                return Ok(());
            }
        }
        anyhow::bail!("the system bus has gone")
    }

    fn is_wanted(&self, (_, _, severity, server, _, _): &Signal) -> bool {
        let severe_enough = self
            .min_severity
            .is_none_or(|least| Severity::from_word(severity).is_some_and(|own| own >= least));
        severe_enough && self.server.as_ref().is_none_or(|wanted| wanted == server)
    }

    fn line(&self, signal: &Signal, event: Option<(&Value, &str)>) -> String {
        let (kind, id, severity, _, _, title) = signal;
        if self.json {
            // One that is not kept any more still has its name.
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

/// The run and the number of an event's id.
fn number(id: &str) -> Option<(String, u64)> {
    let (run, number) = id.rsplit_once('-')?;
    Some((run.to_owned(), number.parse().ok()?))
}

async fn listen(client: &Client) -> anyhow::Result<MessageStream> {
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .sender(NAME)
        .path(PATH)
        .interface(INTERFACE)
        .member("Event")
        .build()?;
    Ok(MessageStream::for_match_rule(rule, client.connection(), None).await?)
}
