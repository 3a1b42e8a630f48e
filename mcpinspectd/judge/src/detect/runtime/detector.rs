//! The detector that the daemon runs.

use std::collections::HashMap;
use std::sync::Arc;

use mcpinspect_core::model::{Action, Severity, ToolStatus};
use mcpinspect_core::model::{DefinitionHash, ServerId, Timestamp};
use mcpinspect_core::model::{Direction, SessionId};
use mcpinspect_core::text::bound;
use serde_json::value::RawValue;

use super::activity::Activity;
use super::data_flow::{DataFlows, DataOrigin};
use super::findings::{self, FindingKind, finding};
use super::offered::OfferedToolsByUser;
use super::tampering;
use super::tool_role::ToolRole;
use super::values::{message_value, text_of, texts_of};
use crate::detect::analysis::message;
use crate::detect::analysis::message::MessageSubject;
use crate::detect::analysis::{Analyser, AnalysisContext, Report, Subject};
use crate::detect::api::{
    Detector, Difference, MessageInContext, Offer, SessionContext, ToolDefinition, Verdict,
};
use crate::detect::behaviour::{TextLocation, TextSource, ToolCall};
use crate::detect::category::Category;
use crate::detect::cross_server::ToolProfile;
use crate::detect::json::{BoundedValue, Json};
use crate::detect::layers::Layers;
use crate::detect::rules::Suppression;
use crate::detect::weighted_rules::ActiveRules;

/// Most definitions whose verdict is cached, and bytes of memory for the verdicts.
const CACHE: usize = 20_000;
const CACHE_BYTES: usize = 6 << 20;
/// After this many calls in a session, a changed definition counts as a delayed change.
pub(super) const DELAYED: u32 = 3;
/// Most bytes of a tool's name to keep.
const TOOL_NAME: usize = 96;

/// Judges what passes. One serves the whole machine.
#[derive(Debug)]
pub struct RuntimeDetector {
    active: Arc<ActiveRules>,
    /// The generation of `active` that the analyser uses.
    generation: u64,
    analyser: Analyser,
    offered: OfferedToolsByUser,
    /// Verdicts on definitions, by server and its user: suppressions may apply to one user.
    cache: HashMap<(Arc<str>, Option<u32>, DefinitionHash), Verdict>,
    /// Bytes of memory that the cached verdicts occupy.
    cached: usize,
    activity: Activity,
    flows: DataFlows,
    layers: Layers,
    /// The last score.
    score: f32,
}

impl RuntimeDetector {
    /// A detector that uses the rules of `active`, even after they are replaced.
    pub fn new(active: Arc<ActiveRules>) -> Self {
        Self {
            generation: active.generation(),
            analyser: Analyser::new(active.get()),
            active,
            offered: OfferedToolsByUser::default(),
            cache: HashMap::new(),
            cached: 0,
            activity: Activity::default(),
            flows: DataFlows::default(),
            layers: Layers::ALL,
            score: 0.0,
        }
    }

    /// Limits the detector to some layers.
    #[must_use]
    pub fn with_layers(self, layers: Layers) -> Self {
        Self { layers, ..self }
    }

    /// The probability of an attack in what was judged last, from 0 to 1.
    pub fn last_score(&self) -> f32 {
        self.score
    }

    /// Takes over new rules, if there are any.
    fn refresh(&mut self) {
        let generation = self.active.generation();
        if generation != self.generation {
            self.generation = generation;
            self.analyser = Analyser::new(self.active.get());
            self.empty_cache();
        }
    }

    fn empty_cache(&mut self) {
        self.cache.clear();
        self.cached = 0;
    }

    fn analyse(
        &mut self,
        context: &SessionContext<'_>,
        definition: &BoundedValue<'_>,
        profile: Option<&ToolProfile>,
    ) -> Report {
        let context = AnalysisContext {
            server: Some(&context.server_id.0),
            user: context.user,
            tool: None,
            time: context.time,
            tools: Some(&self.offered.of(context.user).tools),
            profile,
            incomplete: definition.cut || definition.flattened,
        };
        let context = match self.layers.context {
            true => context,
            false => AnalysisContext {
                tools: None,
                ..context
            },
        };
        match self.layers.evidence {
            true => self.analyser.tool(&definition.value, context),
            false => Report::clean(),
        }
    }

