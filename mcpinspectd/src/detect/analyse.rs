//! Looks at one subject: extracts its text, finds, weighs, and explains.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::category::Part;
use super::document::{Document, NodeId, Piece, Segment};
use super::extract::{self, Subject};
use super::hidden::{self, Hidden};
use super::matching::{Firing, Matches};
use super::pack::Probe;
use super::rules::{RuleId, RuleSet};
use super::score::{self, Features, Weights};
use super::token::Names;
use crate::event::{Action, Detection, Match, Severity};

/// Most detections of one report.
const DETECTIONS: usize = 32;
/// Most places of one detection.
const PLACES: usize = 4;
/// Longest excerpt in a match, in characters.
const EXCERPT: usize = 160;
/// Characters of context to each side of a match.
const CONTEXT: usize = 60;

/// Rules and weights: all that is known. Immutable and shared.
#[derive(Debug)]
pub struct Knowledge {
    /// The rules.
    pub rules: RuleSet,
    /// What they weigh.
    pub weights: Weights,
}

/// The packs that come with the program: (file name, text).
pub const BUILTIN_PACKS: &[(&str, &str)] =
    &[("builtin.toml", include_str!("../../rules/builtin.toml"))];
/// The weights that come with the program.
pub const BUILTIN_WEIGHTS: &str = include_str!("../../rules/weights.toml");

impl Knowledge {
    /// What comes with the program. Compiled once.
    #[expect(
        clippy::expect_used,
        reason = "both files are part of the program, and a test compiles them"
    )]
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<Knowledge>> = LazyLock::new(|| {
            let rules = RuleSet::compile(BUILTIN_PACKS).expect("the built-in rules are valid");
            let weights =
                Weights::parse(BUILTIN_WEIGHTS, &rules).expect("the built-in weights are valid");
            Arc::new(Knowledge { rules, weights })
        });
        Arc::clone(&BUILTIN)
    }
}

/// What was found in one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What it asks for.
    pub action: Action,
    /// How bad it is; `None` with [`Action::None`].
    pub severity: Option<Severity>,
    /// How likely an attack, 0 to 1.
    pub score: f32,
    /// Why. Empty with [`Action::None`].
    pub detections: Vec<Detection>,
    /// Whether the subject was too large to be looked at in full.
    pub truncated: bool,
}

impl Report {
    /// Nothing found.
    pub fn clean() -> Self {
        Self {
            action: Action::None,
            severity: None,
            score: 0.0,
            detections: Vec::new(),
            truncated: false,
        }
    }

    /// Takes over another report about the same subject.
    pub fn absorb(&mut self, other: Self) {
        self.action = self.action.max(other.action);
        self.severity = self.severity.max(other.severity);
        self.score = self.score.max(other.score);
        self.detections.extend(other.detections);
        self.detections.truncate(DETECTIONS);
        self.truncated |= other.truncated;
    }
}

/// What else is known about a subject.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances<'a> {
    /// Name of the server it comes from.
    pub server: Option<&'a str>,
    /// Findings of others (other servers' tools, behaviour over time) that belong to this subject.
    pub probes: &'a [(Probe, &'a str)],
}

/// Looks at subjects, one after the other. Keeps its buffers; one per thread.
#[derive(Debug)]
pub struct Analyser {
    knowledge: Arc<Knowledge>,
    matches: Matches,
    features: Features,
    parameters: Vec<String>,
}

