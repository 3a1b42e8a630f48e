//! What people ask of the running pipeline, answered between batches of records.

use std::sync::mpsc::SyncSender;

use mcpinspect_core::model::{
    Account, DefinitionHash, EVERY_SERVER, ItemKind, ServerId, Timestamp,
};
use mcpinspect_core::text::escape::{plain, printable};
use mcpinspect_engine::event::body::{Policy, PolicyDecision, PolicyItem};
use mcpinspect_engine::event::{Event, Subject};
use mcpinspect_engine::{ContainmentPolicy, ContainmentRequest};
use mcpinspect_engine::{Output, OutputSink};
use mcpinspect_judge::registry::{Attribution, DecideError, DecidedBy, ItemKey, Owner, ServerOf};
use mcpinspect_settings::suppression::{Suppression, SuppressionError};

use super::Pipeline;
use super::host::{Host, Reloaded};
use super::lessons::lesson_of;
use super::shadow::ShadowPolicy;
use crate::control::{
    Caller, CaptureStatus, ContainmentJob, ControlError, ControlRequest, Decision, ServerSessions,
    ToolForm,
};
use crate::status::live::SHOWN_NAME;
use crate::status::metrics::Snapshot;

/// An account of the streams is recomputed after this many nanoseconds: anyone may ask for it, and it
/// costs a look at every stream.
const COUNT_EVERY: u64 = 100_000_000;

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// What findings lead to from now on.
    pub fn set_containment(&mut self, policy: ContainmentPolicy) {
        self.containment = policy;
    }

    /// The rules that each message is checked against from now on.
    pub fn set_policy(&mut self, policy: Option<ShadowPolicy>) {
        self.shadow.replace(policy);
    }

    /// What is counted here; others fill in the rest.
    pub fn snapshot(&self) -> Snapshot {
        let registry = self.engine.registry();
        Snapshot {
            sessions: self.engine.sessions(),
            registry: registry.size(),
            health: registry.health(),
            calls: self.calls.clone(),
            in_flight: self.engine.requests().count(),
            paused: self.sessions.is_everyone_paused(),
            paused_servers: self.sessions.paused().count(),
            ..Snapshot::default()
        }
    }

    /// Rereads configuration and rules.
    ///
    /// # Errors
    /// What is wrong with them; everything then stays as it was.
    pub fn reload(&mut self) -> Result<(), String> {
        let Reloaded {
            policy,
            approval,
            shadow,
        } = self.host.reload()?;
        self.containment.replace(policy);
        self.shadow.replace(shadow);
        self.engine.set_approval(approval);
        Ok(())
    }

    /// Handles requests since the last call. Call it often; `count` computes the account of the
    /// streams, if a caller asked for it.
    pub fn attend(&mut self, now: Timestamp, count: impl FnOnce() -> Account) {
        self.look_at_approvals(now);
        let mut count = Some(count);
        let mut asking: Vec<SyncSender<CaptureStatus>> = Vec::new();
        while let Some(request) = self.requests.next() {
            // The caller may no longer be waiting for the answer; nothing can be done about that.
            match request {
                ControlRequest::Status(reply) => asking.push(reply),
                ControlRequest::Sessions { server, reply } => {
                    let _ = reply.send(ServerSessions {
                        sessions: self.sessions.parties_of(&server),
                        clients: self.sessions.clients(),
                        names: self.engine.registry().server_names().clone(),
                    });
                }
                ControlRequest::CheckTools {
                    uid,
                    server,
                    tools,
                    reply,
                } => {
                    let registry = self.engine.registry_mut();
                    registry.refresh();
                    let server = ServerOf::new(registry.owner(uid), &server);
                    let check = |tool: &ToolForm| registry.check(server, &tool.name, tool.hash);
                    let _ = reply.send(tools.iter().map(check).collect());
                }
                ControlRequest::Report(event) => self.output.output(Output::Event(&event)),
                ControlRequest::Decide {
                    decision,
                    caller,
                    reply,
                } => self.decide(decision, caller, now, move |result| {
                    let _ = reply.send(result);
                }),
            }
        }
        if asking.is_empty() {
            return;
        }
        let is_fresh = self
            .counted
            .is_some_and(|at| now >= at && now.nanos_since(at) < COUNT_EVERY);
        if !is_fresh && let Some(count) = count.take() {
            self.account = count();
            self.counted = Some(now);
        }
        let status = self.status();
        for reply in asking {
            let _ = reply.send(status.clone());
        }
    }

    fn status(&self) -> CaptureStatus {
        let state = match self.sessions.is_everyone_paused() {
            true => "paused",
            false => "watching",
        };
        CaptureStatus {
            state: state.to_owned(),
            paused: self.sessions.paused().map(ServerId::to_string).collect(),
            bytes_written: self.account.written,
            bytes_captured: self.account.captured,
            bytes_lost: self.account.lost,
        }
    }

    /// The item and definition that a person judges, if the server still offers it.
    fn judged(
        &mut self,
        server: ServerOf<'_>,
        tool: &str,
        hash: &str,
    ) -> Result<(ItemKey, DefinitionHash), ControlError> {
        let hash: DefinitionHash = hash
            .parse()
            .map_err(|error| ControlError::Invalid(format!("{error}")))?;
        let key = match tool {
            "" => self.own(server, hash)?,
            shown => self.tool(server, shown)?,
        };
        if self.engine.registry().current(server, &key) != Some(hash) {
            return Err(ControlError::Stale(format!(
                "the definition of {} has changed since it was displayed; review it again",
                plain(&key.name)
            )));
        }
        Ok((key, hash))
    }

    /// Carries out a decision, then calls `answer`: for a definition once it is stored, possibly on
    /// another thread.
    fn decide(
        &mut self,
        decision: Decision,
        caller: Caller,
        now: Timestamp,
        answer: impl FnOnce(Result<(), ControlError>) + Send + 'static,
    ) {
        let uid = caller.uid;
        let result = match decision {
            Decision::Judge {
                kind,
                server,
                tool,
                hash,
            } => match self.judged_by(caller, &server, &tool, &hash) {
                Ok((owner, key, hash)) => {
                    let by = Attribution {
                        by: DecidedBy::Person(uid),
                        time: now,
                        reason: "",
                    };
                    let stored = move |result: Result<DefinitionHash, DecideError>| {
                        answer(result.map(drop).map_err(|error| match error {
                            DecideError::UnknownItem => ControlError::Unknown(tool),
                            error => ControlError::Failed(error.to_string()),
                        }));
                    };
                    // The engine makes an event of it, as for a decision on the command line.
                    let registry = self.engine.registry_mut();
                    let server = ServerOf::new(owner, &server);
                    return registry.decide_then(server, &key, kind, Some(hash), by, stored);
                }
                Err(error) => Err(error),
            },
            Decision::Suppress {
                server,
                tool,
                rule,
                reason,
                days,
            } => self.suppress(caller, &server, &tool, &rule, &reason, days, now),
            Decision::SetMonitoring { server, enabled } => {
                self.set_monitoring(&server, enabled, uid, now)
            }
            Decision::Reload => self.reload().map_err(ControlError::Failed).map(|()| {
                let policy = PolicyChange {
                    item: PolicyItem::Configuration,
                    tool: None,
                    decision: PolicyDecision::Reload,
                    reason: String::new(),
                };
                self.report_policy(policy, EVERY_SERVER, None, uid, now);
            }),
        };
        answer(result);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one for each field of the decision"
    )]
    fn suppress(
        &mut self,
        caller: Caller,
        server: &str,
        tool: &str,
        rule: &str,
        reason: &str,
        days: u32,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        let owner = self.owner(server, caller)?;
        let of = ServerOf::new(owner, server);
        let tool = match tool {
            "" => self.known(of).map(|()| String::new())?,
            shown => self.tool(of, shown)?.name.into_string(),
        };
        let sharing = self.engine.registry().server_names().sharing();
        let users = match owner {
            Owner::User(uid) => Some(vec![uid]),
            Owner::Shared if !sharing.everyone => Some(sharing.users.iter().copied().collect()),
            Owner::Shared | Owner::Unknown | Owner::Earlier => None,
        };
        let failed = |error: SuppressionError| match error {
            SuppressionError::Invalid(why) => ControlError::Invalid(why.to_owned()),
            error => ControlError::Failed(error.to_string()),
        };
        let suppression =
            Suppression::new(server, &tool, rule, reason, days, now).map_err(failed)?;
        let lesson = lesson_of(server, users.as_deref(), rule, now);
        let suppression = suppression.of_users(users);
        let until = suppression.until.clone();
        self.host.suppress(suppression, now).map_err(failed)?;
        if let Some(lesson) = lesson {
            self.host.learn(lesson).map_err(failed)?;
        }
        self.host.reload_rules();
        let policy = PolicyChange {
            item: PolicyItem::Rule,
            tool: (!tool.is_empty()).then_some(tool),
            decision: PolicyDecision::Suppress,
            reason: format!("{rule} until {until}: {reason}"),
        };
        self.report_policy(policy, server, owner.uid(), caller.uid, now);
        Ok(())
    }

    fn set_monitoring(
        &mut self,
        server: &str,
        enabled: bool,
        uid: u32,
        now: Timestamp,
    ) -> Result<(), ControlError> {
        let everyone = server.is_empty() || server == EVERY_SERVER;
        if !everyone {
            self.is_known(server, |_| true)?;
        }
        let id = ServerId(if everyone { EVERY_SERVER } else { server }.into());
        match self
            .sessions
            .set_monitoring((!everyone).then_some(&id), enabled)
        {
            None => Err(ControlError::Failed(
                "too many servers are paused; resume some first".to_owned(),
            )),
            Some(false) => Ok(()),
            Some(true) => {
                let policy = PolicyChange {
                    item: PolicyItem::Monitoring,
                    tool: None,
                    decision: match enabled {
                        true => PolicyDecision::Resume,
                        false => PolicyDecision::Pause,
                    },
                    reason: String::new(),
                };
                self.report_policy(policy, &id.0, None, uid, now);
                Ok(())
            }
        }
    }

    /// Whose server a caller means: their own; else, if they may decide on it, that of the only
    /// other user who has one of this name.
    fn owner(&mut self, server: &str, caller: Caller) -> Result<Owner, ControlError> {
        let registry = self.engine.registry_mut();
        registry.refresh();
        let own = registry.owner(Some(caller.uid));
        let mut owners: Vec<Owner> = registry.owners(server).collect();
        owners.extend(registry.server_names().owners_of(server));
        owners.sort_unstable();
        owners.dedup();
        match owners.as_slice() {
            [other] if caller.reads_all => Ok(*other),
            several if several.len() > 1 && caller.reads_all && !several.contains(&own) => {
                Err(ControlError::Invalid(format!(
                    "several users have a server {}; `mcpinspect` decides on one with --user",
                    plain(server)
                )))
            }
            _ => Ok(own),
        }
    }

    /// What a person judges of their own server, or of another user's that they may decide for.
    fn judged_by(
        &mut self,
        caller: Caller,
        server: &str,
        tool: &str,
        hash: &str,
    ) -> Result<(Owner, ItemKey, DefinitionHash), ControlError> {
        let owner = self.owner(server, caller)?;
        let (key, hash) = self.judged(ServerOf::new(owner, server), tool, hash)?;
        Ok((owner, key, hash))
    }

    fn known(&self, server: ServerOf<'_>) -> Result<(), ControlError> {
        self.is_known(server.server, |owner| owner == server.owner)
    }

    /// Whether a server of this name is known whose owner counts.
    fn is_known(&self, server: &str, counts: impl Fn(Owner) -> bool) -> Result<(), ControlError> {
        let registry = self.engine.registry();
        let known = self.sessions.knows(server)
            || registry.owners(server).any(&counts)
            || registry.server_names().owners_of(server).any(&counts);
        match known {
            true => Ok(()),
            false => Err(ControlError::Unknown(format!(
                "the server {}",
                plain(server)
            ))),
        }
    }

    /// The tool of this name, or the only one shown under it.
    fn tool(&self, server: ServerOf<'_>, name: &str) -> Result<ItemKey, ControlError> {
        let tools = || {
            let keys = self.engine.registry().keys(server);
            keys.filter(|key| key.kind == ItemKind::Tool)
        };
        if let Some(key) = tools().find(|key| &*key.name == name) {
            return Ok(key.clone());
        }
        let mut shown = tools().filter(|key| is_shown_as(key, name));
        match (shown.next(), shown.next()) {
            (Some(key), None) => Ok(key.clone()),
            _ => Err(ControlError::Unknown(format!(
                "the tool {} of {}",
                plain(name),
                plain(server.server)
            ))),
        }
    }

    /// The server's own description, or the program behind it: whichever has this hash now.
    fn own(&self, server: ServerOf<'_>, hash: DefinitionHash) -> Result<ItemKey, ControlError> {
        self.known(server)?;
        let registry = self.engine.registry();
        let mut own = [
            ItemKind::Instructions,
            ItemKind::ServerInfo,
            ItemKind::Program,
        ]
        .into_iter()
        .map(ItemKey::only);
        own.find(|key| registry.current(server, key) == Some(hash))
            .ok_or_else(|| {
                ControlError::Stale(format!(
                    "what {} reports about itself has changed since it was displayed; review it again",
                    plain(server.server)
                ))
            })
    }

    /// Contains a server as the policy requested, beside the pipeline, since the kernel may take time.
    pub(super) fn contain(&self, request: ContainmentRequest) {
        let ContainmentRequest {
            session,
            action,
            pattern,
        } = request;
        let Some(session) = self.sessions.parties(&session).cloned() else {
            return;
        };
        self.host.contain(ContainmentJob {
            session,
            clients: self.sessions.clients(),
            action,
            pattern,
        });
    }

    fn report_policy(
        &mut self,
        policy: PolicyChange,
        server: &str,
        server_uid: Option<u32>,
        uid: u32,
        now: Timestamp,
    ) {
        let PolicyChange {
            item,
            tool,
            decision,
            reason,
        } = policy;
        let body = Policy {
            item,
            tool_name: tool,
            hash: None,
            decision,
            by: DecidedBy::Person(uid).as_str(),
            uid: Some(uid),
            server_uid,
            reason,
        };
        let subject = Subject::server(ServerId(server.into())).of_user(server_uid);
        let event = Event::new(now, subject, body);
        self.output.output(Output::Event(&event));
    }
}

/// Whether a tool that cannot be typed is shown as `name`, in full or as lists have it.
fn is_shown_as(key: &ItemKey, name: &str) -> bool {
    plain(&key.name) == name || printable(&key.name, SHOWN_NAME) == name
}

/// What was decided, apart from about whom and by whom.
struct PolicyChange {
    item: PolicyItem,
    tool: Option<String>,
    decision: PolicyDecision,
    reason: String,
}

#[cfg(test)]
mod tests;