    /// Compares a changed definition with its pin: findings that the change added count for more than those
    /// that were there when a person accepted it.
    fn changed(&mut self, context: &SessionContext<'_>, report: &mut Report, pinned: &RawValue) {
        let before = self.analyse(context, &BoundedValue::of(pinned), None);
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
        let calls = self.activity.calls(context.session_id);
        let when = if calls >= DELAYED {
            format!(" after {calls} calls in the same session")
        } else {
            String::new()
        };
        let kind = FindingKind {
            pattern: "rug-pull",
            category: Category::RugPull,
            severity: Severity::High,
            action: Action::Alert,
        };
        let explanation = format!(
            "The definition was changed{when}, and the change brought {new} finding(s) that the pinned one had not."
        );
        report.absorb(finding(kind, "definition", "", explanation));
    }

    /// Judges one subject of a message.
    fn subject(&mut self, context: &SessionContext<'_>, subject: &MessageSubject<'_>) -> Report {
        let analysis = AnalysisContext {
            server: Some(&context.server_id.0),
            user: context.user,
            tool: subject.tool,
            time: context.time,
            ..AnalysisContext::default()
        };
        let mut report = match self.layers.evidence {
            true => message::analyse(&mut self.analyser, subject, analysis),
            false => Report::clean(),
        };
        let category = match subject.subject {
            Subject::Sampling => Some(Category::SamplingAbuse),
            Subject::Elicitation => Some(Category::ElicitationAbuse),
            _ => None,
        };
        for detection in &mut report.detections {
            detection.field = format!("{}.{}", subject.path, detection.field);
            if let Some(category) = category {
                detection.category = category.as_str().to_owned();
            }
        }
        match subject.subject {
            Subject::Elicitation => findings::elicited_secret(subject.value, &mut report),
            Subject::Sampling => self.sampling(context, subject.value, &mut report),
            _ => {}
        }
        report
    }

    /// Judges a request to the model.
    fn sampling(&mut self, context: &SessionContext<'_>, params: &Json<'_>, report: &mut Report) {
        let mut warn = |pattern, explanation| {
            let kind = FindingKind {
                pattern,
                category: Category::SamplingAbuse,
                severity: Severity::Medium,
                action: Action::Warn,
            };
            report.absorb(finding(kind, "params", "", explanation));
        };
        if params.get("includeContext").and_then(Json::as_str) == Some("allServers") {
            warn(
                "sampling-context",
                "Asks for the context of all servers in a sampling request.".into(),
            );
        }
        if let Some(count) = self.activity.sampling(context.session_id, context.time) {
            warn(
                "sampling-rate",
                format!("Sent {count} sampling requests within a minute."),
            );
        }
    }

    /// Judges a call of a tool.
    fn call(
        &mut self,
        context: &SessionContext<'_>,
        tool: &str,
        arguments: &Json<'_>,
        report: &mut Report,
    ) {
        let name = bound(tool, TOOL_NAME);
        if let Some(count) = self.activity.call(context.session_id, &name, context.time) {
            let explanation = format!("Was called {count} times within a minute.");
            let kind = unusual_rate("call-rate");
            report.absorb(finding(kind, "params", "", explanation));
        }
        if self.layers.behaviour {
            self.obedience(context, tool, arguments, report);
        }
        let text = text_of(arguments);
        findings::secrets(&text, "secret-in-argument", "params.arguments", report);
        if ToolRole::of(tool).sends
            && let Some(data) = self.flows.get(context)
            && let Some(leak) = data.leak(&context.server_id.0, tool, context.time, &text)
        {
            let told = data.was_told_to_send(leak.private.time, context.time);
            report.absorb(findings::leak(&leak, told));
        }
    }

    /// Judges whether a call does what a text ordered, and remembers what the agent has named.
    fn obedience(
        &mut self,
        context: &SessionContext<'_>,
        tool: &str,
        arguments: &Json<'_>,
        report: &mut Report,
    ) {
        let server = &context.server_id.0;
        let act = self.offered.of(context.user).acts.get(server, tool);
        let memory = &mut self.flows.get_or_insert(context).memory;
        let call = ToolCall::new(&act, tool, arguments, memory.hasher());
        if let Some(obeyed) = call.obeys(memory, context.time, server, tool) {
            report.absorb(findings::obeyed(&obeyed, server, tool, context.time));
        }
        memory.know(call.values());
    }

