//! What is going on now, folded from the events themselves: servers, sessions, tools.
//!
//! The bus answers questions about the present. Asking the pipeline would make it wait for readers;
//! so the state is kept on this side of the fan-out, from the same events that everyone gets, and
//! cannot contradict them. Every table is bounded; what does not fit is counted.

use std::collections::{BTreeMap, HashMap};

use mcpinspect_core::model::{
    ContainmentAction, EVERY_SERVER, Party, Pid, ServerId, SessionId, Severity, Timestamp,
    ToolStatus,
};
use mcpinspect_core::text::bound;
use mcpinspect_core::text::escape::printable;
use mcpinspect_engine::event::body::{PolicyDecision, SessionStarted, ToolChanged, ToolSeen};
use mcpinspect_engine::event::{Body, Event, Presence, Subject};
use serde::Serialize;

/// Characters of a tool's name to show.
pub const SHOWN_NAME: usize = 128;

/// Most sessions, servers and tools to remember.
#[derive(Clone, Copy, Debug)]
pub struct LiveLimits {
    /// Open sessions.
    pub sessions: usize,
    /// Servers, running or not.
    pub servers: usize,
    /// Tools of one server.
    pub tools_per_server: usize,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self {
            sessions: 4096,
            servers: 1024,
            tools_per_server: 512,
        }
    }
}

/// One server of one user, as reported on the bus.
#[derive(Clone, Debug, Serialize)]
pub struct ServerSummary {
    /// Its stable name.
    pub server_id: ServerId,
    /// Fingerprint of its identity, hex.
    pub fingerprint: String,
    /// Open sessions.
    pub sessions: usize,
    /// Tools known.
    pub tools: usize,
    /// The user it runs as.
    pub uid: Option<u32>,
    /// When it was last heard of.
    pub last_seen: Timestamp,
    /// Whether it is monitored.
    pub monitored: bool,
    /// Whether its processes were frozen, and not thawed since.
    pub frozen: bool,
}

/// One open session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionSummary {
    /// Its id.
    pub session_id: SessionId,
    /// Its server.
    pub server_id: ServerId,
    /// When it was recognised.
    pub started: Timestamp,
    /// The server's process.
    pub server: Option<ProcessSummary>,
    /// The client's process.
    pub client: Option<ProcessSummary>,
    /// Protocol revision agreed on.
    pub protocol_version: Option<String>,
}

/// A process as reported on the bus: no command line, which may reveal more than its owner likes.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessSummary {
    /// Its pid.
    pub pid: Pid,
    /// Its executable.
    pub exe: String,
    /// The user it runs as.
    pub uid: u32,
    /// Its unit or container.
    pub unit: Option<String>,
}

impl SessionSummary {
    /// The user that the server runs as, if known.
    fn uid(&self) -> Option<u32> {
        Some(self.server.as_ref()?.uid)
    }
}

impl From<&Party> for ProcessSummary {
    fn from(party: &Party) -> Self {
        let unit = party.unit.as_deref().map(|unit| printable(unit, 256));
        Self {
            pid: party.pid,
            exe: printable(&party.exe, 1024),
            uid: party.uid,
            unit,
        }
    }
}

/// One tool of a server.
#[derive(Clone, Debug, Serialize)]
pub struct ToolSummary {
    /// Its name.
    pub tool_name: String,
    /// How it relates to its pin.
    pub status: ToolStatus,
    /// SHA-256 of its current definition, hex; empty once it is gone.
    pub tool_hash: String,
    /// The worst finding in it.
    pub max_severity: Option<Severity>,
    /// When it was last listed.
    pub last_seen: Timestamp,
}

/// A server as one user has it: two users may each have a server of the same name, and neither learns of the
/// other's. The user is `None` if unknown.
pub type ServerKey = (ServerId, Option<u32>);

#[derive(Debug)]
struct ServerEntry {
    fingerprint: String,
    sessions: usize,
    last_seen: Timestamp,
    paused: bool,
    frozen: bool,
    tools: BTreeMap<String, ToolSummary>,
}

/// The state.
#[derive(Debug)]
pub struct Live {
    limits: LiveLimits,
    sessions: HashMap<SessionId, SessionSummary>,
    servers: BTreeMap<ServerKey, ServerEntry>,
    /// Whether all servers are paused.
    paused: bool,
    forgotten: u64,
}

impl Live {
    /// An empty state.
    pub fn new(limits: LiveLimits) -> Self {
        Self {
            limits,
            sessions: HashMap::new(),
            servers: BTreeMap::new(),
            paused: false,
            forgotten: 0,
        }
    }

