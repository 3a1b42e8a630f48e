//! An object on the bus for each server and tool, for those who browse rather than ask.
//!
//! What an object tells is what signals tell everyone: names, states and counts. Contents and
//! definitions are behind the manager's calls. Objects follow the picture in [`crate::status::live`]:
//! a burst of events is taken in as a whole, and only the differences are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mcpinspect_bus::PATH;
use mcpinspect_bus::rows::NO_UID;
use mcpinspect_core::model::EVERY_SERVER;
use mcpinspect_core::model::ServerId;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::Envelope;
use mcpinspect_engine::event::kind::EventKind;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, ObjectPath, interface};

use crate::status::View;
use crate::status::live::{ServerKey, ServerSummary, ToolSummary};

/// Tools that are objects at one time; what is above is in the manager's lists all the same. Servers
/// are as many as the picture has.
const TOOLS_MAX: usize = 1024;

/// A server as an object.
struct ServerObject(ServerSummary);

/// A server that mcpinspectd has seen since it started.
#[interface(name = "org.mcpinspect1.Server")]
impl ServerObject {
    /// The server's stable name, escaped and bounded.
    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> String {
        printable(&self.0.server_id.0, 128)
    }

    /// The id of the user that it runs as; 4294967295 if unknown.
    #[zbus(property)]
    fn uid(&self) -> u32 {
        self.0.uid.unwrap_or(NO_UID)
    }

    /// How many sessions are open.
    #[zbus(property)]
    fn sessions(&self) -> u32 {
        count(self.0.sessions)
    }

    /// How many of its tools are known.
    #[zbus(property)]
    fn tools(&self) -> u32 {
        count(self.0.tools)
    }

    /// Whether it is watched, that is, not paused.
    #[zbus(property)]
    fn monitored(&self) -> bool {
        self.0.monitored
    }

    /// Whether its processes are frozen.
    #[zbus(property)]
    fn frozen(&self) -> bool {
        self.0.frozen
    }
}

/// A tool as an object.
struct ToolObject(ToolSummary);

/// A tool that a server has listed since mcpinspectd started.
#[interface(name = "org.mcpinspect1.Tool")]
impl ToolObject {
    /// The tool's name, escaped and bounded.
    #[zbus(property(emits_changed_signal = "const"))]
    fn name(&self) -> String {
        self.0.tool_name.clone()
    }

    /// How it compares with its pin: new, unchanged, changed or removed.
    #[zbus(property)]
    fn status(&self) -> String {
        self.0.status.as_str().to_owned()
    }

    /// The severity of the worst finding in it; empty if there is none.
    #[zbus(property)]
    fn max_severity(&self) -> String {
        let severity = self.0.max_severity;
        severity.map_or("", |severity| severity.as_str()).to_owned()
    }
}

/// A server as it was published.
struct PublishedServer {
    /// The last element of its path.
    element: String,
    server: ServerSummary,
    tools: BTreeMap<String, ToolSummary>,
}

/// The objects of one connection.
#[derive(Default)]
pub struct Objects {
    published: BTreeMap<ServerKey, PublishedServer>,
    tools: usize,
    /// Servers about which something may have changed.
    stale: BTreeSet<ServerId>,
    all_stale: bool,
}

impl Objects {
    /// No objects yet; the first [`Self::follow`] makes them.
    pub fn new() -> Self {
        Self {
            all_stale: true,
            ..Self::default()
        }
    }

    /// Notes that something has happened.
    pub fn note(&mut self, record: &Envelope) {
        let matters = match record.kind {
            EventKind::ToolSeen
            | EventKind::ToolChanged
            | EventKind::SessionStarted
            | EventKind::SessionEnded
            | EventKind::Policy
            | EventKind::Contained => true,
            EventKind::ServerChanged
            | EventKind::Detection
            | EventKind::SessionIdentified
            | EventKind::CallHung
            | EventKind::ServerOrphaned
            | EventKind::CaptureGap
            | EventKind::BlindSpot
            | EventKind::InvalidMessage
            | EventKind::RuleMatched
            | EventKind::RegistryFull
            | EventKind::EventsDropped
            | EventKind::Store => false,
        };
        match &record.server {
            Some(server) if *server.0 == *EVERY_SERVER => self.all_stale = true,
            Some(server) if matters => {
                self.stale.insert(server.clone());
            }
            _ => {}
        }
    }

    /// Whether there is something to do.
    pub fn is_behind(&self) -> bool {
        self.all_stale || !self.stale.is_empty()
    }

