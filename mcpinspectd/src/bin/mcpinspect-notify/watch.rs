//! The daemon's signals on the system bus, and its answers.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use mcpinspectd::sink::bus::manager::{INTERFACE, NAME, PATH};
use serde_json::Value;
use tokio::time::timeout;
use zbus::proxy::{self, CacheProperties, MethodFlags};
use zbus::{Connection, MatchRule, MessageStream, Proxy, message};

use crate::alert::Arguments;

const PATIENCE: Duration = Duration::from_secs(10);

/// The connection to the system bus.
#[derive(Debug)]
pub struct Watch {
    connection: Connection,
    signals: MessageStream,
    owners: MessageStream,
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
        let connection = timeout(PATIENCE, Connection::system())
            .await
            .context("the system bus does not answer")??;
        let signals = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender(NAME)
            .path(PATH)
            .interface(INTERFACE)
            .member("Event")
            .build()?;
        let owners = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender("org.freedesktop.DBus")
            .interface("org.freedesktop.DBus")
            .member("NameOwnerChanged")
            .arg(0, NAME)
            .build()?;
        let signals = MessageStream::for_match_rule(signals, &connection, None).await?;
        let owners = MessageStream::for_match_rule(owners, &connection, None).await?;
        Ok(Self {
            connection,
            signals,
            owners,
            behind: true,
            missed: VecDeque::new(),
            twice: HashSet::new(),
        })
    }

    /// A handle for questions.
    pub fn daemon(&self) -> Daemon {
        Daemon(self.connection.clone())
    }

    /// The next event's signal; `None` when the bus has gone. `last` is the last event that was
    /// heard: what the daemon signalled since, while it could not be heard, comes first. Nothing is
    /// lost where this is cancelled.
    pub async fn next(&mut self, last: Option<&str>) -> Option<Arguments> {
        loop {
            if self.behind {
                self.catch_up(last).await;
                self.behind = false;
            }
            if let Some(missed) = self.missed.pop_front() {
                return Some(missed);
            }
            tokio::select! {
                () = self.connection.closed() => return None,
                signal = self.signals.next() => {
                    let signal: Result<Arguments, _> = signal?.ok()?.body().deserialize();
                    if let Ok(arguments) = signal
                        && !self.twice.remove(&arguments.1)
                    {
                        return Some(arguments);
                    }
                }
                owner = self.owners.next() => {
                    let (_, _, new): (String, String, String) =
                        owner?.ok()?.body().deserialize().ok()?;
                    self.behind = !new.is_empty();
                }
            }
        }
    }

    /// Asks for what was signalled while nobody listened. A daemon that is not there will be heard
    /// when it comes; asking must not start it.
    async fn catch_up(&mut self, last: Option<&str>) {
        let Some(last) = last else { return };
        match self.daemon().missed(last).await {
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
pub struct Daemon(Connection);

impl Daemon {
    /// The whole event with this id.
    pub async fn event(&self, id: &str) -> anyhow::Result<Value> {
        let json: String = self.ask("GetEvent", id).await?;
        Ok(serde_json::from_str(&json)?)
    }

    /// Approves what the event with this id found changed, and names the tool. polkit may ask the
    /// person for a password, which takes as long as it takes.
    pub async fn approve(&self, id: &str) -> anyhow::Result<String> {
        let event = self.event(id).await?;
        let field = |key: &str| {
            let text = event.get(key).and_then(Value::as_str);
            text.with_context(|| format!("the event has no {key}"))
        };
        let (server, tool, hash) = (field("server_id")?, field("tool_name")?, field("new_hash")?);
        let flags = MethodFlags::NO_AUTO_START | MethodFlags::ALLOW_INTERACTIVE_AUTH;
        let arguments = (server, tool, hash);
        self.proxy()
            .await?
            .call_with_flags::<_, _, ()>("Approve", flags, &arguments)
            .await?;
        Ok(tool.to_owned())
    }

    async fn missed(&self, last: &str) -> anyhow::Result<Vec<Arguments>> {
        self.ask("ListSignals", last).await
    }

    /// Asks without starting a daemon that is not there.
    async fn ask<R>(&self, method: &str, argument: &str) -> anyhow::Result<R>
    where
        R: for<'d> zbus::wire::DynamicDeserialize<'d>,
    {
        let proxy = self.proxy().await?;
        let call = proxy.call_with_flags(method, MethodFlags::NO_AUTO_START, &argument);
        let reply = timeout(PATIENCE, call)
            .await
            .context("the daemon does not answer")??;
        reply.context("the daemon's answer is empty")
    }

    async fn proxy(&self) -> zbus::Result<Proxy<'static>> {
        proxy::Builder::new(&self.0)
            .destination(NAME)
            .path(PATH)
            .interface(INTERFACE)
            .cache_properties(CacheProperties::No)
            .build()
            .await
    }
}
