//! What the bus tells of servers, sessions, tools and events: one row each.

use zbus::wire::{SerializeDict, Type};

use super::manager::NO_UID;
use crate::event::Envelope;
use crate::status::live;
use crate::text::escape::printable;

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
    monitored: bool,
    frozen: bool,
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
pub struct SignalRow(
    pub String,
    pub String,
    pub String,
    pub String,
    pub u32,
    pub String,
);

impl From<&Envelope> for SignalRow {
    fn from(record: &Envelope) -> Self {
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

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl From<live::ServerSummary> for ServerRow {
    fn from(server: live::ServerSummary) -> Self {
        Self {
            server_id: server.server_id.to_string(),
            fingerprint: server.fingerprint,
            sessions: count(server.sessions),
            tools: count(server.tools),
            uid: server.uid,
            last_seen: server.last_seen.to_string(),
            monitored: server.monitored,
            frozen: server.frozen,
        }
    }
}

impl From<&live::SessionSummary> for SessionRow {
    fn from(session: &live::SessionSummary) -> Self {
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

impl From<&live::ToolSummary> for ToolRow {
    fn from(tool: &live::ToolSummary) -> Self {
        Self {
            tool_name: tool.tool_name.clone(),
            status: tool.status.as_str().to_owned(),
            tool_hash: tool.tool_hash.clone(),
            max_severity: tool
                .max_severity
                .map(|severity| severity.as_str().to_owned()),
            last_seen: tool.last_seen.to_string(),
        }
    }
}
