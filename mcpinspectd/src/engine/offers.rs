//! What a server offers in a session: definitions into the registry, and what became of them told.
//!
//! A definition is told once in a session: with its first listing, and again only when it is another
//! one. A client that lists its tools before every call thus makes no noise, and a changed tool that
//! nobody has approved shows once in every session.

use crate::event;
use crate::event::body::{ServerChanged, ToolChanged, ToolSeen};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;

use super::live::Body;
use super::output::Output;
use super::{AutoApproval, Shared, shown};
use crate::detect::{ToolDefinition, Verdict};
use crate::event::Event;
use crate::mcp::json;
use crate::mcp::view::{ServerResult, Tool};
use crate::model::{Action, DefinitionHash, FieldChange, ItemKind, Timestamp, ToolStatus};
use crate::process::program;
use crate::registry::{ItemKey, MAX_NAME, Observation, PinStatus, Sighting, diff};
use crate::session::listing::Listings;
use crate::session::{Observed, Page};

/// Definitions of one session that are remembered as told. A session that shows more starts over.
const MAX_TOLD: usize = 16_384;

/// Changes of one tool that are told in one session; after that, only those that ask for an alert.
const MAX_CHANGES_TOLD: u16 = 32;

/// Changes of one session that wait for its program to be known.
const MAX_WAITING: usize = 1024;

/// Changes of one item that a policy accepts in one session: a server that goes on changing is not
/// what anybody had in mind.
pub(super) const MAX_CHANGES_ACCEPTED: u16 = 4;

/// What a server offers in a session.
#[derive(Debug, Default)]
pub(super) struct Offers {
    listings: Listings,
    told: HashSet<(ItemKind, DefinitionHash)>,
    changes_told: HashMap<ItemKey, u16>,
    removals_told: HashSet<Box<str>>,
    /// Whether the server's program is of the vendor that was accepted, once that is known.
    same_vendor: Option<bool>,
    /// Changes that a policy accepts if it is.
    waiting: Vec<(ItemKey, DefinitionHash)>,
}

impl Offers {
    /// Notes that messages were lost.
    pub(super) fn gap(&mut self) {
        self.listings.gap();
    }

    /// Whether this definition is to be told.
    fn is_news(&mut self, kind: ItemKind, hash: DefinitionHash) -> bool {
        if self.told.len() >= MAX_TOLD {
            self.told.clear();
            self.changes_told.clear();
        }
        self.told.insert((kind, hash))
    }

    /// The number of a change of this item, from 1.
    fn count_change(&mut self, key: &ItemKey) -> u16 {
        let told = self.changes_told.entry(key.clone()).or_default();
        *told = told.saturating_add(1);
        *told
    }
}

/// A definition that is to be told.
struct News<'a> {
    name: Cow<'a, str>,
    definition: &'a RawValue,
    observation: Observation,
}

