//! The system bus: events as signals, and an object to ask.
//!
//! Signals reach every user of the machine. They carry an id, a severity, the server's name and
//! owner, and a title made of names; contents are fetched by id, by those who may read them
//! ([`access`]). The bus is a guest: it may come later than the daemon, go away, or never be there.
//! Events that find no bus are counted, and stay in the history that the object answers from.

pub mod access;
pub mod manager;
mod objects;
pub mod polkit;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use mcpinspect_bus::{NAME, PATH};
use mcpinspect_runtime::backoff::Backoff;
use tokio::time::{Instant, sleep_until, timeout};
use zbus::connection::Builder;
use zbus::fdo::ObjectManager;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, ObjectPath};

use self::manager::Manager;
use self::objects::Objects;
use crate::control::Control;
use crate::sink::queue::{Item, QueueReceiver};
use crate::status::View;

/// Which bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Endpoint {
    /// The machine's: at `DBUS_SYSTEM_BUS_ADDRESS` where that is set, else at its well-known place.
    #[default]
    System,
    /// The one at this D-Bus address.
    At(String),
}

/// A bus that takes longer than this to say hello is as good as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries events to the bus until the fan-out closes. `control` is asked to carry out decisions;
/// without it they are refused.
pub async fn run(
    endpoint: Endpoint,
    mut receiver: QueueReceiver,
    view: Arc<View>,
    control: Option<Arc<dyn Control>>,
) {
    let manager = Manager::new(Arc::clone(&view), control);
    let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
    let mut told = false;
    loop {
        match connect(&endpoint, manager.clone()).await {
            Ok(connection) => {
                tracing::info!("on the system bus as {NAME}");
                backoff.reset();
                told = false;
                let end = carry(&connection, &mut receiver, &view).await;
                // Lets what was sent last leave the process.
                let _ = timeout(Duration::from_secs(1), connection.close()).await;
                if end == End::Finished {
                    return;
                }
                tracing::warn!("lost the connection to the system bus; reconnecting");
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!("not on the system bus: {error}; trying again in the background");
            }
            Err(error) => tracing::debug!("still not on the system bus: {error}"),
        }
        if skip(&mut receiver, Instant::now() + backoff.wait()).await == End::Finished {
            return;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The fan-out is closed and everything was taken.
    Finished,
    /// Time to try the bus (again).
    Disconnected,
}

#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("the bus did not answer in time")]
    Timeout,
    #[error("the name {NAME} is taken: another instance is running")]
    NameTaken,
    #[error(
        "not permitted to own {NAME} on the bus: install {NAME}.conf in /usr/share/dbus-1/system.d ({0})"
    )]
    NotAllowed(String),
    #[error("{0}")]
    Other(zbus::Error),
}

async fn connect(endpoint: &Endpoint, manager: Manager) -> Result<Connection, ConnectError> {
    let builder = match endpoint {
        Endpoint::System => Builder::system(),
        Endpoint::At(address) => Builder::address(address.as_str()),
    };
    let builder = builder
        .serve_at(PATH, manager)
        .serve_at(PATH, ObjectManager)
        .name(NAME);
    let result = timeout(PATIENCE, builder.build())
        .await
        .map_err(|_| ConnectError::Timeout)?;
    result.map_err(|error| match &error {
        zbus::Error::NameTaken => ConnectError::NameTaken,
        zbus::Error::MethodError(name, text, _)
            if name.as_str() == "org.freedesktop.DBus.Error.AccessDenied" =>
        {
            ConnectError::NotAllowed(text.clone().unwrap_or_default())
        }
        zbus::Error::FDO(fdo) => match &**fdo {
            zbus::fdo::Error::AccessDenied(text) => ConnectError::NotAllowed(text.clone()),
            _ => ConnectError::Other(error),
        },
        _ => ConnectError::Other(error),
    })
}

/// Sends signals while the connection lasts.
async fn carry(connection: &Connection, receiver: &mut QueueReceiver, view: &View) -> End {
    let emitter = SignalEmitter::from_parts(
        connection.clone(),
        ObjectPath::from_static_str_unchecked(PATH),
    );
    let mut objects = Objects::new();
    loop {
        let item = tokio::select! {
            biased;
            () = connection.closed() => return End::Disconnected,
            item = receiver.recv() => item,
            // Signals first; objects when there is nothing else to tell.
            () = std::future::ready(()), if objects.is_behind() => {
                if let Err(error) = objects.follow(connection, view).await {
                    tracing::warn!(%error, "cannot update the objects on the bus");
                }
                continue;
            }
        };
        let record = match item {
            None => return End::Finished,
            Some(Item::Reopen) => continue,
            Some(Item::Event(record)) => record,
        };
        objects.note(&record);
        match manager::emit(&emitter, &record).await {
            Ok(()) => receiver.delivered(),
            Err(error) => {
                receiver.failed();
                tracing::warn!(event_id = %record.id, %error, "cannot send a signal for an event");
                if connection.is_closed() {
                    return End::Disconnected;
                }
            }
        }
    }
}

/// Discards events until `deadline`: no bus is there to carry them.
async fn skip(receiver: &mut QueueReceiver, deadline: Instant) -> End {
    loop {
        let item = tokio::select! {
            () = sleep_until(deadline) => return End::Disconnected,
            item = receiver.recv() => item,
        };
        match item {
            None => return End::Finished,
            Some(Item::Event(_)) => receiver.failed(),
            Some(Item::Reopen) => {}
        }
    }
}