    /// The user that the server of this event runs as, if known. Ask before [`Live::apply`].
    pub fn uid_of(&self, event: &Event) -> Option<u32> {
        if let Body::SessionStarted(started) = &event.body {
            return started.server.as_ref().map(|party| party.uid);
        }
        let subject = event.subject.as_ref()?;
        if subject.server_uid.is_some() {
            return subject.server_uid;
        }
        if subject.session_id == SessionId::none() {
            // About the server itself: it concerns its only user.
            let mut keys = self.keys_of(&subject.server_id);
            return match (keys.next(), keys.next()) {
                (Some((_, uid)), None) => *uid,
                _ => None,
            };
        }
        self.sessions.get(&subject.session_id)?.uid()
    }

    /// The servers of this name.
    fn keys_of<'a>(&'a self, server: &'a ServerId) -> impl Iterator<Item = &'a ServerKey> {
        let from = (server.clone(), None);
        let keys = self.servers.range(from..);
        keys.map(|(key, _)| key)
            .take_while(move |(id, _)| id == server)
    }

    fn named_is_paused(&self, server: &ServerId) -> bool {
        let mut keys = self.keys_of(server);
        keys.any(|key| self.servers.get(key).is_some_and(|entry| entry.paused))
    }

    /// The servers that an event is about: that of its session or user, or all of its name.
    fn concerned(&self, subject: &Subject) -> Vec<ServerKey> {
        let server = &subject.server_id;
        let session = self.sessions.get(&subject.session_id);
        match (session, subject.server_uid) {
            (Some(session), _) => vec![(server.clone(), session.uid())],
            (None, Some(uid)) => vec![(server.clone(), Some(uid))],
            (None, None) => self.keys_of(server).cloned().collect(),
        }
    }

    /// Entries for which there has been no room since the start.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Takes in one event.
    pub fn apply(&mut self, event: &Event) -> Option<Presence> {
        let (time, subject) = (event.time, event.subject.as_ref()?);
        match &event.body {
            Body::SessionStarted(started) => return self.session_started(time, subject, started),
            Body::SessionEnded(_) => return self.session_ended(time, subject),
            Body::SessionIdentified(identified) => {
                if let Some(session) = self.sessions.get_mut(&subject.session_id) {
                    let version = identified.protocol_version.as_deref();
                    session.protocol_version = version.map(|version| printable(version, 64));
                }
            }
            Body::ToolSeen(ToolSeen {
                tool_name,
                tool_hash,
                status,
                max_severity,
                ..
            }) => {
                let tool = ToolSummary {
                    tool_name: printable(tool_name, SHOWN_NAME),
                    status: *status,
                    tool_hash: tool_hash.to_string(),
                    max_severity: *max_severity,
                    last_seen: time,
                };
                self.tool(subject, &tool);
            }
            Body::ToolChanged(ToolChanged {
                tool_name,
                new_hash,
                status,
                max_severity,
                ..
            }) => {
                let tool = ToolSummary {
                    tool_name: printable(tool_name, SHOWN_NAME),
                    status: *status,
                    tool_hash: new_hash.map(|hash| hash.to_string()).unwrap_or_default(),
                    max_severity: *max_severity,
                    last_seen: time,
                };
                self.tool(subject, &tool);
            }
            Body::Policy(policy) => match policy.decision {
                PolicyDecision::Pause => self.set_paused(subject, true, time),
                PolicyDecision::Resume => self.set_paused(subject, false, time),
                PolicyDecision::Pin(_)
                | PolicyDecision::Suppress
                | PolicyDecision::Reload
                | PolicyDecision::Accept
                | PolicyDecision::Refuse
                | PolicyDecision::Withdraw => {}
            },
            Body::Contained(contained) => {
                for key in self.concerned(subject) {
                    if let Some(entry) = self.servers.get_mut(&key) {
                        entry.frozen = contained.action == ContainmentAction::Freeze;
                    }
                }
            }
            Body::ServerChanged(_)
            | Body::Detection(_)
            | Body::RuleMatched(_)
            | Body::CallHung(_)
            | Body::ServerOrphaned(_)
            | Body::CaptureGap(_)
            | Body::BlindSpot(_)
            | Body::InvalidMessage(_)
            | Body::RegistryFull(_)
            | Body::EventsDropped(_)
            | Body::Store(_) => {}
        }
        None
    }