    /// Makes, changes and removes objects until they are as the picture is.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn follow(&mut self, connection: &Connection, view: &View) -> zbus::Result<()> {
        let stale = std::mem::take(&mut self.stale);
        let (now, gone) = {
            let live = view.live();
            let wanted: BTreeSet<ServerId> = match std::mem::take(&mut self.all_stale) {
                true => live.servers().map(|server| server.server_id).collect(),
                false => stale,
            };
            let now: Vec<_> = wanted.iter().flat_map(|id| live.named(id)).collect();
            // Servers that made room for others.
            let known = self.published.keys();
            let gone: Vec<_> = known.filter(|key| !live.knows(key)).cloned().collect();
            (now, gone)
        };
        for key in gone {
            self.remove(connection, &key).await?;
        }
        for (server, tools) in now {
            self.server(connection, server, tools).await?;
        }
        Ok(())
    }

    async fn server(
        &mut self,
        connection: &Connection,
        server: ServerSummary,
        tools: Vec<ToolSummary>,
    ) -> zbus::Result<()> {
        let id = (server.server_id.clone(), server.uid);
        let element = self.element(&id);
        let path = server_path(&element);
        match self.published.get_mut(&id) {
            Some(published) => {
                let before = std::mem::replace(&mut published.server, server.clone());
                update_server(connection, path, &before, server).await?;
            }
            None => {
                let object = ServerObject(server.clone());
                connection.object_server().at(path, object).await?;
                let tools = BTreeMap::new();
                let published = PublishedServer {
                    element: element.clone(),
                    server,
                    tools,
                };
                self.published.insert(id.clone(), published);
            }
        }
        for tool in tools {
            let Some(published) = self.published.get_mut(&id) else {
                return Ok(());
            };
            let path = tool_path(&element, &tool.tool_name);
            match published.tools.get_mut(&tool.tool_name) {
                Some(before) => {
                    let before = std::mem::replace(before, tool.clone());
                    update_tool(connection, path, &before, tool).await?;
                }
                None if self.tools >= TOOLS_MAX => return Ok(()),
                None => {
                    let object = ToolObject(tool.clone());
                    connection.object_server().at(path, object).await?;
                    published.tools.insert(tool.tool_name.clone(), tool);
                    self.tools += 1;
                }
            }
        }
        Ok(())
    }

    /// The last element of a server's path: its name. Where another user's server has that path, the user's
    /// id follows.
    fn element(&self, key: &ServerKey) -> String {
        if let Some(published) = self.published.get(key) {
            return published.element.clone();
        }
        let (id, uid) = key;
        let plain = element(&id.0);
        if self
            .published
            .values()
            .all(|published| published.element != plain)
        {
            return plain;
        }
        element(&format!("{}@{}", id.0, uid.unwrap_or(NO_UID)))
    }

    async fn remove(&mut self, connection: &Connection, id: &ServerKey) -> zbus::Result<()> {
        let Some(published) = self.published.remove(id) else {
            return Ok(());
        };
        let objects = connection.object_server();
        for tool in published.tools.keys() {
            self.tools -= 1;
            let path = tool_path(&published.element, tool);
            objects.remove::<ToolObject, _>(path).await?;
        }
        let path = server_path(&published.element);
        objects.remove::<ServerObject, _>(path).await?;
        Ok(())
    }
}

async fn update_server(
    connection: &Connection,
    path: ObjectPath<'static>,
    before: &ServerSummary,
    now: ServerSummary,
) -> zbus::Result<()> {
    let reference = connection
        .object_server()
        .interface::<_, ServerObject>(path)
        .await?;
    let differs = [
        before.uid != now.uid,
        before.sessions != now.sessions,
        before.tools != now.tools,
        before.monitored != now.monitored,
        before.frozen != now.frozen,
    ];
    let mut object = reference.get_mut().await;
    object.0 = now;
    let to: &SignalEmitter<'_> = reference.signal_emitter();
    let [uid, sessions, tools, monitored, frozen] = differs;
    if uid {
        object.uid_changed(to).await?;
    }
    if sessions {
        object.sessions_changed(to).await?;
    }
    if tools {
        object.tools_changed(to).await?;
    }
    if monitored {
        object.monitored_changed(to).await?;
    }
    if frozen {
        object.frozen_changed(to).await?;
    }
    Ok(())
}

async fn update_tool(
    connection: &Connection,
    path: ObjectPath<'static>,
    before: &ToolSummary,
    now: ToolSummary,
) -> zbus::Result<()> {
    let status = before.status != now.status;
    let severity = before.max_severity != now.max_severity;
    if !status && !severity {
        return Ok(());
    }
    let reference = connection
        .object_server()
        .interface::<_, ToolObject>(path)
        .await?;
    let mut object = reference.get_mut().await;
    object.0 = now;
    let to: &SignalEmitter<'_> = reference.signal_emitter();
    if status {
        object.status_changed(to).await?;
    }
    if severity {
        object.max_severity_changed(to).await?;
    }
    Ok(())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn server_path(server: &str) -> ObjectPath<'static> {
    ObjectPath::from_string_unchecked(format!("{PATH}/server/{server}"))
}

fn tool_path(server: &str, tool: &str) -> ObjectPath<'static> {
    let tool = element(tool);
    ObjectPath::from_string_unchecked(format!("{PATH}/server/{server}/tool/{tool}"))
}

/// A name as one element of a path, as systemd does it: what is neither a letter nor a digit becomes
/// `_` and its two hexadecimal digits, byte by byte. Different names stay different.
fn element(name: &str) -> String {
    if name.is_empty() {
        return "_".to_owned();
    }
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "_{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_become_path_elements() {
        assert_eq!(element("files"), "files");
        assert_eq!(element("read_file"), "read_5ffile");
        assert_eq!(element("files#ab12"), "files_23ab12");
        assert_eq!(element(""), "_");
    }

    proptest! {
        #[test]
        fn any_two_names_are_two_valid_paths(one in ".{0,40}", other in ".{0,40}") {
            for name in [&one, &other] {
                let path = tool_path(&element(name), name);
                prop_assert!(ObjectPath::try_from(path.as_str()).is_ok());
            }
            prop_assert_eq!(one == other, element(&one) == element(&other));
        }
    }
}
