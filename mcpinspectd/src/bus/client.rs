//! Asking the daemon over the bus: for the command line and the desktop agent.

use std::time::Duration;

use tokio::time::timeout;
use zbus::proxy::{self, CacheProperties, MethodFlags};
use zbus::wire::DynamicDeserialize;
use zbus::{Connection, DynamicType, Proxy};

use super::manager::{INTERFACE, NAME, PATH};

/// How long the bus and a daemon that need nobody's leave may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no system bus.
    #[error("there is no system bus to reach mcpinspectd by: {0}")]
    NoBus(String),
    /// Nobody has the daemon's name.
    #[error("mcpinspectd is not running; start it with `sudo systemctl start mcpinspectd`")]
    NotRunning,
    /// The daemon or polkit says no.
    #[error("not permitted: {0}")]
    Denied(String),
    /// The daemon answers with something else than was asked for.
    #[error("{0}")]
    Refused(String),
    /// The daemon does not answer.
    #[error("mcpinspectd does not answer")]
    Silent,
}

impl From<zbus::Error> for ClientError {
    fn from(error: zbus::Error) -> Self {
        match error {
            zbus::Error::MethodError(name, text, _) => {
                let text = text.unwrap_or_else(|| name.to_string());
                match name.as_str() {
                    "org.freedesktop.DBus.Error.ServiceUnknown"
                    | "org.freedesktop.DBus.Error.NameHasNoOwner" => Self::NotRunning,
                    "org.freedesktop.DBus.Error.AccessDenied" => Self::Denied(text),
                    _ => Self::Refused(text),
                }
            }
            zbus::Error::FDO(error) => match *error {
                zbus::fdo::Error::ServiceUnknown(_) | zbus::fdo::Error::NameHasNoOwner(_) => {
                    Self::NotRunning
                }
                zbus::fdo::Error::AccessDenied(text) => Self::Denied(text),
                other => Self::Refused(other.to_string()),
            },
            other => Self::Refused(other.to_string()),
        }
    }
}

/// The daemon, to be asked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client(Connection);

impl Client {
    /// Connects to the system bus.
    ///
    /// # Errors
    /// There is none.
    pub async fn connect() -> Result<Self, ClientError> {
        match timeout(PATIENCE, Connection::system()).await {
            Ok(Ok(connection)) => Ok(Self(connection)),
            Ok(Err(error)) => Err(ClientError::NoBus(error.to_string())),
            Err(_) => Err(ClientError::NoBus("it does not answer".to_owned())),
        }
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.0
    }

    /// Asks for something that needs nobody's leave. Does not start a daemon that is not there.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn ask<B, R>(&self, method: &str, arguments: &B) -> Result<R, ClientError>
    where
        B: serde::Serialize + DynamicType,
        R: for<'d> DynamicDeserialize<'d>,
    {
        let call = self.call(method, MethodFlags::NO_AUTO_START, arguments);
        timeout(PATIENCE, call)
            .await
            .map_err(|_| ClientError::Silent)?
    }

    /// Has something done. polkit may ask the person for a password, which takes as long as it
    /// takes.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn order<B, R>(&self, method: &str, arguments: &B) -> Result<R, ClientError>
    where
        B: serde::Serialize + DynamicType,
        R: for<'d> DynamicDeserialize<'d>,
    {
        let flags = MethodFlags::NO_AUTO_START | MethodFlags::ALLOW_INTERACTIVE_AUTH;
        self.call(method, flags, arguments).await
    }

    /// One of the daemon's properties.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn property<T>(&self, name: &str) -> Result<T, ClientError>
    where
        T: serde::de::DeserializeOwned + zbus::wire::Type,
    {
        let read = async { self.proxy().await?.get_property(name).await };
        Ok(timeout(PATIENCE, read)
            .await
            .map_err(|_| ClientError::Silent)??)
    }

    async fn call<B, R>(
        &self,
        method: &str,
        flags: MethodFlags,
        arguments: &B,
    ) -> Result<R, ClientError>
    where
        B: serde::Serialize + DynamicType,
        R: for<'d> DynamicDeserialize<'d>,
    {
        let reply = self
            .proxy()
            .await?
            .call_with_flags(method, flags, arguments)
            .await?;
        reply.ok_or(ClientError::Silent)
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
