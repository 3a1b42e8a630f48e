//! A service on a bus: its signals, and whether it is there.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::timeout;
use zbus::{Connection, MatchRule, MessageStream, message};

/// Time limit for joining a bus.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why there is no line to a service.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nothing came back in time.
    #[error("{0} did not answer in time")]
    Timeout(&'static str),
    /// The bus or the service says no.
    #[error(transparent)]
    Bus(#[from] zbus::Error),
}

/// A service whose signals and owner changes are received over one connection.
#[derive(Debug)]
pub struct Peer {
    connection: Connection,
    signals: MessageStream,
    owners: MessageStream,
}

/// An event of such a service.
#[derive(Debug)]
pub enum PeerEvent {
    /// It sent a signal.
    Signal(message::Message),
    /// Its name has a new owner: it was started or restarted.
    Appeared,
    /// Its name has no owner any more.
    Vanished,
}

impl Peer {
    /// Subscribes to the signals of `service` (only those named `member`, if given) and to changes of
    /// its owner. A service that is not running yet is noticed when it appears.
    ///
    /// # Errors
    /// The bus does not answer.
    pub async fn join(
        connection: Connection,
        service: &'static str,
        interface: &'static str,
        member: Option<&'static str>,
    ) -> Result<Self, PeerError> {
        let mut signals = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender(service)
            .interface(interface);
        if let Some(member) = member {
            signals = signals.member(member);
        }
        let owners = MatchRule::builder()
            .msg_type(message::Type::Signal)
            .sender("org.freedesktop.DBus")
            .interface("org.freedesktop.DBus")
            .member("NameOwnerChanged")
            .arg(0, service)
            .build()?;
        let joined = async {
            let signals =
                MessageStream::for_match_rule(signals.build()?, &connection, None).await?;
            let owners = MessageStream::for_match_rule(owners, &connection, None).await?;
            Ok::<_, zbus::Error>((signals, owners))
        };
        let (signals, owners) = timeout(TIMEOUT, joined)
            .await
            .map_err(|_| PeerError::Timeout("the bus"))??;
        Ok(Self {
            connection,
            signals,
            owners,
        })
    }

    /// Returns the connection to the bus.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Waits for the next event; returns `None` when the bus is gone. Cancel-safe.
    pub async fn next(&mut self) -> Option<PeerEvent> {
        tokio::select! {
            () = self.connection.closed() => None,
            signal = self.signals.next() => Some(PeerEvent::Signal(signal?.ok()?)),
            owner = self.owners.next() => {
                let (_, _, new): (String, String, String) =
                    owner?.ok()?.body().deserialize().ok()?;
                Some(if new.is_empty() { PeerEvent::Vanished } else { PeerEvent::Appeared })
            }
        }
    }
}