impl Analyser {
    /// An analyser with this knowledge.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self {
            knowledge,
            matches: Matches::default(),
            features: Features::default(),
            parameters: Vec::new(),
        }
    }

    /// The knowledge in use.
    pub fn knowledge(&self) -> &Arc<Knowledge> {
        &self.knowledge
    }

    /// Units of work that the last subject took.
    pub fn work(&self) -> u64 {
        self.matches.work
    }

    /// What was found in the last subject, as the input of fitting.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Looks at a tool's definition.
    pub fn tool(&mut self, tool: &Value, circumstances: Circumstances<'_>) -> Report {
        let mut document = Document::new();
        extract::tool(&mut document, tool);
        let own = tool
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_lowercase();
        let mut parameters = std::mem::take(&mut self.parameters);
        extract::own_names(tool, &mut parameters);
        let names = Names {
            own: &own,
            parameters: &parameters,
        };
        let mut probes = contradictions(tool);
        probes.extend_from_slice(circumstances.probes);
        let report = self.weigh(
            document,
            Subject::Tool,
            &names,
            circumstances.server,
            &probes,
        );
        self.parameters = parameters;
        report
    }

    /// Looks at any other value.
    pub fn value(
        &mut self,
        value: &Value,
        subject: Subject,
        circumstances: Circumstances<'_>,
    ) -> Report {
        let mut document = Document::new();
        extract::value(&mut document, value);
        self.weigh(
            document,
            subject,
            &Names::default(),
            circumstances.server,
            circumstances.probes,
        )
    }

    fn weigh(
        &mut self,
        mut document: Document<'_>,
        subject: Subject,
        names: &Names<'_>,
        server: Option<&str>,
        probes: &[(Probe, &str)],
    ) -> Report {
        let knowledge = Arc::clone(&self.knowledge);
        let rules = &knowledge.rules;
        let surface = subject.surface();
        let hidden = self.unhide(&mut document);
        self.matches.run(rules, &document, surface, names);
        let mut firings: Vec<Firing> =
            Vec::with_capacity(self.matches.firings.len() + hidden.len());
        firings.extend(
            self.matches
                .firings
                .iter()
                .filter(|firing| rules.rule(firing.rule).for_server(server)),
        );
        let first_decoded = document
            .pieces()
            .iter()
            .position(|piece| matches!(piece.raw, std::borrow::Cow::Owned(_)));
        let decoded_from = first_decoded
            .and_then(|index| document.pieces().get(index))
            .map(|piece| piece.start as u32);
        let mut found: Vec<(RuleId, Option<Hidden>, usize, &str)> = Vec::new();
        for (piece, hidden) in hidden {
            if let Some(rule) = rules
                .probe(hidden.probe)
                .filter(|rule| rules.rule(*rule).on(surface))
            {
                found.push((rule, Some(hidden), piece, ""));
            }
        }
        if let Some(from) = decoded_from
            && let Some(firing) = firings.iter().find(|firing| {
                firing.start >= from
                    && knowledge.weights.on(surface).rules[firing.rule.0 as usize] >= 1.0
            })
            && let Some(rule) = rules.probe(Probe::EncodedFinding)
            && let Some((index, _)) = document.piece_at(firing.start as usize)
        {
            found.push((rule, None, index, ""));
        }
        for (probe, words) in probes {
            if let Some(rule) = rules
                .probe(*probe)
                .filter(|rule| rules.rule(*rule).on(surface))
            {
                found.push((rule, None, 0, words));
            }
        }
        for (rule, _, piece, _) in &found {
            let at = document
                .pieces()
                .get(*piece)
                .map_or(0, |piece| piece.start as u32);
            firings.push(Firing {
                rule: *rule,
                start: at,
                end: at,
            });
        }
        firings.sort_by_key(|firing| (firing.start, firing.rule));
        self.features.collect(rules, &document, &firings);
        let verdict = score::weigh(rules, knowledge.weights.on(surface), &self.features);
        if verdict.action == Action::None {
            return Report {
                score: verdict.score(),
                truncated: self.matches.truncated,
                ..Report::clean()
            };
        }
        let mut report = Report {
            action: verdict.action,
            severity: None,
            score: verdict.score(),
            detections: Vec::new(),
            truncated: self.matches.truncated,
        };
        explain(rules, &document, &firings, &found, &mut report.detections);
        report.severity = Some(severity(verdict.action, &report.detections));
        report
    }

    /// Finds hidden characters and decodes payloads; what was decoded becomes a piece of its own.
    /// Returns each finding with the index of its piece.
    fn unhide(&mut self, document: &mut Document<'_>) -> Vec<(usize, Hidden)> {
        let mut all = Vec::new();
        let mut found = Vec::new();
        let mut decoded: Vec<(NodeId, Part, &'static str, String)> = Vec::new();
        for (index, piece) in document.pieces().iter().enumerate() {
            let raw = bounded(&piece.raw);
            hidden::characters(raw, &mut found);
            if found.iter().any(|hidden| {
                matches!(
                    hidden.probe,
                    Probe::TagCharacters | Probe::VariationSelectors
                )
            }) && let Some(text) = hidden::spelled(raw)
            {
                decoded.push((piece.node, piece.part, "tag characters", text));
            }
            all.extend(found.drain(..).map(|hidden| (index, hidden)));
            if raw.len() >= 24 {
                for payload in hidden::payloads(raw) {
                    all.push((
                        index,
                        Hidden {
                            probe: Probe::EncodedText,
                            start: payload.start,
                            end: payload.end,
                        },
                    ));
                    decoded.push((piece.node, piece.part, payload.how, payload.text));
                }
            }
        }
        for (node, part, how, text) in decoded.into_iter().take(32) {
            let node = document.node(node, Segment::Decoded(how));
            document.push(node, part, text);
        }
        all
    }
}