    /// Remembers a text that the agent has read. `suspicious` says whether it justified a warning, and
    /// `marks` where.
    fn has_read(
        &mut self,
        context: &SessionContext<'_>,
        tool: Option<&str>,
        (value, field): (&Json<'_>, &str),
        (suspicious, definition): (bool, bool),
        marks: &[TextLocation<'_>],
    ) {
        let source = TextSource {
            server: Arc::clone(&context.server_id.0),
            tool: tool.map(|tool| Arc::from(&*bound(tool, TOOL_NAME))),
            field: field.into(),
            time: context.time,
            suspicious,
            definition,
        };
        let memory = &mut self.flows.get_or_insert(context).memory;
        memory.read(&source, texts_of(value, field), marks);
    }

    /// Remembers the definition of a tool that is not above suspicion.
    fn has_read_definition(
        &mut self,
        context: &SessionContext<'_>,
        tool: &ToolDefinition<'_>,
        verdict: &Verdict,
    ) {
        if self.layers.behaviour && verdict.action >= Action::Warn {
            let definition = BoundedValue::of(tool.definition);
            let value = (&definition.value, "definition");
            self.has_read(context, Some(tool.name), value, (true, true), &[]);
        }
    }

    /// Judges a result, and remembers what it brought in. `found` is what its text alone justified.
    fn result(
        &mut self,
        context: &SessionContext<'_>,
        tool: Option<&str>,
        result: &Json<'_>,
        found: &Report,
        report: &mut Report,
    ) {
        if self.layers.behaviour {
            let suspicious = found.action >= Action::Warn;
            let marks = marks_of(found);
            let value = (result, "result");
            self.has_read(context, tool, value, (suspicious, false), &marks);
        }
        let text = text_of(result);
        findings::secrets(&text, "secret-in-result", "result", report);
        let Some(tool) = tool else { return };
        let role = ToolRole::of(tool);
        if !role.untrusted && !role.private {
            return;
        }
        let data = self.flows.get_or_insert(context);
        let origin = DataOrigin {
            server: Arc::clone(&context.server_id.0),
            tool: Arc::from(&*bound(tool, TOOL_NAME)),
            time: context.time,
        };
        if role.untrusted {
            data.untrusted_text(origin.clone());
        }
        if role.private {
            data.private_data(&origin, &text);
        }
    }

    /// Counts an error.
    fn error(&mut self, context: &SessionContext<'_>, report: &mut Report) {
        if let Some(count) = self.activity.error(context.session_id, context.time) {
            let explanation = format!("Sent {count} errors within a minute.");
            let kind = unusual_rate("error-rate");
            report.absorb(finding(kind, "error", "", explanation));
        }
    }

    /// The verdict of a report, without the findings that people have suppressed.
    fn verdict(&self, context: &SessionContext<'_>, tool: Option<&str>, report: Report) -> Verdict {
        let active = self.analyser.rules();
        let suppressions: Vec<&Suppression> = active
            .rules
            .suppressions()
            .iter()
            .filter(|one| {
                let server = Some(&*context.server_id.0);
                one.applies_to(server, context.user, tool, context.time)
            })
            .collect();
        let mut verdict = Verdict {
            complete: !report.truncated && suppressions.is_empty(),
            undecided: report.undecided,
            max_severity: report.severity,
            action: report.action,
            detections: report.detections,
        };
        if !suppressions.is_empty() {
            verdict.detections.retain(|detection| {
                !suppressions
                    .iter()
                    .any(|one| one.covers(&detection.pattern, &detection.category))
            });
            if verdict.detections.is_empty() {
                return Verdict::UNCHECKED;
            }
        }
        verdict
    }
}

/// The kind of finding that something happens at an unusual rate.
fn unusual_rate(pattern: &'static str) -> FindingKind {
    FindingKind {
        pattern,
        category: Category::RateAnomaly,
        severity: Severity::Low,
        action: Action::Warn,
    }
}

/// The places of what was found in a text.
fn marks_of(found: &Report) -> Vec<TextLocation<'_>> {
    let found = found.detections.iter();
    let places = found.flat_map(|one| {
        let places = one.matches.iter();
        places.map(|place| (one.field.as_str(), place.position))
    });
    places.collect()
}

impl Detector for RuntimeDetector {
    fn questionable(
        &mut self,
        server: &ServerId,
        user: Option<u32>,
        definition: &RawValue,
        time: Timestamp,
    ) -> Option<Category> {
        self.refresh();
        let session = SessionId::none();
        let context = SessionContext {
            server_id: server,
            user,
            session_id: &session,
            client: None,
            time,
        };
        self.analyse(&context, &BoundedValue::of(definition), None)
            .questionable
    }

