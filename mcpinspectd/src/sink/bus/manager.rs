//! The object on the bus: signals for everyone, evidence for those who may read it.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use zbus::fdo;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::wire::{SerializeDict, Type};
use zbus::{Connection, interface};

use super::access::Access;
use super::control::{Control, ControlError, Decision, Status};
use super::polkit;
use crate::sink::fanout::View;
use crate::sink::kind::EventKind;
use crate::sink::live::{self, Presence};
use crate::sink::record::Record;
use crate::sink::wording::status_word;
use crate::text::escape::printable;

/// The name on the bus.
pub const NAME: &str = "org.mcpinspect1";
/// The object's path.
pub const PATH: &str = "/org/mcpinspect1";
/// The object's interface.
pub const INTERFACE: &str = "org.mcpinspect1.Manager";

/// A uid that nobody has: "not known".
const NO_UID: u32 = u32::MAX;
/// Most events of one answer.
const MAX_LISTED: u32 = 1000;
/// Most bytes of events of one answer.
const MAX_LISTED_BYTES: usize = 8 << 20;

/// A server, as told on the bus.
#[derive(Debug, SerializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct ServerRow {
    server_id: String,
    fingerprint: String,
    sessions: u32,
    tools: u32,
    uid: Option<u32>,
    last_seen: String,
}

/// A session under way, as told on the bus.
#[derive(Debug, SerializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct SessionRow {
    session_id: String,
    server_id: String,
    started: String,
    protocol_version: Option<String>,
    server_pid: Option<u32>,
    server_exe: Option<String>,
    server_uid: Option<u32>,
    server_unit: Option<String>,
    client_pid: Option<u32>,
    client_exe: Option<String>,
}

/// A tool, as told on the bus.
#[derive(Debug, SerializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct ToolRow {
    tool_name: String,
    status: String,
    tool_hash: String,
    max_severity: Option<String>,
    last_seen: String,
}

/// An Event signal's arguments: type, id, severity, server, uid, title.
#[derive(Debug, serde::Serialize, Type)]
pub struct SignalRow(String, String, String, String, u32, String);

impl From<&Record> for SignalRow {
    fn from(record: &Record) -> Self {
        let server = record.server.as_ref().map_or("", |server| &server.0);
        Self(
            record.kind.name().to_owned(),
            record.id.to_string(),
            record
                .severity
                .map_or("", |severity| severity.as_str())
                .to_owned(),
            // Names in the title are escaped by its wording; this one stands alone.
            printable(server, 128),
            record.uid.unwrap_or(NO_UID),
            record.title.clone(),
        )
    }
}

/// The object.
#[derive(Clone)]
pub struct Manager {
    view: Arc<View>,
    control: Option<Arc<dyn Control>>,
}

impl Manager {
    /// Answers from `view`, and hands decisions to `control`.
    pub fn new(view: Arc<View>, control: Option<Arc<dyn Control>>) -> Self {
        Self { view, control }
    }

    async fn decide(
        &self,
        connection: &Connection,
        header: &Header<'_>,
        decision: Decision,
    ) -> fdo::Result<()> {
        let uid = Access::of_sender(connection, header).await?.uid();
        polkit::authorise(connection, header, uid, polkit::MANAGE).await?;
        let control = self.control()?;
        blocking(move || control.decide(decision, uid))
            .await?
            .map_err(|error| match error {
                ControlError::Unknown(_) | ControlError::Stale(_) => {
                    fdo::Error::InvalidArgs(error.to_string())
                }
                ControlError::Failed(_) => fdo::Error::Failed(error.to_string()),
            })
    }

    async fn status(&self) -> fdo::Result<Status> {
        let control = self.control()?;
        blocking(move || control.status()).await
    }

