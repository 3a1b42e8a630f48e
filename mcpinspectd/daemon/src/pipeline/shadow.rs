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
use mcpinspect_core::model::{Input, ItemKind, SessionId};
use mcpinspect_engine::event::body::{MatchedRule, RuleMatched};
use mcpinspect_engine::event::{Body, Event, Subject};
use mcpinspect_engine::examine::findings_in;
use mcpinspect_engine::{Judgement, MessageSeen, Output};
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::session::Session;
use mcpinspect_judge::policy::situation::{Kind, MessageFinding, Parties, ToolStatus};
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
    /// What they say about the message that was judged last, until it is reported.
    due: Vec<Event>,
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
    pub(super) fn attend(&mut self, input: &Input<'_>, table: &SessionTable, registry: &Registry) {
        // The registry does not know a session that starts.
        let (Some(rules), false) = (&self.rules, matches!(input, Input::SessionStarted(_))) else {
            return;
        };
        let id = input.session();
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

    /// Takes note of what the engine says. Returns the events that follow it: what the rules say about a message
    /// comes right behind the message.
    pub(super) fn consider(&mut self, output: Output<'_>) -> Vec<Event> {
        match output {
            Output::Judged(message, judgement) => {
                self.due = self.judge(message, judgement);
                Vec::new()
            }
            Output::Message(_) => std::mem::take(&mut self.due),
            Output::Event(event) => {
                self.happened(event);
                Vec::new()
            }
            Output::Member(_) | Output::Overdue(_) => Vec::new(),
        }
    }

    fn happened(&mut self, event: &Event) {
        match (&event.body, &event.subject) {
            // Decisions about pins are made while no messages pass.
            (Body::Policy(_), _) => {
                for watched in self.sessions.values_mut() {
                    watched.is_stale = true;
                }
            }
            (Body::SessionEnded(_), Some(subject)) => {
                self.sessions.remove(&subject.session_id);
            }
            _ => {}
        }
    }

    /// What the rules say about a message, as events.
    fn judge(&mut self, seen: &MessageSeen<'_>, judgement: &Judgement) -> Vec<Event> {
        let Some(Watched {
            session,
            uid,
            is_stale,
        }) = self.sessions.get_mut(&seen.session.id)
        else {
            return Vec::new();
        };
        let mut findings: Vec<MessageFinding> = Vec::new();
        for event in judgement.events() {
            findings.extend(findings_in(event));
            // A rule may want to hide it in this very listing.
            if let Body::ToolChanged(changed) = &event.body {
                session.note_status(&changed.tool_name, ToolStatus::Changed);
            }
        }
        *is_stale |=
            seen.exchange.reply_to() == Some("tools/list") || !judgement.events().is_empty();
        session.note_server(&seen.session.server_id.0);
        let handled = session.handle(seen.frame.direction, seen.bytes, seen.frame.time, &findings);
        let records = handled.records.into_iter();
        let subject = || Subject {
            session_id: seen.session.id.clone(),
            server_pid: seen.session.server_pid,
            ..Subject::server(seen.session.server_id.clone()).of_user(*uid)
        };
        let told = records.filter(|record| record.action != "allow");
        told.map(|record| {
            Event::new(
                seen.frame.time,
                subject(),
                matched(record, seen.frame.sequence),
            )
        })
        .collect()
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

#[cfg(test)]
mod tests;