/// The start of a text, as far as it is looked at.
fn bounded(text: &str) -> &str {
    let mut end = text.len().min(super::document::VALUE_LIMIT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Annotations that the tool's own name and description contradict.
fn contradictions(tool: &Value) -> Vec<(Probe, &'static str)> {
    let mut found = Vec::new();
    let Some(annotations) = tool.get("annotations").and_then(Value::as_object) else {
        return found;
    };
    let flag = |key: &str| annotations.get(key).and_then(Value::as_bool);
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    let destroys = name_verbs(name).any(|verb| DESTROYS.contains(&verb.as_str()));
    let changes = destroys || name_verbs(name).any(|verb| CHANGES.contains(&verb.as_str()));
    if flag("readOnlyHint") == Some(true) && changes {
        found.push((Probe::ReadOnlyContradiction, ""));
    }
    if flag("destructiveHint") == Some(false) && destroys {
        found.push((Probe::DestructiveContradiction, ""));
    }
    found
}

/// Verbs that change something when a tool's name begins with them.
const CHANGES: &[&str] = &[
    "write", "send", "update", "create", "insert", "upload", "execute", "exec", "post", "put",
    "transfer", "install", "modify", "edit", "move", "rename", "kill",
];
/// Verbs that destroy something.
const DESTROYS: &[&str] = &[
    "delete", "remove", "drop", "wipe", "destroy", "purge", "erase", "truncate", "kill", "format",
    "reset",
];

/// The first word of a name in any of the usual spellings, lower case.
fn name_verbs(name: &str) -> impl Iterator<Item = String> + '_ {
    let mut words: Vec<String> = vec![String::new()];
    let mut lower = false;
    for c in name.chars().take(80) {
        if !c.is_alphanumeric() || (c.is_uppercase() && lower) {
            words.push(String::new());
        }
        lower = c.is_lowercase();
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
    }
    words.into_iter().filter(|word| !word.is_empty()).take(1)
}

fn severity(action: Action, detections: &[Detection]) -> Severity {
    let worst = detections
        .iter()
        .map(|detection| detection.severity)
        .max()
        .unwrap_or(Severity::Low);
    match action {
        Action::Block => Severity::Critical,
        Action::Alert => worst.clamp(Severity::High, Severity::Critical),
        Action::Warn | Action::None => worst.clamp(Severity::Low, Severity::Medium),
    }
}

fn explain(
    rules: &RuleSet,
    document: &Document<'_>,
    firings: &[Firing],
    found: &[(RuleId, Option<Hidden>, usize, &str)],
    out: &mut Vec<Detection>,
) {
    for firing in firings {
        let rule = rules.rule(firing.rule);
        let Some((index, piece)) = document.piece_at(firing.start as usize) else {
            continue;
        };
        if rule.weight < 0.0 {
            continue;
        }
        let probe = found
            .iter()
            .find(|(id, _, at, _)| *id == firing.rule && *at == index);
        let (range, words) = match probe {
            Some((_, Some(hidden), _, _)) => ((hidden.start, hidden.end), ""),
            Some((_, None, _, words)) => ((0, piece.raw.len().min(EXCERPT)), *words),
            None => (
                document.raw_range(piece, firing.start as usize, firing.end as usize),
                "",
            ),
        };
        let place = place(piece, range);
        let field = document.path(piece.node);
        let known = out
            .iter()
            .position(|detection| detection.pattern == rule.id && detection.field == field);
        match known {
            Some(at) if out[at].matches.len() < PLACES => out[at].matches.push(place),
            Some(_) => {}
            None if out.len() < DETECTIONS => out.push(Detection {
                pattern: rule.id.clone(),
                category: rule.category.as_str().to_owned(),
                severity: rule.severity,
                matches: vec![place],
                field,
                explanation: if words.is_empty() {
                    rule.says.clone()
                } else {
                    format!("{} {words}", rule.says)
                },
            }),
            None => break,
        }
    }
    out.sort_by_key(|detection| std::cmp::Reverse(detection.severity));
}

fn place(piece: &Piece<'_>, (start, end): (usize, usize)) -> Match {
    let raw = &*piece.raw;
    let (start, end) = (start.min(raw.len()), end.min(raw.len()));
    let before = raw.get(..start).map_or(start, |text| {
        text.char_indices()
            .rev()
            .nth(CONTEXT - 1)
            .map_or(0, |(at, _)| at)
    });
    let after = raw.get(end..).map_or(end, |text| {
        end + text
            .char_indices()
            .nth(CONTEXT)
            .map_or(text.len(), |(at, _)| at)
    });
    Match {
        text: shown(raw.get(start..end).unwrap_or_default(), EXCERPT),
        position: start,
        context: shown(
            raw.get(before..after).unwrap_or_default(),
            EXCERPT + 2 * CONTEXT,
        ),
    }
}

/// An excerpt fit for an event: secrets masked, hidden characters visible, bounded.
fn shown(text: &str, limit: usize) -> String {
    super::shown::excerpt(text, limit)
}
