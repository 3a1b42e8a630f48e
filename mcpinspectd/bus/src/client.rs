//! The client's side of the bus, for the command line and the desktop agent.
//!
//! `#[zbus::proxy]` generates [`ManagerProxy`], whose typed calls return the very rows that the daemon
//! sends. No method call starts a daemon that is not running: whether it runs is the administrator's
//! decision, not the effect of a question.

use std::time::Duration;

use tokio::time::timeout;
use zbus::Connection;
use zbus::proxy::CacheProperties;

use super::rows::{ContainedRow, ServerRow, SessionRow, SignalRow};

/// Time limit for the bus, and for calls that wait for nobody's password.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The daemon's main object.
#[zbus::proxy(
    interface = "org.mcpinspect1.Manager",
    default_service = "org.mcpinspect1",
    default_path = "/org/mcpinspect1"
)]
pub trait Manager {
    /// The daemon's version.
    #[zbus(property(emits_changed_signal = "false"))]
    fn version(&self) -> zbus::Result<String>;

    /// `watching` or `paused`.
    #[zbus(property(emits_changed_signal = "false"))]
    fn capture_state(&self) -> zbus::Result<String>;

    /// Bytes written to watched streams, bytes captured, bytes lost.
    #[zbus(property(emits_changed_signal = "false"))]
    fn ledger(&self) -> zbus::Result<(u64, u64, u64)>;

    /// Servers that are not being watched at present.
    #[zbus(property(emits_changed_signal = "false"))]
    fn paused_servers(&self) -> zbus::Result<Vec<String>>;

    /// The event with this id, as JSON.
    #[zbus(no_autostart)]
    fn get_event(&self, event_id: &str) -> zbus::Result<String>;

    /// At most `limit` events after the one named, as JSON, oldest first.
    #[zbus(no_autostart)]
    fn list_events(&self, after_event_id: &str, limit: u32) -> zbus::Result<Vec<String>>;

    /// The Event signals after the one named, oldest first.
    #[zbus(no_autostart)]
    fn list_signals(&self, after_event_id: &str) -> zbus::Result<Vec<SignalRow>>;

    /// The rows that answer a question about recorded messages, as JSON.
    #[zbus(no_autostart)]
    fn recall(&self, question: &str) -> zbus::Result<Vec<String>>;

    /// The answer to a statement, as JSON.
    #[zbus(no_autostart)]
    fn query(&self, sql: &str) -> zbus::Result<String>;

    /// The servers that the caller may know of.
    #[zbus(no_autostart)]
    fn list_servers(&self) -> zbus::Result<Vec<ServerRow>>;

    /// The open sessions that the caller may know of.
    #[zbus(no_autostart)]
    fn list_sessions(&self) -> zbus::Result<Vec<SessionRow>>;

    /// How tools of the caller's own server relate to what was accepted of them, in words.
    #[zbus(no_autostart)]
    fn check_tools(&self, server_id: &str, tools: &[(String, String)])
    -> zbus::Result<Vec<String>>;

    /// Pins a tool's current definition.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn approve(&self, server_id: &str, tool_name: &str, tool_hash: &str) -> zbus::Result<()>;

    /// Reads the configuration and the rules again.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn reload(&self) -> zbus::Result<()>;

    /// Pauses or resumes watching a server, or all of them for an empty name.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn set_monitoring(&self, server_id: &str, enabled: bool) -> zbus::Result<()>;

    /// Stops all processes of a server.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn freeze(&self, server_id: &str) -> zbus::Result<ContainedRow>;

    /// Lets a frozen server run again.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn thaw(&self, server_id: &str) -> zbus::Result<ContainedRow>;

    /// Ends all processes of a server.
    #[zbus(no_autostart, allow_interactive_auth)]
    fn kill(&self, server_id: &str) -> zbus::Result<ContainedRow>;

    /// An event, in names only.
    #[zbus(signal)]
    fn event(
        &self,
        event_type: &str,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// There is no system bus.
    #[error("cannot reach mcpinspectd: no system bus ({0})")]
    NoBus(String),
    /// The daemon's name has no owner.
    #[error("mcpinspectd is not running; start it with `sudo systemctl start mcpinspectd`")]
    NotRunning,
    /// The daemon or polkit refused permission.
    #[error("not permitted: {0}")]
    Denied(String),
    /// The daemon answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The daemon did not answer in time.
    #[error("mcpinspectd did not answer in time")]
    Timeout,
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

/// Connects to the daemon on the system bus. Succeeds also when no daemon is running yet.
///
/// # Errors
/// [`ClientError::NoBus`] if there is no system bus.
pub async fn connect() -> Result<ManagerProxy<'static>, ClientError> {
    let connected = async {
        let connection = Connection::system().await?;
        ManagerProxy::builder(&connection)
            .cache_properties(CacheProperties::No)
            .build()
            .await
    };
    match timeout(TIMEOUT, connected).await {
        Ok(Ok(manager)) => Ok(manager),
        Ok(Err(error)) => Err(ClientError::NoBus(error.to_string())),
        Err(_) => Err(ClientError::NoBus("no answer in time".to_owned())),
    }
}

/// Waits for the answer to a question, but not for ever. Calls for which polkit may ask a person
/// for a password go without this limit.
///
/// # Errors
/// See [`ClientError`].
pub async fn answer<T>(call: impl Future<Output = zbus::Result<T>>) -> Result<T, ClientError> {
    let answered = timeout(TIMEOUT, call).await;
    Ok(answered.map_err(|_| ClientError::Timeout)??)
}