    fn session_started(
        &mut self,
        time: Timestamp,
        subject: &Subject,
        started: &SessionStarted,
    ) -> Option<Presence> {
        if self.sessions.contains_key(&subject.session_id) {
            return None;
        }
        if self.sessions.len() >= self.limits.sessions {
            self.forgotten += 1;
            return None;
        }
        let uid = started.server.as_ref().map(|party| party.uid);
        self.sessions.insert(
            subject.session_id.clone(),
            SessionSummary {
                session_id: subject.session_id.clone(),
                server_id: subject.server_id.clone(),
                started: time,
                server: started.server.as_ref().map(ProcessSummary::from),
                client: started.client.as_ref().map(ProcessSummary::from),
                protocol_version: None,
            },
        );
        let entry = self.server(&(subject.server_id.clone(), uid), time)?;
        entry.fingerprint = bound(&started.fingerprint, 128).into_owned();
        entry.sessions += 1;
        (entry.sessions == 1).then_some(Presence::Appeared)
    }

    fn session_ended(&mut self, time: Timestamp, subject: &Subject) -> Option<Presence> {
        let session = self.sessions.remove(&subject.session_id)?;
        let uid = session.uid();
        let entry = self.server(&(session.server_id, uid), time)?;
        entry.sessions = entry.sessions.saturating_sub(1);
        if entry.sessions > 0 {
            return None;
        }
        entry.frozen = false;
        Some(Presence::Vanished)
    }

    fn set_paused(&mut self, subject: &Subject, paused: bool, time: Timestamp) {
        if *subject.server_id.0 == *EVERY_SERVER {
            self.paused = paused;
            return;
        }
        let mut keys = self.concerned(subject);
        if keys.is_empty() {
            keys.push((subject.server_id.clone(), None));
        }
        for key in keys {
            if let Some(entry) = self.server(&key, time) {
                entry.paused = paused;
            }
        }
    }

    /// All servers, by name and user.
    pub fn servers(&self) -> impl Iterator<Item = ServerSummary> {
        let servers = self.servers.iter();
        servers.map(|(key, entry)| self.row(key, entry))
    }

    /// Whether a server is known.
    pub fn knows(&self, key: &ServerKey) -> bool {
        self.servers.contains_key(key)
    }

    /// The servers of this name, each with its tools by name.
    pub fn named(&self, server: &ServerId) -> Vec<(ServerSummary, Vec<ToolSummary>)> {
        let keys = self.keys_of(server);
        let entries = keys.filter_map(|key| self.servers.get_key_value(key));
        entries
            .map(|(key, entry)| {
                let tools = entry.tools.values().cloned().collect();
                (self.row(key, entry), tools)
            })
            .collect()
    }

    fn row(&self, (id, uid): &ServerKey, entry: &ServerEntry) -> ServerSummary {
        ServerSummary {
            server_id: id.clone(),
            fingerprint: entry.fingerprint.clone(),
            sessions: entry.sessions,
            tools: entry.tools.len(),
            uid: *uid,
            last_seen: entry.last_seen,
            monitored: !self.paused && !entry.paused,
            frozen: entry.frozen,
        }
    }

    /// All open sessions, oldest first.
    pub fn sessions(&self) -> Vec<&SessionSummary> {
        let mut sessions: Vec<_> = self.sessions.values().collect();
        sessions.sort_by(|a, b| (a.started, &a.session_id).cmp(&(b.started, &b.session_id)));
        sessions
    }

    /// The tools, by name, of the server of this name that belongs to a user whom `may_read` accepts: that
    /// of `first` if it is among them, else the one last heard of; `None` if there is none.
    pub fn tools(
        &self,
        server: &str,
        first: u32,
        may_read: impl Fn(Option<u32>) -> bool,
    ) -> Option<impl Iterator<Item = &ToolSummary>> {
        let server = ServerId(server.into());
        let keys = self.keys_of(&server).filter(|(_, uid)| may_read(*uid));
        let entries = keys.filter_map(|key| self.servers.get_key_value(key));
        let (_, entry) =
            entries.max_by_key(|((_, uid), entry)| (*uid == Some(first), entry.last_seen))?;
        Some(entry.tools.values())
    }

    fn tool(&mut self, subject: &Subject, tool: &ToolSummary) {
        let most = self.limits.tools_per_server;
        let mut keys = self.concerned(subject);
        if keys.is_empty() {
            keys.push((subject.server_id.clone(), None));
        }
        for key in keys {
            let Some(entry) = self.server(&key, tool.last_seen) else {
                continue;
            };
            if entry.tools.len() < most || entry.tools.contains_key(&tool.tool_name) {
                entry.tools.insert(tool.tool_name.clone(), tool.clone());
            } else {
                self.forgotten += 1;
            }
        }
    }

