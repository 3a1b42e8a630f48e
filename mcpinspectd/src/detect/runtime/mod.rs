//! Detection on the live stream: definitions beside those of other servers and of yesterday,
//! messages in the order in which they come.
//!
//! Text is looked at as it is offline (see [`super::analyse`]); what is added here is memory: which
//! server owns which tool, what a definition was when it was pinned, which values were private, how
//! fast things happen. All of it is bounded, and none of it does I/O or reads a clock.

mod flow;
mod rate;
mod role;
mod tampering;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::analyse::{Analyser, Circumstances, Report};
use super::api::{Detector, Difference, MessageInContext, SessionContext, ToolDefinition, Verdict};
use super::category::Category;
use super::extract::Subject;
use super::knowledge::{Current, Knowledge};
use super::message::{self, Found};
use super::neighbours::{Card, Neighbours};
use super::shown;
use super::tree::{self, Members, Tree};
use crate::mcp::{Message, Outcome};
use crate::model::{
    Action, DefinitionHash, Detection, Direction, Match, SessionId, Severity, ToolStatus,
};
use crate::text::redact;
use flow::{Flows, Leak, Origin};
use rate::Rate;
use role::Role;

/// Most definitions whose verdict is remembered.
const CACHE: usize = 20_000;
/// Most sessions whose behaviour is followed.
const SESSIONS: usize = 4096;
/// Most tools of a session whose calls are counted.
const COUNTED_TOOLS: usize = 256;
/// Calls of one tool in a minute that are still usual.
const CALLS: u32 = 600;
/// Errors of one session in a minute that are still usual.
const ERRORS: u32 = 60;
/// Sampling requests of one session in a minute that are still usual.
const SAMPLINGS: u32 = 20;
/// Calls in a session after which a changed definition is a delayed one.
const DELAYED: u32 = 3;
/// Most bytes of a message's texts in which secrets and values are looked for.
const TEXT_LIMIT: usize = 256 * 1024;

/// What is followed of a session.
#[derive(Debug, Default)]
struct Behaviour {
    calls: u32,
    tools: HashMap<Box<str>, Rate>,
    errors: Rate,
    samplings: Rate,
}

/// Looks at what goes by. One for the whole machine.
#[derive(Debug)]
pub struct Watch {
    current: Arc<Current>,
    generation: u64,
    analyser: Analyser,
    neighbours: Neighbours,
    cache: HashMap<(Arc<str>, DefinitionHash), Verdict>,
    sessions: HashMap<SessionId, Behaviour>,
    flows: Flows,
}

impl Watch {
    /// Watches with what is current now and after each replacement.
    pub fn new(current: Arc<Current>) -> Self {
        Self {
            generation: current.generation(),
            analyser: Analyser::new(current.get()),
            current,
            neighbours: Neighbours::new(),
            cache: HashMap::new(),
            sessions: HashMap::new(),
            flows: Flows::default(),
        }
    }

    /// Takes over new rules, if there are any.
    fn refresh(&mut self) {
        let generation = self.current.generation();
        if generation != self.generation {
            self.generation = generation;
            self.analyser = Analyser::new(self.current.get());
            self.cache.clear();
        }
    }

    fn behaviour(&mut self, session: &SessionId) -> Option<&mut Behaviour> {
        if !self.sessions.contains_key(session) && self.sessions.len() >= SESSIONS {
            return None;
        }
        Some(self.sessions.entry(session.clone()).or_default())
    }

    fn look_at(
        &mut self,
        context: &SessionContext<'_>,
        definition: &Tree<'_>,
        card: Option<&Card>,
    ) -> Report {
        let circumstances = Circumstances {
            server: Some(&context.server_id.0),
            tool: None,
            time: context.time,
            neighbours: Some(&self.neighbours),
            card,
        };
        self.analyser.tool(definition, circumstances)
    }

    /// Compares a changed definition with its pin: what the change brought in counts more than what
    /// was there when somebody looked at it.
    fn changed(&mut self, context: &SessionContext<'_>, report: &mut Report, pinned: &RawValue) {
        let before = self.look_at(context, &tree::of(pinned), None);
        let new = report
            .detections
            .iter()
            .filter(|now| {
                !before
                    .detections
                    .iter()
                    .any(|then| then.pattern == now.pattern)
            })
            .count();
        if report.action == Action::None || new == 0 {
            return;
        }
        let calls = self
            .sessions
            .get(context.session_id)
            .map_or(0, |behaviour| behaviour.calls);
        let when = if calls >= DELAYED {
            format!(" after {calls} calls in the same session")
        } else {
            String::new()
        };
        report.absorb(finding(
            Finding { pattern: "rug-pull", category: Category::RugPull, severity: Severity::High, action: Action::Alert },
            "definition",
            "",
            format!("The definition was changed{when}, and the change brought {new} finding(s) that the pinned one had not."),
        ));
    }

