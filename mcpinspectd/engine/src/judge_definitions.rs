//! Judging definitions: the registry compares them with their pins, and detection reads them.
//!
//! A definition is reported once per session: with its first listing, and again only when it
//! differs. So a client that lists its tools before every call makes no noise, and a changed tool
//! without approval shows up once in every session.

use std::borrow::Cow;

use mcpinspect_core::mcp::json;
use mcpinspect_core::mcp::view::{ServerResult, Tool};
use mcpinspect_core::model::{
    Action, DefinitionHash, FieldChange, ItemKind, ServerPart, Timestamp, ToolStatus,
};
use mcpinspect_core::session::id::IdKey;
use mcpinspect_core::session::listing::ListedName;
use mcpinspect_core::session::{Observed, Page};
use mcpinspect_judge::detect::{Detector as _, Offer, ToolDefinition, Verdict};
use mcpinspect_judge::registry::{
    ItemKey, MAX_NAME, Observation, PinStatus, Shortage, Sighting, diff, vendor,
};
use serde_json::value::RawValue;

use super::evaluation::Evaluation;
use super::policy::AutoApproval;
use super::sanitise;
use super::state::SessionState;
use crate::event::body::{RegistryFull, ServerChanged, ToolChanged, ToolSeen};
use crate::event::{Body, Event};

/// Most changes of one tool to report in one session; after that, only those that ask for an alert.
const MAX_CHANGES_TOLD: u16 = 32;

/// Most tools of one page to look at. The registry keeps a quarter of that per server.
const MAX_TOOLS: usize = 16_384;

/// Tools, and bytes of their definitions, to show to the registry before the new ones are
/// reported: what waits to be written and reported must not grow with the page.
const TOOLS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 2 << 20;

/// Most changes of one session that wait for its program to be known.
const MAX_WAITING: usize = 1024;

/// Changes of one item that a policy accepts in one session: nobody meant to accept a server that keeps
/// changing.
pub(super) const MAX_CHANGES_ACCEPTED: u16 = 4;

/// A page of a listing.
struct Part<'a> {
    tools: &'a RawValue,
    first: bool,
    last: bool,
}

/// A definition to report.
struct News<'a> {
    name: Cow<'a, str>,
    definition: &'a RawValue,
    observation: Observation,
}

impl SessionState {
    /// Takes in what a result offers, and reports what is new about it.
    pub(super) fn judge_definitions(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        observed: &Observed<'_>,
    ) {
        let Some(result) = &observed.result else {
            return;
        };
        if observed.introduces {
            self.judge_introduction(evaluation, result);
        }
        if let (Some(page), Some(tools)) = (&observed.page, result.tools) {
            let next = result.next_cursor.and_then(IdKey::of_string);
            self.judge_tools(evaluation, page, tools, next);
        }
    }

    /// Takes in what a server says about itself. Saying nothing counts too: instructions that
    /// appear later are a change.
    fn judge_introduction(&mut self, evaluation: &mut Evaluation<'_>, result: &ServerResult<'_>) {
        let server_info = result
            .server_info
            .or(result.meta.as_ref().and_then(|meta| meta.server_info));
        let instructions = Some(result.instructions.unwrap_or(RawValue::NULL));
        evaluation.judges.registry.refresh();
        let sighting = self.sighting(evaluation.time);
        let mut news = Vec::new();
        for (kind, said) in [
            (ItemKind::ServerInfo, server_info),
            (ItemKind::Instructions, instructions),
        ] {
            let Some(said) = said else { continue };
            let observation = evaluation.judges.registry.observe(sighting, kind, "", said);
            news.push((kind, said, observation));
        }
        news.retain(|(kind, _, observation)| self.definitions.is_news(*kind, observation.hash));
        for (_, _, observation) in &news {
            self.definitions.count_shortage(observation.shortage);
        }
        evaluation.judges.registry.save(evaluation.time);
        for (kind, said, observation) in news {
            self.report_introduction(evaluation, kind, said, observation);
        }
        self.report_shortage(evaluation);
    }

    /// Reports definitions for which there was no room.
    fn report_shortage(&mut self, evaluation: &mut Evaluation<'_>) {
        let Some(without_room) = self.definitions.take_shortage() else {
            return;
        };
        let body = RegistryFull {
            limit: without_room.shortage.map_or("", Shortage::as_str),
            uid: self.user,
            not_pinned: without_room.not_pinned,
            without_text: without_room.without_text,
        };
        evaluation.report(Event::new(evaluation.time, self.subject(), body));
    }

