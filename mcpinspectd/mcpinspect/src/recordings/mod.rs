//! What was recorded: `sessions`, `show`, `search`, `stats` and `query`.
//!
//! Root reads the store's file; everyone else asks the daemon, whose answer depends on who is asking.

mod query;
mod search;
mod sessions;
mod show;
mod stats;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use mcpinspect_bus::client;
use mcpinspect_cli::terminal;
use mcpinspect_cli::terminal::Reader;
use mcpinspect_core::model::Timestamp;
use mcpinspect_core::text::escape::{is_hidden, printable};
use mcpinspect_core::text::human::{duration, moment, size};
use mcpinspect_engine::history::{
    HistoryQuery, HistoryReader as _, MAX_ROWS, RecordedEvent, RecordedMessage, RecordedSession,
    Viewer,
};
use mcpinspect_settings::config::Config;
use mcpinspect_store::messages::StoreFile;
use nix::unistd::Uid;
use serde::de::DeserializeOwned;

pub use query::{Query, QuerySource};
pub use search::Search;
pub use sessions::{Sessions, session_state};
pub use show::{Show, headline};
pub use stats::Stats;

/// Rows to ask for at a time.
const PAGE: usize = 500;

/// Characters of names to show.
const NAME: usize = 48;

/// Where the message store is.
#[derive(clap::Args)]
pub struct StoreLocation {
    /// Read this message store. Default: for root, the one named in the configuration; for other
    /// users, ask the daemon, which answers about their own servers.
    #[arg(long, value_name = "PATH")]
    store: Option<PathBuf>,
    /// Configuration file. Default: /etc/mcpinspectd/config.toml, or built-in settings.
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    config: Option<PathBuf>,
}

impl StoreLocation {
    /// The file to read; `None` if the daemon must be asked.
    pub fn file(&self) -> anyhow::Result<Option<PathBuf>> {
        match (&self.store, &self.config) {
            (Some(path), _) => Ok(Some(path.clone())),
            (None, None) if !Uid::effective().is_root() => Ok(None),
            (None, _) => Ok(Some(self.settings()?.messages_path())),
        }
    }

    /// Whether the configuration says that nothing is recorded. Unknown if the daemon must be asked, or for another
    /// store.
    pub fn is_off(&self) -> anyhow::Result<bool> {
        let is_own = self.store.is_none() && self.file()?.is_some();
        Ok(is_own && !self.settings()?.store.enabled)
    }

    /// The settings.
    fn settings(&self) -> anyhow::Result<Config> {
        Ok(Config::load(self.config.as_deref())?)
    }

    /// The file to write, and the settings that apply to it.
    pub fn to_write(&self) -> anyhow::Result<(PathBuf, Config)> {
        let config = self.settings()?;
        let path = self.store.clone();
        Ok((path.unwrap_or_else(|| config.messages_path()), config))
    }

    /// The rows of an answer, as lines of JSON.
    pub fn ask(&self, question: &HistoryQuery) -> anyhow::Result<Vec<String>> {
        match self.file()? {
            Some(path) => StoreFile::new(&path)
                .query_history(question, Viewer::All)
                .with_context(|| path.display().to_string()),
            None => {
                let question = serde_json::to_string(question)?;
                super::daemon::on_bus(async {
                    let manager = client::connect().await?;
                    Ok(client::answer(manager.recall(&question)).await?)
                })
            }
        }
    }

    /// The rows of an answer.
    fn ask_for<T: DeserializeOwned>(&self, question: &HistoryQuery) -> anyhow::Result<Vec<T>> {
        let rows = self.ask(question)?;
        rows.iter()
            .map(|row| serde_json::from_str(row).context("invalid row in the answer"))
            .collect()
    }