    fn subject(&mut self, context: &SessionContext<'_>, found: &Found<'_>) -> Report {
        let circumstances = Circumstances {
            server: Some(&context.server_id.0),
            tool: found.tool,
            time: context.time,
            ..Circumstances::default()
        };
        let mut report = message::analyse(&mut self.analyser, found, circumstances);
        let own = match found.subject {
            Subject::Sampling => Some(Category::SamplingAbuse),
            Subject::Elicitation => Some(Category::ElicitationAbuse),
            _ => None,
        };
        for detection in &mut report.detections {
            detection.field = format!("{}.{}", found.place, detection.field);
            if let Some(category) = own {
                detection.category = category.as_str().to_owned();
            }
        }
        match found.subject {
            Subject::Elicitation => elicits_secret(found.value, &mut report),
            Subject::Sampling => self.sampling(context, found.value, &mut report),
            _ => {}
        }
        report
    }

    fn sampling(&mut self, context: &SessionContext<'_>, params: &Tree<'_>, report: &mut Report) {
        let warns = |pattern, explanation: String, report: &mut Report| {
            let what = Finding {
                pattern,
                category: Category::SamplingAbuse,
                severity: Severity::Medium,
                action: Action::Warn,
            };
            report.absorb(finding(what, "params", "", explanation));
        };
        if params.get("includeContext").and_then(Tree::as_str) == Some("allServers") {
            warns(
                "sampling-context",
                "Asks for the context of all servers in a sampling request.".into(),
                report,
            );
        }
        let time = context.time;
        if let Some(count) = self
            .behaviour(context.session_id)
            .and_then(|behaviour| behaviour.samplings.tick(time, SAMPLINGS))
        {
            warns(
                "sampling-rate",
                format!("Sent {count} sampling requests within a minute."),
                report,
            );
        }
    }

    fn call(
        &mut self,
        context: &SessionContext<'_>,
        tool: &str,
        arguments: &Tree<'_>,
        report: &mut Report,
    ) {
        let time = context.time;
        if let Some(behaviour) = self.behaviour(context.session_id) {
            behaviour.calls = behaviour.calls.saturating_add(1);
            let room = behaviour.tools.len() < COUNTED_TOOLS;
            let name = crate::text::bound(tool, 96);
            if room && !behaviour.tools.contains_key(&*name) {
                behaviour.tools.insert(Box::from(&*name), Rate::default());
            }
            if let Some(count) = behaviour
                .tools
                .get_mut(&*name)
                .and_then(|rate| rate.tick(time, CALLS))
            {
                let what = Finding {
                    pattern: "call-rate",
                    category: Category::RateAnomaly,
                    severity: Severity::Low,
                    action: Action::Warn,
                };
                report.absorb(finding(
                    what,
                    "params",
                    "",
                    format!("Was called {count} times within a minute."),
                ));
            }
        }
        let text = texts(arguments);
        secrets(&text, "secret-in-argument", "params.arguments", report);
        if Role::of(tool).sends
            && let Some(flow) = self.flows.known(context)
            && let Some(leak) = flow.sends(&context.server_id.0, tool, time, &text)
        {
            report.absorb(toxic(&leak));
        }
    }

    fn result(
        &mut self,
        context: &SessionContext<'_>,
        tool: Option<&str>,
        result: &Tree<'_>,
        report: &mut Report,
    ) {
        let text = texts(result);
        secrets(&text, "secret-in-result", "result", report);
        let Some(tool) = tool else { return };
        let role = Role::of(tool);
        if !role.untrusted && !role.private {
            return;
        }
        let flow = self.flows.of(context);
        let origin = Origin {
            server: Arc::clone(&context.server_id.0),
            tool: Arc::from(&*crate::text::bound(tool, 96)),
            time: context.time,
        };
        if role.untrusted {
            flow.untrusted(origin.clone());
        }
        if role.private {
            flow.private(&origin, &text);
        }
    }