    fn report_introduction(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        kind: ItemKind,
        said: &RawValue,
        observation: Observation,
    ) {
        let (status, pinned) = status(observation.status);
        let verdict =
            evaluation
                .judges
                .detector
                .introduction(&self.context(evaluation.time), said, status);
        let Some(pinned) = pinned else {
            if status != ToolStatus::Unchanged {
                self.report_findings(evaluation, &verdict, None);
            }
            return;
        };
        let key = ItemKey::only(kind);
        let number = self.definitions.count_change(&key);
        if number <= MAX_CHANGES_TOLD || verdict.action >= Action::Alert {
            let pinned_text = evaluation
                .judges
                .registry
                .text(self.server_of(), &key, pinned);
            evaluation.report(Event::new(
                evaluation.time,
                self.subject(),
                ServerChanged {
                    item: match kind {
                        ItemKind::Instructions => ServerPart::Instructions,
                        _ => ServerPart::ServerInfo,
                    },
                    previous_hash: pinned,
                    new_hash: observation.hash,
                    changes: changes(pinned_text.as_deref(), said),
                    detections: verdict.detections.clone(),
                    max_severity: verdict.max_severity,
                },
            ));
        }
        self.report_findings(evaluation, &verdict, None);
        if number <= MAX_CHANGES_ACCEPTED {
            self.approve(evaluation, &key, observation.hash, &verdict);
        }
    }

    /// Takes in what program runs behind the server, and reports if it is not what was accepted.
    pub(super) fn judge_program(&mut self, evaluation: &mut Evaluation<'_>, definition: &RawValue) {
        evaluation.judges.registry.refresh();
        let sighting = self.sighting(evaluation.time);
        let observation =
            evaluation
                .judges
                .registry
                .observe(sighting, ItemKind::Program, "", definition);
        evaluation.judges.registry.save(evaluation.time);
        let is_news = self
            .definitions
            .is_news(ItemKind::Program, observation.hash);
        if is_news {
            self.definitions.count_shortage(observation.shortage);
        }
        self.report_shortage(evaluation);
        let key = ItemKey::only(ItemKind::Program);
        let pinned = status(observation.status).1;
        let pinned_text = pinned.and_then(|pinned| {
            evaluation
                .judges
                .registry
                .text(self.server_of(), &key, pinned)
        });
        let same = match (pinned, &pinned_text) {
            (None, _) => observation.status != PinStatus::NoRoom,
            (Some(_), None) => false,
            (Some(_), Some(pinned)) => {
                vendor(pinned).is_some_and(|one| vendor(definition) == Some(one))
            }
        };
        self.definitions.same_vendor = Some(same);
        if let Some(pinned) = pinned
            && is_news
            && self.definitions.count_change(&key) <= MAX_CHANGES_TOLD
        {
            evaluation.report(Event::new(
                evaluation.time,
                self.subject(),
                ServerChanged {
                    item: ServerPart::Program,
                    previous_hash: pinned,
                    new_hash: observation.hash,
                    changes: changes(pinned_text.as_deref(), definition),
                    detections: Vec::new(),
                    max_severity: None,
                },
            ));
        }
        for (key, hash) in std::mem::take(&mut self.definitions.waiting) {
            if self.is_approved(evaluation, same) {
                self.accept(evaluation, &key, hash);
            }
        }
    }

    /// Accepts a change if the policy does, or notes it until that can be decided.
    fn approve(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        key: &ItemKey,
        hash: DefinitionHash,
        verdict: &Verdict,
    ) {
        if !verdict.is_free_of_findings() {
            return;
        }
        let same = self.definitions.same_vendor;
        if self.is_approved(evaluation, same == Some(true)) {
            self.accept(evaluation, key, hash);
        } else if same.is_none()
            && self.is_approved(evaluation, true)
            && self.definitions.waiting.len() < MAX_WAITING
        {
            self.definitions.waiting.push((key.clone(), hash));
        }
    }

    /// Whether the policy accepts a change, provided that it is free of findings.
    fn is_approved(&self, evaluation: &Evaluation<'_>, same_vendor: bool) -> bool {
        let approval = &evaluation.judges.approval;
        approval.accepts(&self.info.server_id, self.user, same_vendor)
    }

    /// Accepts a change in the name of the policy. It is reported like a
    /// person's decision.
    fn accept(&self, evaluation: &mut Evaluation<'_>, key: &ItemKey, hash: DefinitionHash) {
        let registry = &mut evaluation.judges.registry;
        // A change that cannot be accepted stays a change, and is reported as one in the next session.
        if let Err(error) = registry.accept(
            self.server_of(),
            key,
            hash,
            evaluation.time,
            AutoApproval::REASON,
        ) {
            tracing::error!(server = %self.info.server_id, %error, "a change was not accepted");
        }
    }