    fn offered(&mut self, context: &SessionContext<'_>, offer: &Offer<'_>) {
        let offered = self.offered.of_mut(context.user);
        offered.tools.offer(&context.server_id.0, offer);
    }

    fn tool(&mut self, context: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict {
        self.refresh();
        let server = Arc::clone(&context.server_id.0);
        let key = (server, context.user, tool.hash);
        if tool.status != ToolStatus::Changed
            && let Some(known) = self.cache.get(&key)
        {
            let known = known.clone();
            self.has_read_definition(context, tool, &known);
            return known;
        }
        let definition = BoundedValue::of(tool.definition);
        let server = &context.server_id.0;
        let acts = &mut self.offered.of_mut(context.user).acts;
        acts.learn(server, tool.name, &definition.value);
        let profile = ToolProfile::of(&definition.value).map(Arc::new);
        if let Some(profile) = &profile {
            let profile = Arc::clone(profile);
            self.offered.insert(context.user, server, profile);
        }
        let mut report = self.analyse(context, &definition, profile.as_deref());
        drop(definition);
        if let Some(pinned) = tool.pinned {
            self.changed(context, &mut report, pinned);
        }
        self.score = report.score;
        let verdict = self.verdict(context, Some(tool.name), report);
        if tool.status != ToolStatus::Changed && !verdict.undecided {
            if self.cache.len() >= CACHE || self.cached >= CACHE_BYTES {
                self.empty_cache();
            }
            self.cached += verdict.size();
            self.cache.insert(key, verdict.clone());
        }
        self.has_read_definition(context, tool, &verdict);
        verdict
    }

    fn introduction(
        &mut self,
        context: &SessionContext<'_>,
        introduction: &RawValue,
        _: ToolStatus,
    ) -> Verdict {
        self.refresh();
        let introduction = BoundedValue::of(introduction);
        let analysis = AnalysisContext {
            server: Some(&context.server_id.0),
            user: context.user,
            time: context.time,
            tools: Some(&self.offered.of(context.user).tools),
            incomplete: introduction.cut || introduction.flattened,
            ..AnalysisContext::default()
        };
        let report = self
            .analyser
            .value(&introduction.value, Subject::Declaration, analysis);
        self.verdict(context, None, report)
    }

    fn message(&mut self, context: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict {
        self.refresh();
        // Definitions of tools are judged by `tool`, instructions by `introduction`.
        if matches!(
            message.reply_to,
            Some("tools/list" | "initialize" | "server/discover" | "ping")
        ) {
            return Verdict::CLEAN;
        }
        let Some(reading) = message_value(message.message) else {
            return Verdict::CLEAN;
        };
        let mut report = Report::clean();
        let subjects = message::subjects(&reading.value);
        report.unread = reading.cut || subjects.len() >= message::SUBJECTS;
        for subject in subjects {
            let one = self.subject(context, &subject);
            report.absorb(one.clone());
            match (subject.subject, subject.tool.or(message.tool)) {
                (Subject::Arguments, Some(tool))
                    if message.direction == Direction::ClientToServer =>
                {
                    self.call(context, tool, subject.value, &mut report)
                }
                (Subject::ToolResult | Subject::Content, tool) => {
                    self.result(context, tool, subject.value, &one, &mut report)
                }
                (Subject::Error, _) => self.error(context, &mut report),
                _ => {}
            }
        }
        if report.unread {
            // First, so that a flood of others does not displace it.
            let mut unread = findings::unread(Severity::Low, Action::Warn);
            unread.absorb(report);
            report = unread;
        }
        self.score = report.score;
        self.verdict(context, message.tool, report)
    }

    fn ends_disagree(
        &mut self,
        context: &SessionContext<'_>,
        difference: &Difference<'_>,
    ) -> Verdict {
        self.refresh();
        let report = tampering::judge(difference);
        self.verdict(context, None, report)
    }

    fn overlong_listing(&mut self, context: &SessionContext<'_>) -> Verdict {
        self.refresh();
        // No honest listing is.
        let report = findings::unread(Severity::High, Action::Alert);
        self.verdict(context, None, report)
    }

    fn altered_state(&mut self, context: &SessionContext<'_>, tool: Option<&str>) -> Verdict {
        self.refresh();
        let report = tampering::altered_state();
        self.verdict(context, tool, report)
    }

    fn session_ended(&mut self, session: &SessionId) {
        self.activity.session_ended(session);
        self.flows.session_ended(session);
    }
}