impl Body {
    /// Takes in what a result offers, and tells what is new about it.
    pub(super) fn take_offers(
        &mut self,
        shared: &mut Shared,
        observed: &Observed<'_>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let Some(result) = &observed.result else {
            return;
        };
        if observed.introduces {
            self.take_introduction(shared, result, time, output);
        }
        if let (Some(page), Some(tools)) = (&observed.page, result.tools) {
            let next = result.next_cursor.as_deref();
            self.take_tools(shared, page, tools, next, time, output);
        }
    }

    /// Takes in what a server says of itself. That it says nothing counts too: instructions that
    /// appear later are a change.
    fn take_introduction(
        &mut self,
        shared: &mut Shared,
        result: &ServerResult<'_>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let server_info = result
            .server_info
            .or(result.meta.as_ref().and_then(|meta| meta.server_info));
        let instructions = Some(result.instructions.unwrap_or(RawValue::NULL));
        shared.registry.refresh();
        let sighting = self.sighting(time);
        let mut news = Vec::new();
        for (kind, said) in [
            (ItemKind::ServerInfo, server_info),
            (ItemKind::Instructions, instructions),
        ] {
            let Some(said) = said else { continue };
            let observation = shared.registry.observe(sighting, kind, "", said);
            news.push((kind, said, observation));
        }
        news.retain(|(kind, _, observation)| self.offers.is_news(*kind, observation.hash));
        shared.registry.save(time);
        for (kind, said, observation) in news {
            self.tell_introduction(shared, kind, said, observation, time, output);
        }
    }

    fn tell_introduction(
        &mut self,
        shared: &mut Shared,
        kind: ItemKind,
        said: &RawValue,
        observation: Observation,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let (status, pinned) = status(observation.status);
        let verdict = shared
            .detector
            .introduction(&self.context(time), said, status);
        let Some(pinned) = pinned else {
            if status != ToolStatus::Unchanged {
                self.findings(&verdict, None, time, output);
            }
            return;
        };
        let key = ItemKey::only(kind);
        let number = self.offers.count_change(&key);
        if number <= MAX_CHANGES_TOLD || verdict.action >= Action::Alert {
            let pinned_text = shared.registry.text(&self.server, &key, pinned);
            output.event(Event::new(
                time,
                self.subject(),
                ServerChanged {
                    item: kind,
                    previous_hash: pinned,
                    new_hash: observation.hash,
                    changes: changes(pinned_text.as_deref(), said),
                    detections: verdict.detections.clone(),
                    max_severity: verdict.max_severity,
                },
            ));
        }
        self.findings(&verdict, None, time, output);
        if number <= MAX_CHANGES_ACCEPTED {
            self.approve(shared, &key, observation.hash, &verdict, time);
        }
    }

    /// Takes in what runs behind the server, and tells when it is not what was accepted.
    pub(super) fn take_program(
        &mut self,
        shared: &mut Shared,
        definition: &RawValue,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        shared.registry.refresh();
        let sighting = self.sighting(time);
        let observation = shared
            .registry
            .observe(sighting, ItemKind::Program, "", definition);
        shared.registry.save(time);
        let key = ItemKey::only(ItemKind::Program);
        let pinned = status(observation.status).1;
        let pinned_text =
            pinned.and_then(|pinned| shared.registry.text(&self.server, &key, pinned));
        let same = match (pinned, &pinned_text) {
            (None, _) => observation.status != PinStatus::NoRoom,
            (Some(_), None) => false,
            (Some(_), Some(pinned)) => {
                program::vendor(pinned).is_some_and(|one| program::vendor(definition) == Some(one))
            }
        };
        self.offers.same_vendor = Some(same);
        if let Some(pinned) = pinned
            && self.offers.is_news(ItemKind::Program, observation.hash)
            && self.offers.count_change(&key) <= MAX_CHANGES_TOLD
        {
            output.event(Event::new(
                time,
                self.subject(),
                ServerChanged {
                    item: ItemKind::Program,
                    previous_hash: pinned,
                    new_hash: observation.hash,
                    changes: changes(pinned_text.as_deref(), definition),
                    detections: Vec::new(),
                    max_severity: None,
                },
            ));
        }
        for (key, hash) in std::mem::take(&mut self.offers.waiting) {
            if shared.approval.accepts(&self.server, same) {
                self.accept(shared, &key, hash, time);
            }
        }
    }

    /// Accepts a change where the policy does, or notes it until that can be said.
    fn approve(
        &mut self,
        shared: &mut Shared,
        key: &ItemKey,
        hash: DefinitionHash,
        verdict: &Verdict,
        time: Timestamp,
    ) {
        if !verdict.is_free_of_findings() {
            return;
        }
        let same = self.offers.same_vendor;
        if shared.approval.accepts(&self.server, same == Some(true)) {
            self.accept(shared, key, hash, time);
        } else if same.is_none()
            && shared.approval.accepts(&self.server, true)
            && self.offers.waiting.len() < MAX_WAITING
        {
            self.offers.waiting.push((key.clone(), hash));
        }
    }

    /// Accepts a change in the name of the policy. Whoever is told of changes hears of it as of a
    /// person's decision.
    fn accept(&self, shared: &mut Shared, key: &ItemKey, hash: DefinitionHash, time: Timestamp) {
        let registry = &mut shared.registry;
        // A change that cannot be accepted stays a change, and is told as one in the next session.
        if let Err(error) = registry.accept(&self.server, key, hash, time, AutoApproval::REASON) {
            tracing::error!(server = %self.server, %error, "a change was not accepted");
        }
    }

    fn sighting(&self, time: Timestamp) -> Sighting<'_> {
        Sighting {
            server: &self.server,
            session: &self.id,
            time,
        }
    }

    fn take_tools(
        &mut self,
        shared: &mut Shared,
        page: &Page,
        tools: &RawValue,
        next: Option<&str>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let mut names: Vec<Box<str>> = Vec::new();
        let news = self.observe_tools(shared, tools, time, &mut names);
        let whole = self.offers.listings.page(page, names.into_iter(), next);
        let removed = whole
            .map(|listed| shared.registry.listed(self.sighting(time), &listed))
            .unwrap_or_default();
        // On disk before anybody is told.
        shared.registry.save(time);
        for news in &news {
            self.tell_tool(shared, news, time, output);
        }
        for (name, hash) in removed {
            self.tell_removed(name, hash, time, output);
        }
    }

    /// Shows a page's tools to the registry. Returns those that are to be told, and puts all names in
    /// `names`.
    fn observe_tools<'a>(
        &mut self,
        shared: &mut Shared,
        tools: &'a RawValue,
        time: Timestamp,
        names: &mut Vec<Box<str>>,
    ) -> Vec<News<'a>> {
        let mut news = Vec::new();
        shared.registry.refresh();
        let sighting = Sighting {
            server: &self.server,
            session: &self.id,
            time,
        };
        // The text was read with its message, so it is an array to its end.
        let _ = json::elements(tools.get(), |definition| {
            // Without a name it cannot be called, and no client shows it to a model.
            let Some(name) = Tool::read(definition).name else {
                return true;
            };
            let observation = shared
                .registry
                .observe(sighting, ItemKind::Tool, &name, definition);
            names.push(json::cut(&name, MAX_NAME).into());
            if self.offers.is_news(ItemKind::Tool, observation.hash) {
                news.push(News {
                    name,
                    definition,
                    observation,
                });
            }
            true
        });
        news
    }

    fn tell_tool(
        &mut self,
        shared: &mut Shared,
        news: &News<'_>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let News {
            name,
            definition,
            observation:
                Observation {
                    hash,
                    status: pin_status,
                },
        } = news;
        let (status, pinned) = status(*pin_status);
        let key = ItemKey::tool(json::cut(name, MAX_NAME));
        let pinned_text = pinned.and_then(|hash| shared.registry.text(&self.server, &key, hash));
        let tool = ToolDefinition {
            name,
            hash: *hash,
            definition,
            status,
            pinned: pinned_text.as_deref(),
        };
        let verdict = shared.detector.tool(&self.context(time), &tool);
        let alerts = verdict.action >= Action::Alert;
        let number = match pin_status {
            PinStatus::Changed { .. } => self.offers.count_change(&key),
            PinStatus::NoRoom => u16::MAX,
            PinStatus::New | PinStatus::AsPinned => 0,
        };
        if number > MAX_CHANGES_TOLD && !alerts {
            return;
        }
        let tool_name = shown::name(name);
        let detections = verdict.detections.clone();
        let max_severity = verdict.max_severity;
        let body = match pinned {
            Some(pinned) => event::Body::from(ToolChanged {
                tool_name,
                status,
                previous_hash: pinned,
                new_hash: Some(*hash),
                changes: changes(pinned_text.as_deref(), definition),
                detections,
                max_severity,
            }),
            None => event::Body::from(ToolSeen {
                tool_name,
                tool_hash: *hash,
                description: shown::description(
                    Tool::read(definition)
                        .description
                        .as_deref()
                        .unwrap_or_default(),
                ),
                status,
                detections,
                max_severity,
            }),
        };
        output.event(Event::new(time, self.subject(), body));
        if status != ToolStatus::Unchanged {
            self.findings(&verdict, Some(name), time, output);
        }
        if status == ToolStatus::Changed && number <= MAX_CHANGES_ACCEPTED {
            self.approve(shared, &key, *hash, &verdict, time);
        }
    }

    fn tell_removed(
        &mut self,
        name: Box<str>,
        hash: DefinitionHash,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        if self.offers.removals_told.len() >= MAX_TOLD
            || !self.offers.removals_told.insert(name.clone())
        {
            return;
        }
        output.event(Event::new(
            time,
            self.subject(),
            ToolChanged {
                tool_name: shown::name(&name),
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

/// The word for how something stands to its pin, and the pin where it is another.
fn status(pin: PinStatus) -> (ToolStatus, Option<DefinitionHash>) {
    match pin {
        PinStatus::New | PinStatus::NoRoom => (ToolStatus::New, None),
        PinStatus::AsPinned => (ToolStatus::Unchanged, None),
        PinStatus::Changed { pinned } => (ToolStatus::Changed, Some(pinned)),
    }
}

/// What differs from the pinned text, fit for an event; nothing where that text is not at hand.
fn changes(pinned: Option<&RawValue>, now: &RawValue) -> Vec<FieldChange> {
    pinned.map_or_else(Vec::new, |pinned| shown::changes(diff::diff(pinned, now)))
}
