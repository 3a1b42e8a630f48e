//! The daemon on the system bus: its signals, and calls to it.

use std::collections::{HashSet, VecDeque};

use mcpinspect_bus::client;
use mcpinspect_bus::client::{ClientError, ManagerProxy, answer};
use mcpinspect_bus::peer::{Peer, PeerEvent};
use mcpinspect_bus::rows::SignalRow;
use mcpinspect_bus::{INTERFACE, NAME};
use serde_json::Value;

use crate::evidence::Definition;

/// An event of the daemon.
#[derive(Debug)]
pub enum DaemonEvent {
    /// It signalled an event.
    Signal(SignalRow),
    /// It was started or restarted.
    Appeared,
}

/// A subscription to the daemon's signals.
#[derive(Debug)]
pub struct DaemonSignals {
    manager: ManagerProxy<'static>,
    peer: Peer,
    /// The daemon may have sent signals that were missed.
    behind: bool,
    /// Missed signals, still to be returned.
    missed: VecDeque<SignalRow>,
    /// Ids in `missed` whose signals may arrive as well.
    duplicates: HashSet<String>,
}

impl DaemonSignals {
    /// Connects to the system bus.
    pub async fn connect() -> anyhow::Result<Self> {
        let manager = client::connect().await?;
        let connection = manager.inner().connection().clone();
        Ok(Self {
            peer: Peer::join(connection, NAME, INTERFACE, Some("Event")).await?,
            manager,
            behind: true,
            missed: VecDeque::new(),
            duplicates: HashSet::new(),
        })
    }

    /// Returns a handle for calls.
    pub fn daemon(&self) -> Daemon {
        Daemon(self.manager.clone())
    }

    /// Waits for the next event; returns `None` when the bus is gone. `last` is the id of the last
    /// event received; signals that were missed since then come first. Cancel-safe.
    pub async fn next(&mut self, last: Option<&str>) -> Option<DaemonEvent> {
        loop {
            if self.behind {
                self.catch_up(last).await;
                self.behind = false;
            }
            if let Some(missed) = self.missed.pop_front() {
                return Some(DaemonEvent::Signal(missed));
            }
            match self.peer.next().await? {
                PeerEvent::Appeared => {
                    self.behind = true;
                    return Some(DaemonEvent::Appeared);
                }
                PeerEvent::Vanished => self.behind = false,
                PeerEvent::Signal(signal) => {
                    let signal: Result<SignalRow, _> = signal.body().deserialize();
                    if let Ok(signal) = signal
                        && !self.duplicates.remove(&signal.event_id)
                    {
                        return Some(DaemonEvent::Signal(signal));
                    }
                }
            }
        }
    }

    /// Fetches signals that were sent before the subscription. A daemon that is not running is noticed
    /// when it appears; this call must not start it.
    async fn catch_up(&mut self, last: Option<&str>) {
        let Some(last) = last else { return };
        match answer(self.manager.list_signals(last)).await {
            Ok(missed) => {
                let ids = missed.iter().map(|signal| signal.event_id.clone());
                self.duplicates = ids.collect();
                self.missed = missed.into();
            }
            Err(error) => tracing::debug!("cannot fetch missed events: {error:#}"),
        }
    }
}

/// Calls to the daemon.
#[derive(Clone, Debug)]
pub struct Daemon(ManagerProxy<'static>);

impl Daemon {
    /// Fetches the whole event with this id.
    pub async fn event(&self, id: &str) -> anyhow::Result<Value> {
        let json = answer(self.0.get_event(id)).await?;
        Ok(serde_json::from_str(&json)?)
    }

    /// Approves a definition. polkit may ask the person for a password, so there is no time limit.
    pub async fn approve(&self, definition: &Definition) -> Result<(), ClientError> {
        let Definition {
            server, tool, hash, ..
        } = definition;
        Ok(self.0.approve(server, tool, hash).await?)
    }

    /// Freezes a server and returns the number of its processes. polkit may ask for a password.
    pub async fn freeze(&self, server: &str) -> Result<usize, ClientError> {
        let (processes, _, _) = self.0.freeze(server).await?;
        Ok(processes.len())
    }
}
