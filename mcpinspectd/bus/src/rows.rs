//! The rows in which servers, sessions, tools and events cross the bus, shared by the daemon and its
//! clients.

use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::Envelope;
use zbus::wire::{DeserializeDict, SerializeDict, Type};

/// A uid that nobody has: "not known".
pub const NO_UID: u32 = u32::MAX;

/// The daemon answers one question about the past at a time for each user; what the next one gets meanwhile.
pub const BUSY: &str = "another query of yours is still running; try again when it has finished";

/// A server.
#[derive(Debug, SerializeDict, DeserializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct ServerRow {
    /// Its stable name.
    pub server_id: String,
    /// The fingerprint of its launch.
    pub fingerprint: String,
    /// Open sessions.
    pub sessions: u32,
    /// Known tools.
    pub tools: u32,
    /// The user it runs as.
    pub uid: Option<u32>,
    /// When it was last heard of.
    pub last_seen: String,
    /// Whether it is being watched.
    pub monitored: bool,
    /// Whether its processes are frozen.
    pub frozen: bool,
}

/// An open session.
#[derive(Debug, SerializeDict, DeserializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct SessionRow {
    /// Its id.
    pub session_id: String,
    /// The server's stable name.
    pub server_id: String,
    /// When it started.
    pub started: String,
    /// The negotiated revision of MCP.
    pub protocol_version: Option<String>,
    /// The server's process.
    pub server_pid: Option<u32>,
    /// The server's executable.
    pub server_exe: Option<String>,
    /// The user that the server runs as.
    pub server_uid: Option<u32>,
    /// The systemd unit that the server belongs to.
    pub server_unit: Option<String>,
    /// The client's process.
    pub client_pid: Option<u32>,
    /// The client's executable.
    pub client_exe: Option<String>,
}

/// A tool.
#[derive(Debug, SerializeDict, DeserializeDict, Type)]
#[zbus(signature = "a{sv}")]
pub struct ToolRow {
    /// Its name.
    pub tool_name: String,
    /// How it compares with its pin.
    pub status: String,
    /// The hash of its current definition.
    pub tool_hash: String,
    /// The worst finding in it.
    pub max_severity: Option<String>,
    /// When it was last listed.
    pub last_seen: String,
}

/// What a containment reached: processes, control groups frozen as a whole, and what it missed.
pub type ContainedRow = (Vec<u32>, Vec<String>, Vec<String>);

/// An Event signal's arguments.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, Type)]
pub struct SignalRow {
    /// The event's type, such as `mcp_tool_changed`.
    pub kind: String,
    /// Its id.
    pub event_id: String,
    /// Its severity; empty for an ordinary event.
    pub severity: String,
    /// The server's name.
    pub server: String,
    /// The user that the server runs as; [`NO_UID`] if unknown.
    pub uid: u32,
    /// One sentence, made of names only.
    pub title: String,
}

impl From<&Envelope> for SignalRow {
    fn from(record: &Envelope) -> Self {
        let server = record.server.as_ref().map_or("", |server| &server.0);
        let severity = record.severity.map_or("", |severity| severity.as_str());
        Self {
            kind: record.kind.name().to_owned(),
            event_id: record.id.to_string(),
            severity: severity.to_owned(),
            // The title's names were escaped when it was rendered; this one stands alone.
            server: printable(server, 128),
            uid: record.uid.unwrap_or(NO_UID),
            title: record.title.clone(),
        }
    }
}
