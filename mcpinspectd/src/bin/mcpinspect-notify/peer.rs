//! A service on a bus: its signals, its coming and its going.

use std::time::Duration;

use anyhow::Context as _;
use futures_util::StreamExt as _;
use tokio::time::timeout;
use zbus::{Connection, MatchRule, MessageStream, message};

/// How long a bus may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module's text.
#[derive(Debug)]
pub struct Peer {
    connection: Connection,
    signals: MessageStream,
    owners: MessageStream,
}

/// What is heard of it.
#[derive(Debug)]
pub enum Heard {
    /// It says something.
    Signal(message::Message),
    /// Somebody has its name from now on: it came, or was restarted.
    Came,
    /// Nobody has its name any more.
    Went,
}

impl Peer {
    /// Listens to the signals of `service` (of one name, where `member` gives it) and to who has its
    /// name. A service that is not there will be heard when it comes.
    pub async fn join(
        connection: Connection,
        service: &'static str,
        interface: &'static str,
        member: Option<&'static str>,
    ) -> anyhow::Result<Self> {
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
            anyhow::Ok((signals, owners))
        };
        let (signals, owners) = timeout(PATIENCE, joined)
            .await
            .context("the bus does not answer")??;
        Ok(Self {
            connection,
            signals,
            owners,
        })
    }

    /// The connection to the bus.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What is heard next; `None` when the bus has gone. Nothing is lost where this is cancelled.
    pub async fn next(&mut self) -> Option<Heard> {
        tokio::select! {
            () = self.connection.closed() => None,
            signal = self.signals.next() => Some(Heard::Signal(signal?.ok()?)),
            owner = self.owners.next() => {
                let (_, _, new): (String, String, String) =
                    owner?.ok()?.body().deserialize().ok()?;
                Some(if new.is_empty() { Heard::Went } else { Heard::Came })
            }
        }
    }
}
