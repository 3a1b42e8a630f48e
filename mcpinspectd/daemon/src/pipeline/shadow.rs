//! The policy as a shadow: what its rules say about each message, after it has arrived.
//!
//! The daemon watches and cannot keep a message back. So it evaluates the same chain that a guard enforces,
//! and reports as an event what a guard would have done. It does what an observer can: a rule
//! may log, alert, or have the server frozen or killed, through the same containment as for findings.
//!
//! Without a policy this stage is one comparison per input. With one, a session has fixed space for
//! requests that wait for answers and for what its rules remember, which is freed when the session ends.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::{ItemKind, SessionId};
use mcpinspect_engine::event::body::{MatchedRule, RuleMatched};
use mcpinspect_engine::event::{Body, Event, Subject};
use mcpinspect_engine::examine::found_in;
use mcpinspect_engine::{Judgement, MessageSeen, Output, OutputSink};
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::session::Session;
use mcpinspect_judge::policy::situation::{Found, Kind, Parties, ToolStatus};
use mcpinspect_judge::registry::{Registry, ServerOf, Standing};

use super::sessions::SessionTable;

/// Most bytes of a name in an event.
const NAME: usize = 256;
/// Most rules, and most hidden tools, of one event.
const LISTED: usize = 64;

/// A policy, and what it needs to know about this machine.
#[derive(Clone, Debug)]
pub struct ShadowPolicy {
    /// The rules.
    pub policy: Arc<Policy>,
    /// The zone in which times of day are meant.
    pub zone: TimeZone,
    /// The names of users.
    pub users: HashMap<u32, String>,
}

/// The policy, and what it remembers about each session.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    rules: Option<ShadowPolicy>,
    sessions: HashMap<SessionId, Watched>,
}

#[derive(Debug)]
struct Watched {
    session: Session,
    uid: Option<u32>,
    /// Whether the pins of its tools may have changed.
    is_stale: bool,
}

impl Shadow {
    /// Replaces the rules. Forgets what earlier ones remembered.
    pub(super) fn replace(&mut self, rules: Option<ShadowPolicy>) {
        self.rules = rules.filter(|rules| !rules.policy.rules().is_empty());
        self.sessions = HashMap::new();
    }

    /// Registers a session before its first message.
    pub(super) fn attend(&mut self, id: &SessionId, table: &SessionTable, registry: &Registry) {
        let Some(rules) = &self.rules else {
            return;
        };
        let Some(parties) = table.parties(id) else {
            return;
        };
        if !self.sessions.contains_key(id) {
            let uid = table.uid(id);
            let name = uid.and_then(|uid| rules.users.get(&uid).cloned());
            let parties = Parties {
                user: uid
                    .map(|uid| uid.to_string())
                    .into_iter()
                    .chain(name)
                    .collect(),
                zone: rules.zone.clone(),
                ..Parties::of(&parties.server_id.0)
            };
            let session = Session::new(Arc::clone(&rules.policy), parties).watched();
            let watched = Watched {
                session,
                uid,
                is_stale: true,
            };
            self.sessions.insert(id.clone(), watched);
        }
        let Some(watched) = self.sessions.get_mut(id) else {
            return;
        };
        if !watched.is_stale || !rules.policy.asks_for_tool_status() {
            return;
        }
        watched.is_stale = false;
        watched.session.forget_statuses();
        let server = ServerOf::new(registry.owner(watched.uid), &parties.server_id.0);
        for key in registry.keys(server) {
            let status = match registry.standing(server, key) {
                Some(Standing::Accepted) => ToolStatus::Approved,
                Some(Standing::Changed) => ToolStatus::Changed,
                // As for an unknown tool.
                Some(Standing::FirstUse) | None => continue,
            };
            if key.kind == ItemKind::Tool {
                watched.session.note_status(&key.name, status);
            }
        }
    }

    /// Forgets a session.
    pub(super) fn ended(&mut self, id: &SessionId) {
        self.sessions.remove(id);
    }

    /// What the rules say about a message, as events.
    fn judge(&mut self, seen: &MessageSeen<'_>, judgement: &Judgement) -> Vec<Event> {
        let Some(Watched {
            session,
            uid,
            is_stale,
        }) = self.sessions.get_mut(seen.session_id)
        else {
            return Vec::new();
        };
        let mut findings: Vec<Found> = Vec::new();
        for event in judgement.events() {
            findings.extend(found_in(event));
            // A rule may want to hide it in this very listing.
            if let Body::ToolChanged(changed) = &event.body {
                session.note_status(&changed.tool_name, ToolStatus::Changed);
            }
        }
        *is_stale |= seen.reply_to == Some("tools/list") || !judgement.events().is_empty();
        session.note_server(&seen.server_id.0);
        let handled = session.handle(seen.direction, seen.bytes, seen.time, &findings);
        let records = handled.records.into_iter();
        let subject = || Subject {
            session_id: seen.session_id.clone(),
            server_pid: seen.server_pid,
            ..Subject::server(seen.server_id.clone()).of_user(*uid)
        };
        let told = records.filter(|record| record.action != "allow");
        told.map(|record| Event::new(seen.time, subject(), matched(record, seen.sequence)))
            .collect()
    }
}

/// Notices decisions about pins, which are made while no messages pass.
impl OutputSink for Shadow {
    fn output(&mut self, output: Output<'_>) {
        if let Output::Event(event) = output
            && matches!(event.body, Body::Policy(_))
        {
            for watched in self.sessions.values_mut() {
                watched.is_stale = true;
            }
        }
    }
}

/// A decision as an event.
fn matched(record: Record, message: u64) -> RuleMatched {
    let short = |text: String| cut(&text, NAME).to_owned();
    let rules = record.rules.into_iter().take(LISTED);
    RuleMatched {
        direction: record.direction,
        kind: record.kind.map(Kind::as_str),
        method: record.method.map(short),
        tool_name: record.tool.map(short),
        message,
        decision: record.action,
        enforced: matches!(record.action, "log" | "alert" | "freeze" | "kill"),
        rules: rules
            .map(|rule| MatchedRule {
                id: rule.id,
                name: rule.name.map(short),
                action: rule.action,
            })
            .collect(),
        reason: record.reason,
        hidden: record.hidden.into_iter().take(LISTED).map(short).collect(),
    }
}

/// An output that passes everything on, and adds what the policy says after each message.
pub(super) struct Shadowed<'a, O> {
    pub(super) shadow: &'a mut Shadow,
    pub(super) output: &'a mut O,
    pub(super) due: Vec<Event>,
}

impl<O: OutputSink> OutputSink for Shadowed<'_, O> {
    fn output(&mut self, output: Output<'_>) {
        self.output.output(output);
        match output {
            Output::Judged(message, judgement) => {
                self.due = self.shadow.judge(message, judgement);
            }
            Output::Message(_) => {
                for event in std::mem::take(&mut self.due) {
                    self.output.output(Output::Event(&event));
                }
            }
            Output::Member(_) | Output::Overdue(_) | Output::Event(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
