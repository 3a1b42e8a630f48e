//! How the live picture crosses the bus.

use mcpinspect_bus::rows::{ServerRow, SessionRow, ToolRow};

use crate::status::live;

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
