//! The options of `mcpinspect call`, and what they mean for the rest of it.

use std::path::PathBuf;
use std::time::Duration;

use crate::connection::{Patience, Settings};
use crate::era::{Era, Offer};
use crate::replies::Replies;
use anyhow::{Context as _, anyhow, bail};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use super::input::read_bounded;
use super::request::{CallRequest, RequestParts};
use crate::target;

/// Longest time to watch notifications.
const LONGEST_WATCH: Duration = Duration::from_secs(86_400);

/// Largest file of answers.
const MAX_ANSWERS: u64 = 16 << 20;

/// Severity from which servers without a handshake are asked to log: they say nothing unless asked.
const LOG_LEVEL: &str = "info";

#[derive(clap::Args)]
#[command(next_help_heading = "What to ask")]
pub struct RequestOptions {
    /// The tool to call.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// An argument of a tool or prompt. The tool's schema determines the type of the value.
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = pair)]
    arguments: Vec<(String, String)>,
    /// Arguments as a JSON object; `--arg` adds to them.
    #[arg(long, value_name = "JSON", value_parser = object)]
    args_json: Option<Map<String, Value>>,
    /// The prompt to get or to complete.
    #[arg(long, value_name = "NAME")]
    prompt: Option<String>,
    /// The resource to read, or the template to complete.
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// The level to set.
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// Parameters as a JSON object, for any method.
    #[arg(long, value_name = "JSON", value_parser = object)]
    params: Option<Map<String, Value>>,
    /// Send the request even if the server does not offer it, or its schemas do not allow it.
    #[arg(long)]
    unchecked: bool,
}

impl RequestOptions {
    /// Their ids, for what excludes all of them.
    pub const OPTIONS: [&str; 8] = [
        "tool",
        "arguments",
        "args_json",
        "prompt",
        "uri",
        "level",
        "params",
        "unchecked",
    ];

    /// What to ask with this method.
    ///
    /// # Errors
    /// An option does not belong to it.
    pub fn request(&self, method: &str) -> anyhow::Result<CallRequest> {
        for (at, (name, _)) in self.arguments.iter().enumerate() {
            let before = self.arguments.get(..at).unwrap_or_default();
            if before.iter().any(|(other, _)| other == name) {
                bail!("`--arg {name}` is given twice; give a list as JSON");
            }
        }
        let parts = RequestParts {
            tool: self.tool.clone(),
            prompt: self.prompt.clone(),
            uri: self.uri.clone(),
            level: self.level.clone(),
            arguments: self.args_json.clone(),
            params: self.params.clone(),
            texts: self.arguments.clone(),
        };
        let request = parts.request(method).map_err(|error| anyhow!(error))?;
        Ok(CallRequest {
            unchecked: self.unchecked,
            ..request
        })
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "How to ask")]
pub struct SessionOptions {
    /// The protocol's generation: with the `initialize` handshake (legacy), without it (modern), or
    /// whichever the server supports (auto).
    #[arg(long, value_enum, default_value_t = EraOption::Auto)]
    era: EraOption,
    /// Timeout for each response, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout: u32,
    /// Stay connected for this long after the result (`10s`, `5m`), and show the server's
    /// notifications: changed lists, log messages, progress. Subscribes to them if the server is
    /// modern.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with_all = ["script", "repeat"])]
    pub watch: Option<Duration>,
    /// Answers to requests of the server: a JSON file, `{"roots/list": {"roots": []}}`. Without it,
    /// requests are declined.
    #[arg(long, value_name = "FILE")]
    answer: Option<PathBuf>,
    /// The capabilities to claim, as JSON. Default: sampling, elicitation and roots.
    #[arg(long, value_name = "JSON", value_parser = object)]
    capabilities: Option<Map<String, Value>>,
    /// The server's URL, instead of a command: Streamable HTTP or HTTP+SSE.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// A header for each request to a server at a URL. `${NAME}` stands for an environment variable.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = target::header)]
    pub headers: Vec<(String, String)>,
    /// An environment variable for the server.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = pair)]
    pub environment: Vec<(String, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum EraOption {
    /// Modern if the server supports it, else legacy.
    Auto,
    /// Up to revision 2025-11-25.
    Legacy,
    /// Revision 2026-07-28.
    Modern,
}

impl SessionOptions {
    /// Which era to speak.
    pub fn offer(&self) -> Offer {
        match self.era {
            EraOption::Auto => Offer::Either,
            EraOption::Legacy => Offer::Only(Era::Legacy),
            EraOption::Modern => Offer::Only(Era::Modern),
        }
    }

    /// How the client behaves.
    ///
    /// # Errors
    /// The file of answers cannot be used.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let replies = match &self.answer {
            Some(path) => {
                let text = read_bounded(path, MAX_ANSWERS)?;
                let script = serde_json::from_str(&text)
                    .with_context(|| format!("{} is not valid JSON", path.display()))?;
                Replies::read(script).with_context(|| path.display().to_string())?
            }
            None => Replies::default(),
        };
        let claimed =
            || json!({ "sampling": {}, "elicitation": { "form": {}, "url": {} }, "roots": {} });
        Ok(Settings {
            patience: Patience::Each(self.timeout()),
            capabilities: self
                .capabilities
                .clone()
                .map_or_else(claimed, Value::Object),
            log_level: Some(LOG_LEVEL.to_owned()),
            progress: true,
            replies,
        })
    }

    /// How long each answer may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<SignedDuration> = text.parse().ok();
    let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
    match duration {
        Some(duration) if duration <= LONGEST_WATCH => Ok(duration),
        Some(_) => Err("the duration is longer than a day".to_owned()),
        None => Err("expected a duration such as `10s` or `5m`".to_owned()),
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err("expected a JSON object".to_owned()),
        Err(error) => Err(format!("invalid JSON: {error}")),
    }
}