    fn control(&self) -> fdo::Result<Arc<dyn Control>> {
        self.control.clone().ok_or_else(|| {
            fdo::Error::NotSupported("this run of the daemon takes no decisions".to_owned())
        })
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> fdo::Result<T> {
    spawn_blocking(work)
        .await
        .map_err(|error| fdo::Error::Failed(error.to_string()))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl From<live::Server> for ServerRow {
    fn from(server: live::Server) -> Self {
        Self {
            server_id: server.server_id.to_string(),
            fingerprint: server.fingerprint,
            sessions: count(server.sessions),
            tools: count(server.tools),
            uid: server.uid,
            last_seen: server.last_seen.to_string(),
        }
    }
}

impl From<&live::Session> for SessionRow {
    fn from(session: &live::Session) -> Self {
        let (server, client) = (session.server.as_ref(), session.client.as_ref());
        Self {
            session_id: session.session_id.to_string(),
            server_id: session.server_id.to_string(),
            started: session.started.to_string(),
            protocol_version: session.protocol_version.clone(),
            server_pid: server.map(|process| process.pid.0),
            server_exe: server.map(|process| process.exe.clone()),
            server_uid: server.map(|process| process.uid),
            server_unit: server.and_then(|process| process.unit.clone()),
            client_pid: client.map(|process| process.pid.0),
            client_exe: client.map(|process| process.exe.clone()),
        }
    }
}

impl From<&live::Tool> for ToolRow {
    fn from(tool: &live::Tool) -> Self {
        Self {
            tool_name: tool.tool_name.clone(),
            status: status_word(tool.status).to_owned(),
            tool_hash: tool.tool_hash.clone(),
            max_severity: tool
                .max_severity
                .map(|severity| severity.as_str().to_owned()),
            last_seen: tool.last_seen.to_string(),
        }
    }
}

#[interface(name = "org.mcpinspect1.Manager")]
impl Manager {
    /// The daemon's version.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// How capture is doing, such as "watching".
    #[zbus(property(emits_changed_signal = "false"))]
    async fn capture_state(&self) -> fdo::Result<String> {
        Ok(self.status().await?.state)
    }

    /// The ledger: bytes written to watched streams, bytes captured, bytes known lost.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn ledger(&self) -> fdo::Result<(u64, u64, u64)> {
        let status = self.status().await?;
        Ok((
            status.bytes_written,
            status.bytes_captured,
            status.bytes_lost,
        ))
    }

    /// The event with this id as JSON, while it is among the latest few thousand. For root, the
    /// group mcpinspect and the user that the server runs as.
    #[zbus(out_args("json"))]
    async fn get_event(
        &self,
        event_id: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<String> {
        let access = Access::of_sender(connection, &header).await?;
        let record = self.view.history().get(event_id);
        match (record, access) {
            (Some(record), _) if access.covers(record.uid) => Ok(record.json.clone()),
            (None, Access::All { .. }) => Err(fdo::Error::InvalidArgs(
                "no event of this id is kept".to_owned(),
            )),
            // Also for an id that does not exist: the difference is not for strangers.
            _ => Err(fdo::Error::AccessDenied(
                "events are for root, the group mcpinspect and the server's own user".to_owned(),
            )),
        }
    }

    /// The latest events after the one named (all that are kept, for an empty id) as JSON, oldest
    /// first, at most limit (0: as many as an answer takes).
    #[zbus(out_args("events"))]
    async fn list_events(
        &self,
        after_event_id: &str,
        limit: u32,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        let access = Access::of_sender(connection, &header).await?;
        let limit = if limit == 0 {
            MAX_LISTED
        } else {
            limit.min(MAX_LISTED)
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let records = self
            .view
            .history()
            .after(after_event_id, limit, |record| access.covers(record.uid));
        let mut room = MAX_LISTED_BYTES;
        let newest_that_fit = records.iter().rev().take_while(|record| {
            let fits = record.json.len() <= room;
            room = room.saturating_sub(record.json.len());
            fits
        });
        let mut events: Vec<_> = newest_that_fit.map(|record| record.json.clone()).collect();
        events.reverse();
        Ok(events)
    }

    /// The Event signals after the one named (all that are kept, for an empty id), oldest first: for
    /// those who were not there to hear them.
    #[zbus(out_args("signals"))]
    fn list_signals(&self, after_event_id: &str) -> Vec<SignalRow> {
        let most = usize::try_from(MAX_LISTED).unwrap_or(usize::MAX);
        let records = self.view.history().after(after_event_id, most, |_| true);
        records
            .iter()
            .map(|record| SignalRow::from(&**record))
            .collect()
    }

    /// The servers that the caller may know of.
    #[zbus(out_args("servers"))]
    async fn list_servers(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<ServerRow>> {
        let access = Access::of_sender(connection, &header).await?;
        let live = self.view.live();
        Ok(live
            .servers()
            .filter(|server| access.covers(server.uid))
            .map(ServerRow::from)
            .collect())
    }

    /// The sessions under way that the caller may know of.
    #[zbus(out_args("sessions"))]
    async fn list_sessions(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<SessionRow>> {
        let access = Access::of_sender(connection, &header).await?;
        let live = self.view.live();
        let mut sessions = live.sessions();
        sessions
            .retain(|session| access.covers(session.server.as_ref().map(|process| process.uid)));
        Ok(sessions.into_iter().map(SessionRow::from).collect())
    }

    /// The tools of a server that the caller may know of.
    #[zbus(out_args("tools"))]
    async fn list_tools(
        &self,
        server_id: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<ToolRow>> {
        let access = Access::of_sender(connection, &header).await?;
        let live = self.view.live();
        match live.tools(server_id) {
            Some((uid, tools)) if access.covers(uid) => Ok(tools.map(ToolRow::from).collect()),
            _ => Err(fdo::Error::InvalidArgs(
                "no server of this name is known".to_owned(),
            )),
        }
    }

    /// Pins the tool's current definition, whose hash the caller has looked at.
    async fn approve(
        &self,
        server_id: String,
        tool_name: String,
        tool_hash: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        let decision = Decision::Approve {
            server: server_id,
            tool: tool_name,
            hash: tool_hash,
        };
        self.decide(connection, &header, decision).await
    }

    /// Refuses the tool's current definition: its pin stays.
    async fn reject(
        &self,
        server_id: String,
        tool_name: String,
        tool_hash: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        let decision = Decision::Reject {
            server: server_id,
            tool: tool_name,
            hash: tool_hash,
        };
        self.decide(connection, &header, decision).await
    }

    /// Silences a rule for a server's tool (all of its tools, for an empty name) for some days.
    #[expect(
        clippy::too_many_arguments,
        reason = "a D-Bus method's arguments are flat"
    )]
    async fn suppress(
        &self,
        server_id: String,
        tool_name: String,
        rule: String,
        reason: String,
        days: u32,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        if days == 0 {
            return Err(fdo::Error::InvalidArgs(
                "a suppression lasts at least one day".to_owned(),
            ));
        }
        let decision = Decision::Suppress {
            server: server_id,
            tool: tool_name,
            rule,
            reason,
            days,
        };
        self.decide(connection, &header, decision).await
    }

    /// Watches a server, or looks away.
    async fn set_monitoring(
        &self,
        server_id: String,
        enabled: bool,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        let decision = Decision::SetMonitoring {
            server: server_id,
            enabled,
        };
        self.decide(connection, &header, decision).await
    }

    /// Reads configuration and rules again.
    async fn reload(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        self.decide(connection, &header, Decision::Reload).await
    }

    /// Any event. The severity is empty for the ordinary course of things, the uid 4294967295
    /// where it is not known whom the server runs as. Evidence is fetched with GetEvent.
    #[zbus(signal)]
    async fn event(
        emitter: &SignalEmitter<'_>,
        event_type: &str,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// A tool was listed that is new, or in which detection found something.
    #[zbus(signal)]
    async fn tool_seen(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// A tool is not what was pinned, or is gone.
    #[zbus(signal)]
    async fn tool_changed(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Detection found something.
    #[zbus(signal)]
    async fn detection(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Bytes of a stream were lost.
    #[zbus(signal)]
    async fn capture_gap(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// A server has its first session of now.
    #[zbus(signal)]
    async fn server_appeared(
        emitter: &SignalEmitter<'_>,
        server_id: &str,
        uid: u32,
    ) -> zbus::Result<()>;

    /// The last session with a server is over.
    #[zbus(signal)]
    async fn server_vanished(
        emitter: &SignalEmitter<'_>,
        server_id: &str,
        uid: u32,
    ) -> zbus::Result<()>;
}

/// Sends the signals of one record.
pub async fn emit(emitter: &SignalEmitter<'_>, record: &Record) -> zbus::Result<()> {
    let SignalRow(kind, id, severity, server, uid, title) = &SignalRow::from(record);
    let uid = *uid;
    Manager::event(emitter, kind, id, severity, server, uid, title).await?;
    match record.kind {
        EventKind::ToolSeen if record.is_news() => {
            Manager::tool_seen(emitter, id, severity, server, uid, title).await?;
        }
        EventKind::ToolChanged => {
            Manager::tool_changed(emitter, id, severity, server, uid, title).await?;
        }
        EventKind::Detection => {
            Manager::detection(emitter, id, severity, server, uid, title).await?
        }
        EventKind::CaptureGap => {
            Manager::capture_gap(emitter, id, severity, server, uid, title).await?;
        }
        _ => {}
    }
    match record.presence {
        Some(Presence::Appeared) => Manager::server_appeared(emitter, server, uid).await,
        Some(Presence::Vanished) => Manager::server_vanished(emitter, server, uid).await,
        None => Ok(()),
    }
}
