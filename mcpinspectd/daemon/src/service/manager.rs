//! The object on the bus: signals for everyone, evidence for those who may read it.

use zbus::fdo;
use zbus::message::Header;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, interface};

mod answering;

use mcpinspect_bus::rows::{ContainedRow, NO_UID, ServerRow, SessionRow, SignalRow, ToolRow};
use mcpinspect_core::model::{ContainmentAction, NotAHash};
use mcpinspect_engine::answer::Code;
use mcpinspect_engine::event::kind::EventKind;
use mcpinspect_engine::event::{Envelope, Presence};
use mcpinspect_engine::history::{HistoryError, HistoryQuery};
use mcpinspect_judge::registry::{DecisionKind, MAX_ITEMS_PER_SERVER, Standing};

pub use answering::Manager;

use super::access::{Access, Peer};
use crate::control::{Decision, ToolForm};
use crate::status::live::ToolSummary;

/// Most events of one answer.
const MAX_LISTED: u32 = 1000;
/// Most bytes of events of one answer.
const MAX_LISTED_BYTES: usize = 8 << 20;
/// Most tools that are asked about at once.
const MAX_CHECKED: usize = MAX_ITEMS_PER_SERVER;

#[interface(name = "org.mcpinspect1.Manager")]
impl Manager {
    /// The daemon's version.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// The state of capture: "watching", or "paused" while every server is paused.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn capture_state(&self) -> fdo::Result<String> {
        Ok(self.status().await?.state)
    }

    /// The ledger: bytes written to watched streams, bytes captured, bytes known to be lost.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn ledger(&self) -> fdo::Result<(u64, u64, u64)> {
        let status = self.status().await?;
        Ok((
            status.bytes_written,
            status.bytes_captured,
            status.bytes_lost,
        ))
    }

    /// Servers that are paused; see SetMonitoring.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn paused_servers(&self) -> fdo::Result<Vec<String>> {
        Ok(self.status().await?.paused)
    }

    /// Returns the event with this id as JSON, while it is among the latest few thousand. For root,
    /// the group mcpinspect and the user that the server runs as.
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
                "no stored event has this id".to_owned(),
            )),
            // Also for an id that does not exist: the difference is not for strangers.
            _ => Err(fdo::Error::AccessDenied(
                "only root, the group mcpinspect and the server's user may read events".to_owned(),
            )),
        }
    }

    /// Returns the latest events that the caller may read, as JSON, oldest first: those after the
    /// event with this id (all that are kept, for an empty id), at most limit (0: as many as fit into
    /// an answer).
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

    /// Returns the Event signals after the one with this id (all that are kept, for an empty id),
    /// oldest first, for clients that were not connected when they were sent. Only those about
    /// servers that the caller may know of.
    #[zbus(out_args("signals"))]
    async fn list_signals(
        &self,
        after_event_id: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<SignalRow>> {
        let access = Access::to_names(connection, &header).await?;
        let most = usize::try_from(MAX_LISTED).unwrap_or(usize::MAX);
        let records = self.view.history().after(after_event_id, most, |record| {
            record.server.is_none() || access.covers(record.uid)
        });
        Ok(records
            .iter()
            .map(|record| SignalRow::from(&**record))
            .collect())
    }

    /// Answers a question about recorded messages, as the manual describes it: the rows of the answer, each
    /// a JSON object. Root and the group mcpinspect are answered about all servers, other users about
    /// those that run as them; one question of a user at a time.
    #[zbus(out_args("rows"))]
    async fn recall(
        &self,
        question: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<String>> {
        let question: HistoryQuery = serde_json::from_str(question)
            .map_err(|error| fdo::Error::InvalidArgs(format!("invalid question: {error}")))?;
        let answer = self
            .look_back(connection, &header, move |control, viewer| {
                control.query_history(&question, viewer)
            })
            .await?;
        answer.map_err(|error| match error {
            HistoryError::Invalid(_) => fdo::Error::InvalidArgs(error.to_string()),
            HistoryError::Deadline(_) => fdo::Error::LimitsExceeded(error.to_string()),
            HistoryError::Nothing | HistoryError::Unreadable(_) => {
                fdo::Error::Failed(error.to_string())
            }
        })
    }

    /// Runs one SELECT statement over the views that the manual describes, and returns the answer as JSON:
    /// the columns, the rows, and whether there were more. Who reads what, and how often, is as for Recall.
    /// The text of an error begins with its code.
    #[zbus(out_args("answer"))]
    async fn query(
        &self,
        sql: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<String> {
        let sql = sql.to_owned();
        let answer = self
            .look_back(connection, &header, move |control, viewer| {
                control.query(&sql, viewer)
            })
            .await?;
        let answer = answer.map_err(|error| match error.code {
            Code::QueryExecutionFailed => fdo::Error::Failed(error.to_string()),
            Code::MutatingQueryForbidden | Code::InvalidQuery => {
                fdo::Error::InvalidArgs(error.to_string())
            }
        })?;
        serde_json::to_string(&answer).map_err(|error| fdo::Error::Failed(error.to_string()))
    }

    /// Returns the servers seen since the daemon started that the caller may know of.
    #[zbus(out_args("servers"))]
    async fn list_servers(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<ServerRow>> {
        let access = Access::to_names(connection, &header).await?;
        let live = self.view.live();
        Ok(live
            .servers()
            .filter(|server| access.covers(server.uid))
            .map(ServerRow::from)
            .collect())
    }

    /// Returns the open sessions that the caller may know of.
    #[zbus(out_args("sessions"))]
    async fn list_sessions(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<SessionRow>> {
        let access = Access::to_names(connection, &header).await?;
        let live = self.view.live();
        let mut sessions = live.sessions();
        sessions
            .retain(|session| access.covers(session.server.as_ref().map(|process| process.uid)));
        Ok(sessions.into_iter().map(SessionRow::from).collect())
    }

    /// Returns the tools of a server that the caller may know of: their own, or else the one of this name
    /// that was heard of last.
    #[zbus(out_args("tools"))]
    async fn list_tools(
        &self,
        server_id: &str,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<ToolRow>> {
        let access = Access::to_names(connection, &header).await?;
        let live = self.view.live();
        let tools = live.tools(server_id, access.uid(), |uid| access.covers(uid));
        rows(tools)
    }

    /// Returns the tools of a user's server that the caller may know of.
    #[zbus(out_args("tools"))]
    async fn list_tools_of(
        &self,
        server_id: &str,
        uid: u32,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<ToolRow>> {
        let access = Access::to_names(connection, &header).await?;
        let live = self.view.live();
        let may_read = |of: Option<u32>| of.unwrap_or(NO_UID) == uid && access.covers(of);
        rows(live.tools(server_id, uid, may_read))
    }

    /// Returns how tools of the caller's own server relate to what was accepted of them, one word for each:
    /// approved, unapproved or changed. Each tool is a name and the hash of a definition; for an empty hash,
    /// of the one that was seen last. Where the caller is the client of a session, the server is the one that
    /// it talks to, whatever the name. At most 4096 tools.
    #[zbus(out_args("statuses"))]
    async fn check_tools(
        &self,
        server_id: String,
        tools: Vec<(String, String)>,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<Vec<&'static str>> {
        let caller = Peer::of_sender(connection, &header).await?;
        let forms = forms(tools)?;
        let server = self.served(caller).unwrap_or(server_id);
        let standings = self
            .on_control(move |control| control.check_tools(Some(caller.uid), &server, forms))
            .await?;
        Ok(standings.into_iter().map(status).collect())
    }

    /// Pins the tool's current definition (for an empty name, the server's instructions, information
    /// or program). Fails unless the hash is that of the current definition, so that the caller
    /// approves what it has shown. A decision concerns the caller's own servers; those of another user
    /// if the caller may read about them, has none of that name, and nobody else does.
    async fn approve(
        &self,
        server_id: String,
        tool_name: String,
        tool_hash: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        let decision = judge(DecisionKind::Approve, server_id, tool_name, tool_hash);
        self.decide(connection, &header, decision).await
    }

    /// Rejects the tool's current definition (for an empty name, the server's instructions,
    /// information or program): its pin stays.
    async fn reject(
        &self,
        server_id: String,
        tool_name: String,
        tool_hash: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        let decision = judge(DecisionKind::Reject, server_id, tool_name, tool_hash);
        self.decide(connection, &header, decision).await
    }

    /// Suppresses a rule for a server's tool (all of its tools, for an empty name) for this many days.
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
        let decision = Decision::Suppress {
            server: server_id,
            tool: tool_name,
            rule,
            reason,
            days,
        };
        self.decide(connection, &header, decision).await
    }

    /// Resumes a server (all of them, for an empty name), or pauses it until it is resumed or the
    /// daemon ends. Messages of a paused server are not examined; how much passed is reported as a
    /// gap.
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

    /// Stops all processes of a server until it is thawed; its client continues to run. Returns the
    /// processes, the control groups that were frozen as a whole, and what could not be reached.
    #[zbus(out_args("processes", "cgroups", "missed"))]
    async fn freeze(
        &self,
        server_id: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<ContainedRow> {
        self.contain(connection, &header, server_id, ContainmentAction::Freeze)
            .await
    }

    /// Resumes a frozen server. Returns the same as Freeze.
    #[zbus(out_args("processes", "cgroups", "missed"))]
    async fn thaw(
        &self,
        server_id: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<ContainedRow> {
        self.contain(connection, &header, server_id, ContainmentAction::Thaw)
            .await
    }

    /// Ends all processes of a server; its client continues to run, and may start it again. Returns
    /// the same as Freeze.
    #[zbus(out_args("processes", "cgroups", "missed"))]
    async fn kill(
        &self,
        server_id: String,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<ContainedRow> {
        self.contain(connection, &header, server_id, ContainmentAction::Kill)
            .await
    }

    /// Reads the configuration and the rules again.
    async fn reload(
        &self,
        #[zbus(connection)] connection: &Connection,
        #[zbus(header)] header: Header<'_>,
    ) -> fdo::Result<()> {
        self.decide(connection, &header, Decision::Reload).await
    }

    /// Announces an event of any type. The severity is empty for the ordinary course of things, and
    /// the uid is 4294967295 if the server's user is unknown. GetEvent returns the evidence.
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

    /// Announces that a tool was listed that is new, or in which detection found something.
    #[zbus(signal)]
    async fn tool_seen(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Announces that a tool differs from its pin, or is no longer offered.
    #[zbus(signal)]
    async fn tool_changed(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Announces a finding.
    #[zbus(signal)]
    async fn detection(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Announces that bytes of a stream were lost.
    #[zbus(signal)]
    async fn capture_gap(
        emitter: &SignalEmitter<'_>,
        event_id: &str,
        severity: &str,
        server_id: &str,
        uid: u32,
        title: &str,
    ) -> zbus::Result<()>;

    /// Announces that a server has opened its first session.
    #[zbus(signal)]
    async fn server_appeared(
        emitter: &SignalEmitter<'_>,
        server_id: &str,
        uid: u32,
    ) -> zbus::Result<()>;

    /// Announces that the last session with a server has ended.
    #[zbus(signal)]
    async fn server_vanished(
        emitter: &SignalEmitter<'_>,
        server_id: &str,
        uid: u32,
    ) -> zbus::Result<()>;
}

fn rows<'a>(tools: Option<impl Iterator<Item = &'a ToolSummary>>) -> fdo::Result<Vec<ToolRow>> {
    match tools {
        Some(tools) => Ok(tools.map(ToolRow::from).collect()),
        None => Err(fdo::Error::InvalidArgs("unknown server".to_owned())),
    }
}

fn forms(tools: Vec<(String, String)>) -> fdo::Result<Vec<ToolForm>> {
    if tools.len() > MAX_CHECKED {
        let problem = format!("more than {MAX_CHECKED} tools");
        return Err(fdo::Error::InvalidArgs(problem));
    }
    let form = |(name, hash): (String, String)| {
        let hash = match hash.as_str() {
            "" => None,
            hash => Some(hash.parse()?),
        };
        Ok(ToolForm { name, hash })
    };
    let forms: Result<_, NotAHash> = tools.into_iter().map(form).collect();
    forms.map_err(|error| fdo::Error::InvalidArgs(error.to_string()))
}

/// The words that rules of a policy use.
fn status(standing: Option<Standing>) -> &'static str {
    match standing {
        Some(Standing::Accepted) => "approved",
        Some(Standing::FirstUse) | None => "unapproved",
        Some(Standing::Changed) => "changed",
    }
}

fn judge(kind: DecisionKind, server: String, tool: String, hash: String) -> Decision {
    Decision::Judge {
        kind,
        server,
        tool,
        hash,
    }
}

/// Sends the signals of one record.
pub async fn emit(emitter: &SignalEmitter<'_>, record: &Envelope) -> zbus::Result<()> {
    let SignalRow {
        kind,
        event_id: id,
        severity,
        server,
        uid,
        title,
    } = &SignalRow::from(record);
    let uid = *uid;
    Manager::event(emitter, kind, id, severity, server, uid, title).await?;
    match record.kind {
        EventKind::ToolSeen if record.is_news => {
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