    /// The entry of this server; a new one replaces the one idle for longest.
    fn server(&mut self, id: &ServerKey, now: Timestamp) -> Option<&mut ServerEntry> {
        if !self.servers.contains_key(id) && self.servers.len() >= self.limits.servers {
            let idle = self.servers.iter().filter(|(_, entry)| entry.sessions == 0);
            let oldest = idle
                .min_by_key(|(_, entry)| entry.last_seen)
                .map(|(id, _)| id.clone());
            self.forgotten += 1;
            self.servers.remove(&oldest?);
        }
        // Servers are paused by name.
        let paused = self.named_is_paused(&id.0);
        let entry = self
            .servers
            .entry(id.clone())
            .or_insert_with(|| ServerEntry {
                fingerprint: String::new(),
                sessions: 0,
                last_seen: now,
                paused,
                frozen: false,
                tools: BTreeMap::new(),
            });
        entry.last_seen = entry.last_seen.max(now);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcpinspect_core::model::EndReason;
    use mcpinspect_engine::event::body::SessionEnded;
    use mcpinspect_engine::event::testing::{TIME, changed, session_started, subject};

    use super::*;

    fn in_session(mut event: Event, session: &str) -> Event {
        let subject = event.subject.as_mut().unwrap();
        subject.session_id = SessionId(Arc::from(session));
        event
    }

    fn ended(server: &str) -> Event {
        let body = SessionEnded {
            reason: EndReason::ServerExited,
            messages: 0,
            bytes: 0,
            bytes_lost: 0,
            unanswered: 0,
        };
        Event::new(TIME, subject(server), body)
    }

    #[test]
    fn a_server_appears_with_its_first_session_and_vanishes_with_its_last() {
        let mut live = Live::new(LiveLimits::default());
        assert_eq!(
            live.apply(&in_session(session_started("a", 7), "1")),
            Some(Presence::Appeared)
        );
        assert_eq!(live.apply(&in_session(session_started("a", 7), "2")), None);
        assert_eq!(
            live.apply(&in_session(session_started("a", 7), "2")),
            None,
            "said twice"
        );
        assert_eq!(live.apply(&in_session(ended("a"), "1")), None);
        assert_eq!(live.uid_of(&in_session(ended("a"), "2")), Some(7));
        assert_eq!(
            live.apply(&in_session(ended("a"), "2")),
            Some(Presence::Vanished)
        );
        assert_eq!(
            live.apply(&in_session(ended("a"), "2")),
            None,
            "ended twice"
        );
        assert_eq!(live.servers().next().unwrap().sessions, 0);
    }

    #[test]
    fn two_users_servers_of_one_name_are_two() {
        let mut live = Live::new(LiveLimits::default());
        for (uid, session) in [(1, "1"), (2, "2")] {
            let started = in_session(session_started("a", uid), session);
            assert_eq!(live.apply(&started), Some(Presence::Appeared));
        }
        live.apply(&in_session(changed("a", "x"), "1"));
        let count = |uid| live.tools("a", uid, |of| of == Some(uid)).unwrap().count();
        assert_eq!((count(1), count(2)), (1, 0));
        let servers: Vec<_> = live.servers().map(|row| (row.uid, row.tools)).collect();
        assert_eq!(servers, [(Some(1), 1), (Some(2), 0)]);
        // What is about the name concerns both, so neither may read it.
        let mut about_both = changed("a", "x");
        about_both.subject = Some(Subject::server(ServerId("a".into())));
        assert_eq!(live.uid_of(&about_both), None);
        let hers = Subject::server(ServerId("a".into())).of_user(Some(2));
        about_both.subject = Some(hers);
        assert_eq!(live.uid_of(&about_both), Some(2));
        assert_eq!(
            live.apply(&in_session(ended("a"), "1")),
            Some(Presence::Vanished)
        );
    }

    #[test]
    fn tables_keep_their_limits() {
        let limits = LiveLimits {
            sessions: 2,
            servers: 2,
            tools_per_server: 1,
        };
        let mut live = Live::new(limits);
        live.apply(&in_session(session_started("a", 1), "1"));
        live.apply(&in_session(session_started("b", 1), "2"));
        assert_eq!(live.apply(&in_session(session_started("c", 1), "3")), None);
        assert_eq!(live.sessions().len(), 2);
        assert_eq!(live.forgotten(), 1);
        live.apply(&in_session(ended("a"), "1"));
        // "a" is idle and makes room; "b" has a session and stays.
        live.apply(&in_session(session_started("c", 1), "3"));
        let names: Vec<_> = live.servers().map(|s| s.server_id.to_string()).collect();
        assert_eq!(names, ["b", "c"]);
        live.apply(&changed("c", "x"));
        let mut other = changed("c", "x");
        if let Body::ToolChanged(ToolChanged { tool_name, .. }) = &mut other.body {
            "other".clone_into(tool_name);
        }
        live.apply(&other);
        assert_eq!(live.tools("c", 0, |_| true).unwrap().count(), 1);
        assert!(live.tools("c", 0, |uid| uid == Some(0)).is_none());
        assert!(live.tools("nobody", 0, |_| true).is_none());
    }
}