    /// The session with this id, or whose id begins with it.
    pub fn session(&self, id: &str) -> anyhow::Result<RecordedSession> {
        let question = HistoryQuery::Sessions {
            server: None,
            since: None,
            session: Some(id.to_owned()),
            limit: 10,
        };
        let mut found: Vec<RecordedSession> = self.ask_for(&question)?;
        if let Some(exact) = found.iter().position(|session| session.session_id == id) {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            0 => bail!(
                "no recorded session {}; `mcpinspect sessions` lists them",
                printable(id, NAME)
            ),
            1 => Ok(found.swap_remove(0)),
            _ => bail!(
                "the ids of several sessions begin with {}: {}; give more characters",
                printable(id, NAME),
                found
                    .iter()
                    .map(|session| printable(&session.session_id, NAME))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        }
    }

    /// The events about a session, in order.
    pub fn events(&self, session: &str) -> anyhow::Result<Vec<RecordedEvent>> {
        self.ask_for(&HistoryQuery::Events {
            session: session.to_owned(),
            limit: MAX_ROWS,
        })
    }

    /// Passes on the messages of a session, in order, until there are no more or `take` returns false.
    pub fn messages(
        &self,
        session: &str,
        mut take: impl FnMut(String, &RecordedMessage) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut after = 0;
        loop {
            let rows = self.ask(&HistoryQuery::Messages {
                session: session.to_owned(),
                after,
                limit: PAGE,
            })?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let message: RecordedMessage =
                    serde_json::from_str(&row).context("invalid row in the answer")?;
                after = message.number;
                if !take(row, &message)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Which rows of the past are listed, and how: what `sessions` and `search` share.
#[derive(clap::Args)]
struct Listing {
    /// Only since this time: 15m, 24h, 7d, a day or a time.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<u64>,
    /// Show at most this many.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: StoreLocation,
}

/// Prints rows, one JSON object per line.
fn print_rows(rows: &[String]) -> anyhow::Result<()> {
    terminal::print(|out| {
        rows.iter()
            .try_for_each(|row| writeln!(out, "{}", safe(row)))
    })?;
    Ok(())
}

/// Prints one row. Returns whether anyone reads more.
fn print_row(row: &str) -> anyhow::Result<bool> {
    let reader = terminal::print(|out| writeln!(out, "{}", safe(row)))?;
    Ok(reader == Reader::Listening)
}

/// JSON without invisible characters and those that act on a terminal: those occur in strings, and become
/// escapes.
fn safe(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // Between values, where JSON allows them.
            '\t' | '\r' | '\n' => out.push(' '),
            _ if is_hidden(character) => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(character),
        }
    }
    out
}

/// The text of a message for people, in one line of at most this many characters.
fn content(message: &RecordedMessage, most: usize) -> String {
    match (&message.message, &message.text) {
        (Some(json), _) => printable(json.0.get(), most),
        (None, Some(text)) => printable(text, most),
        (None, None) => String::new(),
    }
}

/// Columns to use for a message's text.
fn width() -> usize {
    const NO_TERMINAL: usize = 200;
    if !std::io::stdout().is_terminal() {
        return NO_TERMINAL;
    }
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|columns| columns.parse().ok());
    columns.unwrap_or(100_usize).clamp(40, 1000)
}

/// A moment in the past: `90s`, `15m`, `24h`, `7d`, a day (`2026-11-23`), or RFC 3339.
pub fn since(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "invalid time `{text}`: write 90s, 15m, 24h, 7d, a day such as 2026-11-23, or 2026-11-23T12:30:00Z"
        )
    };
    let unit = match text.chars().last() {
        Some('s') => Some(1),
        Some('m') => Some(60),
        Some('h') => Some(3600),
        Some('d') => Some(86_400),
        _ => None,
    };
    let number = text
        .get(..text.len().saturating_sub(1))
        .and_then(|number| number.parse::<u64>().ok());
    if let (Some(seconds), Some(number)) = (unit, number) {
        let nanos = number.saturating_mul(seconds).saturating_mul(1_000_000_000);
        return Ok(Timestamp::now().0.saturating_sub(nanos));
    }
    let time = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00Z")));
    time.map(|time| time.0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_as_people_write_them() {
        let day = 1_795_392_000_000_000_000;
        assert_eq!(since("2026-11-23"), Ok(day));
        assert_eq!(since("2026-11-23T00:00:01Z"), Ok(day + 1_000_000_000));
        let then = since("2h").unwrap();
        let ago = Timestamp::now().0 - then;
        assert!(
            (7_200_000_000_000..7_300_000_000_000).contains(&ago),
            "{ago}"
        );
        for wrong in ["", "yesterday", "7", "-7d", "d"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn json_stays_json_and_acts_on_no_terminal() {
        let json = serde_json::json!({"a": "x\u{202e}\u{e0041}y\u{7f}"}).to_string();
        let shown = safe(&json);
        assert!(!shown.chars().any(is_hidden), "{shown}");
        let back: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(back.to_string(), json);
    }
}
