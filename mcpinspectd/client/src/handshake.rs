//! The greeting of either era.
//!
//! With [`Offer::Either`], `server/discover` comes first, then `initialize` on the same connection if the answer is
//! an error or does not come.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::connection::{Connection, client_info, tree};
use super::era::{Era, Offer, STATEFUL, STATELESS};
use super::failure::{Category, Code, Failure};

/// How long to wait for an answer to `server/discover` before trying the older handshake.
const DISCOVERY: Duration = Duration::from_secs(3);

const DISCOVER: &str = "server/discover";
const INITIALIZE: &str = "initialize";

/// Who the server says it is.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The era in use.
    pub era: Era,
    /// The protocol's revision.
    pub version: String,
    /// The whole result of the handshake.
    pub result: Value,
}

impl Greeting {
    /// Its name and version, as it reports them.
    pub fn server_info(&self) -> &Value {
        const IN_META: &str = "/_meta/io.modelcontextprotocol~1serverInfo";
        let own = self.result.get("serverInfo");
        let own = own.or_else(|| self.result.pointer(IN_META));
        own.unwrap_or(&Value::Null)
    }

    /// What it offers.
    pub fn capabilities(&self) -> &Value {
        self.result.get("capabilities").unwrap_or(&Value::Null)
    }
}

impl Connection<'_> {
    /// Greets the server.
    ///
    /// # Errors
    /// It does not answer, refuses, or does not speak the requested era.
    pub fn greet(&mut self, offer: Offer) -> Result<Greeting, Failure> {
        if offer == Offer::Only(Era::Legacy) {
            return self.initialize(None);
        }
        self.era = Era::Modern;
        let id = self.send(DISCOVER, Map::new())?;
        let patience = match offer {
            Offer::Either => self.elapsed().saturating_add(DISCOVERY).min(self.until()),
            Offer::Only(_) => self.until(),
        };
        let answer = self.wait(&[id], patience)?;
        let answer = answer.map(|answer| answer.outcome);
        match (answer, offer) {
            (Some(Ok(result)), _) if is_modern(&tree(&result)) => Ok(modern(&result)),
            (Some(Err(failure)), Offer::Either) if !is_puzzled(&failure) => Err(failure),
            (Some(_), Offer::Either) => self.initialize(None),
            (None, Offer::Either) => self.initialize(Some(id)),
            (Some(Ok(result)), Offer::Only(_)) => Err(Failure::new(
                Category::Protocol,
                "unsupported_revision",
                format!("the server does not support protocol version {STATELESS}"),
            )
            .with(tree(&result))),
            (Some(Err(failure)), Offer::Only(_)) => Err(failure),
            (None, Offer::Only(_)) => Err(self.late(DISCOVER)),
        }
    }

    /// The handshake of the legacy era. `discovery` is a request that may still be answered: a slow server
    /// then does not know `initialize`.
    fn initialize(&mut self, discovery: Option<u64>) -> Result<Greeting, Failure> {
        self.era = Era::Legacy;
        let mut params = Map::new();
        params.insert("protocolVersion".to_owned(), STATEFUL.into());
        let capabilities = self.settings.capabilities.clone();
        params.insert("capabilities".to_owned(), capabilities);
        params.insert("clientInfo".to_owned(), client_info());
        let id = self.send(INITIALIZE, params)?;
        let mut ids: Vec<u64> = discovery.into_iter().chain([id]).collect();
        loop {
            let Some(answer) = self.wait(&ids, self.until())? else {
                return Err(self.late(INITIALIZE));
            };
            match answer.outcome {
                Ok(result) if answer.id != id && is_modern(&tree(&result)) => {
                    self.open.remove(&id);
                    self.era = Era::Modern;
                    return Ok(modern(&result));
                }
                _ if answer.id != id => ids.retain(|other| *other == id),
                Ok(result) => {
                    self.notify("notifications/initialized", &Map::new())?;
                    return Ok(legacy(&result));
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

/// Whether the server was reached but did not understand, as one of the other era does not.
fn is_puzzled(failure: &Failure) -> bool {
    failure.is_refusal()
        || matches!(
            failure.code,
            Code::Name("http_status" | "not_mcp" | "no_answer")
        )
}

/// Whether the result of `server/discover` is that of a modern server. Some legacy servers answer
/// every method that they do not know with an empty result.
fn is_modern(result: &Value) -> bool {
    match result.get("supportedVersions").and_then(Value::as_array) {
        Some(versions) => versions.contains(&json!(STATELESS)),
        None => result.get("capabilities").is_some_and(Value::is_object),
    }
}

fn modern(result: &RawValue) -> Greeting {
    Greeting {
        era: Era::Modern,
        version: STATELESS.to_owned(),
        result: tree(result),
    }
}

fn legacy(result: &RawValue) -> Greeting {
    let result = tree(result);
    let version = result.get("protocolVersion").and_then(Value::as_str);
    Greeting {
        era: Era::Legacy,
        version: version.unwrap_or(STATEFUL).to_owned(),
        result,
    }
}