    fn sighting(&self, time: Timestamp) -> Sighting<'_> {
        Sighting {
            owner: self.owner,
            server: &self.info.server_id,
            session: &self.info.id,
            time,
        }
    }

    fn judge_tools(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        page: &Page,
        tools: &RawValue,
        next: Option<IdKey>,
    ) {
        evaluation.judges.registry.refresh();
        let mut names = Vec::new();
        let mut news = Vec::new();
        let (mut seen, mut unsaved) = (0, 0);
        let part = Part {
            tools,
            first: matches!(page, Page::First),
            last: next.is_none(),
        };
        // A one-page listing is only read for its names if there is something to judge.
        let mut offered = false;
        if !(part.first && part.last) {
            self.offer(evaluation, &part);
            offered = true;
        }
        // The text was parsed with its message, so it is an array to its end.
        let _ = json::elements(tools.get(), |definition| {
            // Without a name it cannot be called, and no client shows it to a model.
            let Some(name) = Tool::read(definition).name else {
                return true;
            };
            seen += 1;
            if seen > MAX_TOOLS {
                return false;
            }
            unsaved += definition.get().len();
            self.observe_tool(evaluation, name, definition, &mut names, &mut news);
            if news.len() == TOOLS_AT_ONCE || unsaved > BYTES_AT_ONCE {
                if !news.is_empty() && !std::mem::replace(&mut offered, true) {
                    self.offer(evaluation, &part);
                }
                self.report_tools(evaluation, &mut news);
                unsaved = 0;
            }
            true
        });
        if !news.is_empty() && !offered {
            self.offer(evaluation, &part);
        }
        self.report_tools(evaluation, &mut news);
        self.report_shortage(evaluation);
        if part.last {
            self.settle(evaluation);
        }
        if seen > MAX_TOOLS {
            let verdict = evaluation
                .judges
                .detector
                .overlong_listing(&self.context(evaluation.time));
            self.report_findings(evaluation, &verdict, None);
            return;
        }
        let Some(listed) = self
            .definitions
            .listings
            .page(page, names.into_iter(), next)
        else {
            return;
        };
        let removed = evaluation
            .judges
            .registry
            .listed(self.sighting(evaluation.time), |name| {
                listed.contains(&ListedName::of(name))
            });
        // On disk before the event is emitted.
        evaluation.judges.registry.save(evaluation.time);
        for (name, hash) in removed {
            self.report_removed(evaluation, &name, hash);
        }
    }

    /// Shows detection what a page offers, so that no tool is judged before its neighbours are known.
    fn offer(&self, evaluation: &mut Evaluation<'_>, part: &Part<'_>) {
        let mut names = Vec::new();
        let _ = json::elements(part.tools.get(), |definition| {
            names.extend(Tool::read(definition).name);
            names.len() < MAX_TOOLS
        });
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let offer = Offer {
            names: &names,
            publisher: self.publisher.as_deref(),
            first: part.first,
            last: part.last,
        };
        let context = self.context(evaluation.time);
        evaluation.judges.detector.offered(&context, &offer);
    }

    /// Rejudges what waited for the rest of a listing. Call this when the listing is complete, or when the
    /// client goes on without it.
    pub(super) fn settle(&mut self, evaluation: &mut Evaluation<'_>) {
        let undecided = self.definitions.take_undecided();
        if undecided.is_empty() {
            return;
        }
        let offer = Offer {
            names: &[],
            publisher: self.publisher.as_deref(),
            first: false,
            last: true,
        };
        let context = self.context(evaluation.time);
        evaluation.judges.detector.offered(&context, &offer);
        for one in undecided {
            let tool = ToolDefinition {
                name: &one.name,
                hash: one.hash,
                definition: &one.definition,
                status: one.status,
                pinned: None,
            };
            let mut verdict = evaluation
                .judges
                .detector
                .tool(&self.context(evaluation.time), &tool);
            let reported = |pattern: &String| one.reported.contains(pattern);
            verdict.detections.retain(|found| !reported(&found.pattern));
            if !verdict.detections.is_empty() {
                self.report_findings(evaluation, &verdict, Some(&one.name));
            }
        }
    }

    /// Shows a tool to the registry. It goes to `news` if it should be reported, and to `names` if the registry
    /// knows it.
    fn observe_tool<'a>(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        name: Cow<'a, str>,
        definition: &'a RawValue,
        names: &mut Vec<ListedName>,
        news: &mut Vec<News<'a>>,
    ) {
        let registry = &mut evaluation.judges.registry;
        let sighting = Sighting {
            owner: self.owner,
            server: &self.info.server_id,
            session: &self.info.id,
            time: evaluation.time,
        };
        let observation = registry.observe(sighting, ItemKind::Tool, &name, definition);
        if observation.status != PinStatus::NoRoom {
            names.push(ListedName::of(json::cut(&name, MAX_NAME)));
        }
        if self.definitions.is_news(ItemKind::Tool, observation.hash) {
            self.definitions.count_shortage(observation.shortage);
            news.push(News {
                name,
                definition,
                observation,
            });
        }
    }

    /// Reports the tools in `news`, and empties it.
    fn report_tools(&mut self, evaluation: &mut Evaluation<'_>, news: &mut Vec<News<'_>>) {
        // On disk before the event is emitted.
        evaluation.judges.registry.save(evaluation.time);
        for news in news.drain(..) {
            self.report_tool(evaluation, &news);
        }
    }

    fn report_tool(&mut self, evaluation: &mut Evaluation<'_>, news: &News<'_>) {
        let News {
            name,
            definition,
            observation:
                Observation {
                    hash,
                    status: pin_status,
                    ..
                },
        } = news;
        let (status, pinned) = status(*pin_status);
        let key = ItemKey::tool(json::cut(name, MAX_NAME));
        let pinned_text = pinned.and_then(|hash| {
            evaluation
                .judges
                .registry
                .text(self.server_of(), &key, hash)
        });
        let tool = ToolDefinition {
            name,
            hash: *hash,
            definition,
            status,
            pinned: pinned_text.as_deref(),
        };
        let verdict = evaluation
            .judges
            .detector
            .tool(&self.context(evaluation.time), &tool);
        if verdict.undecided && status != ToolStatus::Unchanged {
            self.definitions.postpone(&tool, &verdict.detections);
        }
        let alerts = verdict.action >= Action::Alert;
        let number = match pin_status {
            PinStatus::Changed { .. } => self.definitions.count_change(&key),
            PinStatus::NoRoom => u16::MAX,
            PinStatus::New | PinStatus::AsPinned => 0,
        };
        if number > MAX_CHANGES_TOLD && !alerts {
            return;
        }
        let tool_name = sanitise::name(name);
        let detections = verdict.detections.clone();
        let max_severity = verdict.max_severity;
        let body = match pinned {
            Some(pinned) => Body::from(ToolChanged {
                tool_name,
                status,
                previous_hash: pinned,
                new_hash: Some(*hash),
                changes: changes(pinned_text.as_deref(), definition),
                detections,
                max_severity,
            }),
            None => Body::from(ToolSeen {
                tool_name,
                tool_hash: *hash,
                description: sanitise::description(
                    Tool::read(definition)
                        .description
                        .as_deref()
                        .unwrap_or_default(),
                ),
                status,
                pinned: (*pin_status == PinStatus::NoRoom).then_some(false),
                detections,
                max_severity,
            }),
        };
        evaluation.report(Event::new(evaluation.time, self.subject(), body));
        if status != ToolStatus::Unchanged {
            self.report_findings(evaluation, &verdict, Some(name));
        }
        if status == ToolStatus::Changed && number <= MAX_CHANGES_ACCEPTED {
            self.approve(evaluation, &key, *hash, &verdict);
        }
    }

    fn report_removed(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        name: &str,
        hash: DefinitionHash,
    ) {
        if !self.definitions.is_new_removal(name) {
            return;
        }
        evaluation.report(Event::new(
            evaluation.time,
            self.subject(),
            ToolChanged {
                tool_name: sanitise::name(name),
                status: ToolStatus::Removed,
                previous_hash: hash,
                new_hash: None,
                changes: Vec::new(),
                detections: Vec::new(),
                max_severity: None,
            },
        ));
    }
}

/// How a definition relates to its pin, and the pin if it is different.
fn status(pin: PinStatus) -> (ToolStatus, Option<DefinitionHash>) {
    match pin {
        PinStatus::New | PinStatus::NoRoom => (ToolStatus::New, None),
        PinStatus::AsPinned => (ToolStatus::Unchanged, None),
        PinStatus::Changed { pinned } => (ToolStatus::Changed, Some(pinned)),
    }
}

/// What differs from the pinned text, fit for an event; nothing if that text is not available.
fn changes(pinned: Option<&RawValue>, now: &RawValue) -> Vec<FieldChange> {
    pinned.map_or_else(Vec::new, |pinned| {
        sanitise::changes(diff::diff(pinned, now))
    })
}
