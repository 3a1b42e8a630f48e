//! The daemon's signals on the system bus, and its answers.

use std::collections::{HashSet, VecDeque};

use anyhow::Context as _;
use mcpinspectd::bus::client::{Client, ClientError};
use mcpinspectd::bus::manager::{INTERFACE, NAME};
use serde_json::Value;

use crate::alert::Arguments;
use crate::peer::{Heard, Peer};

/// What is heard of the daemon.
#[derive(Debug)]
pub enum News {
    /// An event's signal.
    Event(Arguments),
    /// It has come, or was restarted.
    Came,
}

/// The connection to the system bus.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    peer: Peer,
    /// The daemon may have signalled what was not heard.
    behind: bool,
    /// What was not heard, still to be handed on.
    missed: VecDeque<Arguments>,
    /// Events in `missed` whose signals may have been heard as well.
    twice: HashSet<String>,
}

impl Watch {
    /// Connects to the system bus.
    pub async fn connect() -> anyhow::Result<Self> {
        let client = Client::connect().await?;
        let connection = client.connection().clone();
        Ok(Self {
            peer: Peer::join(connection, NAME, INTERFACE, Some("Event")).await?,
            client,
            behind: true,
            missed: VecDeque::new(),
            twice: HashSet::new(),
        })
    }

    /// A handle for questions.
    pub fn daemon(&self) -> Daemon {
        Daemon(self.client.clone())
    }

    /// What is heard next; `None` when the bus has gone. `last` is the last event that was
    /// heard: what the daemon signalled since, while it could not be heard, comes first. Nothing is
    /// lost where this is cancelled.
    pub async fn next(&mut self, last: Option<&str>) -> Option<News> {
        loop {
            if self.behind {
                self.catch_up(last).await;
                self.behind = false;
            }
            if let Some(missed) = self.missed.pop_front() {
                return Some(News::Event(missed));
            }
            match self.peer.next().await? {
                Heard::Came => {
                    self.behind = true;
                    return Some(News::Came);
                }
                Heard::Went => self.behind = false,
                Heard::Signal(signal) => {
                    let signal: Result<Arguments, _> = signal.body().deserialize();
                    if let Ok(arguments) = signal
                        && !self.twice.remove(&arguments.1)
                    {
                        return Some(News::Event(arguments));
                    }
                }
            }
        }
    }

    /// Asks for what was signalled while nobody listened. A daemon that is not there will be heard
    /// when it comes; asking must not start it.
    async fn catch_up(&mut self, last: Option<&str>) {
        let Some(last) = last else { return };
        match self
            .client
            .ask::<_, Vec<Arguments>>("ListSignals", &last)
            .await
        {
            Ok(missed) => {
                self.twice = missed.iter().map(|arguments| arguments.1.clone()).collect();
                self.missed = missed.into();
            }
            Err(error) => tracing::debug!("cannot catch up: {error:#}"),
        }
    }
}

/// The daemon, to be asked.
#[derive(Clone, Debug)]
pub struct Daemon(Client);

impl Daemon {
    /// The whole event with this id.
    pub async fn event(&self, id: &str) -> anyhow::Result<Value> {
        let json: String = self.0.ask("GetEvent", &id).await?;
        Ok(serde_json::from_str(&json)?)
    }

    /// Approves what the event with this id found changed, and names it. polkit may ask the person for
    /// a password, which takes as long as it takes.
    pub async fn approve(&self, id: &str) -> anyhow::Result<String> {
        let event = self.event(id).await?;
        let field = |key: &str| {
            let text = event.get(key).and_then(Value::as_str);
            text.with_context(|| format!("the event has no {key}"))
        };
        // A server's own words have no tool, and are called after what they are.
        let (tool, name) = match field("tool_name") {
            Ok(tool) => (tool, tool.to_owned()),
            Err(_) => ("", field("item")?.replace('_', " ")),
        };
        let (server, hash) = (field("server_id")?, field("new_hash")?);
        self.0
            .order::<_, ()>("Approve", &(server, tool, hash))
            .await?;
        Ok(name)
    }

    /// Freezes a server, and says how many processes that were. polkit may ask here too.
    pub async fn freeze(&self, server: &str) -> Result<usize, ClientError> {
        let frozen: (Vec<u32>, Vec<String>, Vec<String>) = self.0.order("Freeze", &server).await?;
        Ok(frozen.0.len())
    }
}