    /// Leaves out what people do not want to see.
    fn unsuppressed(
        &self,
        context: &SessionContext<'_>,
        tool: Option<&str>,
        report: Report,
    ) -> Verdict {
        let knowledge: &Knowledge = self.analyser.knowledge();
        let silences: Vec<_> = knowledge
            .rules
            .suppressions()
            .iter()
            .filter(|one| one.concerns(Some(&context.server_id.0), tool, context.time))
            .collect();
        let mut verdict = Verdict {
            complete: !report.truncated && silences.is_empty(),
            max_severity: report.severity,
            action: report.action,
            detections: report.detections,
        };
        if !silences.is_empty() {
            verdict.detections.retain(|detection| {
                !silences
                    .iter()
                    .any(|one| one.silences(&detection.pattern, &detection.category))
            });
            if verdict.detections.is_empty() {
                return Verdict::UNCHECKED;
            }
        }
        verdict
    }
}

impl Detector for Watch {
    fn tool(&mut self, context: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict {
        self.refresh();
        let key = (Arc::clone(&context.server_id.0), tool.hash);
        if tool.status != ToolStatus::Changed
            && let Some(known) = self.cache.get(&key)
        {
            return known.clone();
        }
        let definition = tree::of(tool.definition);
        let card = Card::of(&definition).map(Arc::new);
        if let Some(card) = &card {
            self.neighbours
                .learn(&context.server_id.0, Arc::clone(card));
        }
        let mut report = self.look_at(context, &definition, card.as_deref());
        if let Some(pinned) = tool.pinned {
            self.changed(context, &mut report, pinned);
        }
        let verdict = self.unsuppressed(context, Some(tool.name), report);
        if tool.status != ToolStatus::Changed {
            if self.cache.len() >= CACHE {
                self.cache.clear();
            }
            self.cache.insert(key, verdict.clone());
        }
        verdict
    }

    fn introduction(
        &mut self,
        context: &SessionContext<'_>,
        said: &RawValue,
        _: ToolStatus,
    ) -> Verdict {
        self.refresh();
        let circumstances = Circumstances {
            server: Some(&context.server_id.0),
            time: context.time,
            neighbours: Some(&self.neighbours),
            ..Circumstances::default()
        };
        let report = self
            .analyser
            .value(&tree::of(said), Subject::Declaration, circumstances);
        self.unsuppressed(context, None, report)
    }

    fn message(&mut self, context: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict {
        self.refresh();
        // Definitions of tools come through `tool`, instructions through `instructions`.
        if matches!(
            message.reply_to,
            Some("tools/list" | "initialize" | "server/discover" | "ping")
        ) {
            return Verdict::CLEAN;
        }
        let Some(value) = whole(message.message) else {
            return Verdict::CLEAN;
        };
        let mut report = Report::clean();
        for found in message::subjects(&value) {
            let one = self.subject(context, &found);
            report.absorb(one);
            match (found.subject, found.tool.or(message.tool)) {
                (Subject::Arguments, Some(tool))
                    if message.direction == Direction::ClientToServer =>
                {
                    self.call(context, tool, found.value, &mut report)
                }
                (Subject::ToolResult | Subject::Content, tool) => {
                    self.result(context, tool, found.value, &mut report)
                }
                (Subject::Error, _) => {
                    let time = context.time;
                    if let Some(count) = self
                        .behaviour(context.session_id)
                        .and_then(|behaviour| behaviour.errors.tick(time, ERRORS))
                    {
                        let what = Finding {
                            pattern: "error-rate",
                            category: Category::RateAnomaly,
                            severity: Severity::Low,
                            action: Action::Warn,
                        };
                        report.absorb(finding(
                            what,
                            "error",
                            "",
                            format!("Sent {count} errors within a minute."),
                        ));
                    }
                }
                _ => {}
            }
        }
        self.unsuppressed(context, message.tool, report)
    }

    fn ends_disagree(
        &mut self,
        context: &SessionContext<'_>,
        difference: &Difference<'_>,
    ) -> Verdict {
        self.refresh();
        let report = tampering::judge(difference);
        self.unsuppressed(context, None, report)
    }

    fn session_ended(&mut self, session: &SessionId) {
        self.sessions.remove(session);
        self.flows.session_ended(session);
    }
}

/// The message as one value, as far as detection reads it.
fn whole<'a>(message: &'a Message<'_>) -> Option<Tree<'a>> {
    let members = match message {
        Message::Request(_) | Message::Notification(_) => vec![
            ("method", Tree::String(message.method()?.into())),
            ("params", tree::of(message.params()?)),
        ],
        Message::Response(response) => match response.outcome {
            Outcome::Result(raw) => vec![("result", tree::of(raw))],
            Outcome::Error(raw) => vec![("error", tree::of(raw))],
        },
    };
    let members = members.into_iter();
    Some(Tree::Object(
        members.map(|(key, value)| (key.into(), value)).collect(),
    ))
}

/// All strings of a value, one a line, bounded.
fn texts(value: &Tree<'_>) -> String {
    fn collect(value: &Tree<'_>, depth: usize, out: &mut String) {
        if depth > tree::DEPTH || out.len() >= TEXT_LIMIT {
            return;
        }
        match value {
            Tree::String(text) => {
                out.push_str(&crate::text::bound(text, TEXT_LIMIT - out.len()));
                out.push('\n');
            }
            Tree::Number(number) => {
                out.push_str(&number.to_string());
                out.push('\n');
            }
            Tree::Array(values) => values
                .iter()
                .for_each(|value| collect(value, depth + 1, out)),
            Tree::Object(fields) => {
                let binary = fields.contains_key("mimeType");
                fields
                    .iter()
                    .filter(|(key, _)| !(binary && matches!(*key, "data" | "blob")))
                    .for_each(|(_, value)| collect(value, depth + 1, out));
            }
            _ => {}
        }
    }
    let mut out = String::new();
    collect(value, 0, &mut out);
    out
}

/// What a finding of behaviour is.
struct Finding {
    pattern: &'static str,
    category: Category,
    severity: Severity,
    action: Action,
}

fn finding(what: Finding, field: &str, text: &str, explanation: String) -> Report {
    let Finding {
        pattern,
        category,
        severity,
        action,
    } = what;
    let excerpt = shown::excerpt(text, 160);
    let place = Match {
        text: excerpt.clone(),
        position: 0,
        context: excerpt,
    };
    Report {
        action,
        severity: Some(severity),
        score: 1.0,
        detections: vec![Detection {
            pattern: pattern.to_owned(),
            category: category.as_str().to_owned(),
            severity,
            matches: if text.is_empty() {
                Vec::new()
            } else {
                vec![place]
            },
            field: field.to_owned(),
            explanation,
        }],
        truncated: false,
    }
}

/// Keys in plain sight. Only what has the form of a key counts: a password is often in place.
fn secrets(text: &str, pattern: &'static str, field: &str, report: &mut Report) {
    let Some(hit) = redact::find(text)
        .into_iter()
        .find(redact::SecretHit::has_known_format)
    else {
        return;
    };
    let severity = if hit.kind.contains("private_key") {
        Severity::High
    } else {
        Severity::Medium
    };
    let what = Finding {
        pattern,
        category: Category::SecretExposure,
        severity,
        action: Action::Warn,
    };
    report.absorb(finding(
        what,
        field,
        &redact::placeholder(hit.kind),
        format!(
            "Carries a secret in plain text: {}.",
            hit.kind.replace('_', " ")
        ),
    ));
}

/// Names of the fields that a server wants filled in by the user, when one is a secret.
fn elicits_secret(params: &Tree<'_>, report: &mut Report) {
    let properties = params
        .get("requestedSchema")
        .and_then(|schema| schema.get("properties"))
        .and_then(Tree::as_object);
    let asked = properties
        .into_iter()
        .flat_map(Members::iter)
        .find(|(name, property)| {
            let title = property
                .get("title")
                .and_then(Tree::as_str)
                .unwrap_or_default();
            redact::secret_name(name).is_some() || redact::secret_name(title).is_some()
        });
    if let Some((name, _)) = asked {
        let what = Finding {
            pattern: "elicits-secret",
            category: Category::ElicitationAbuse,
            severity: Severity::High,
            action: Action::Alert,
        };
        report.absorb(finding(
            what,
            "params.requestedSchema",
            name,
            "Asks the user for a secret, which the protocol forbids.".into(),
        ));
    }
}

fn toxic(leak: &Leak) -> Report {
    let Leak {
        untrusted,
        private,
        values,
    } = leak;
    let what = Finding {
        pattern: "toxic-flow",
        category: Category::ToxicFlow,
        severity: Severity::High,
        action: Action::Alert,
    };
    let explanation = format!(
        "Sends {values} value(s) that `{}` of `{}` returned, after `{}` of `{}` brought in text of strangers.",
        shown::excerpt(&private.tool, 80),
        shown::excerpt(&private.server, 80),
        shown::excerpt(&untrusted.tool, 80),
        shown::excerpt(&untrusted.server, 80)
    );
    finding(what, "params.arguments", "", explanation)
}

#[cfg(test)]
mod tests;
