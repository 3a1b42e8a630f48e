//! Looks at one subject: extracts its text, finds, weighs, and explains.

use std::cell::OnceCell;
use std::sync::Arc;

use super::category::Part;
use super::document::{Document, NodeId, Piece, Segment};
use super::extract::{self, Subject};
use super::hidden::{self, Hidden};
use super::knowledge::Knowledge;
use super::matching::{Firing, Matches};
use super::names;
use super::neighbours::{Card, Neighbours};
use super::pack::Probe;
use super::rules::{RuleId, RuleSet};
use super::score::{self, Features};
use super::suppress::Suppression;
use super::token::Names;
use super::tree::Tree;
use crate::model::{Action, Detection, Match, Severity, Timestamp};

/// Most detections of one report.
const DETECTIONS: usize = 32;
/// Most payloads of one subject that are decoded and looked at again.
const DECODED: usize = 32;
/// Most places of one detection.
const PLACES: usize = 4;
/// Longest excerpt in a match, in characters.
const EXCERPT: usize = 160;
/// Characters of context to each side of a match.
const CONTEXT: usize = 60;

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
    /// Name of the tool, where it is not the subject itself.
    pub tool: Option<&'a str>,
    /// When; suppressions end.
    pub time: Timestamp,
    /// What other servers offer, where known. Needs `server`.
    pub neighbours: Option<&'a Neighbours>,
    /// What of the subject is compared with them, where that is at hand.
    pub card: Option<&'a Card>,
}

/// Looks at subjects, one after the other. Keeps its buffers; one per thread.
#[derive(Debug)]
pub struct Analyser {
    knowledge: Arc<Knowledge>,
    matches: Matches,
    features: Features,
    /// The last document, for its memory.
    spare: Document<'static>,
}

impl Analyser {
    /// An analyser with this knowledge.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self {
            knowledge,
            matches: Matches::default(),
            features: Features::default(),
            spare: Document::new(),
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
    pub fn tool(&mut self, tool: &Tree<'_>, circumstances: Circumstances<'_>) -> Report {
        let mut document = std::mem::take(&mut self.spare).emptied();
        extract::tool(&mut document, tool);
        let name = tool.get("name").and_then(Tree::as_str);
        let own = name.unwrap_or_default().to_lowercase();
        let neighbours = circumstances.neighbours.zip(circumstances.server);
        let names = Names {
            own: &own,
            tool: Some(tool),
            parameters: OnceCell::new(),
            neighbours,
        };
        let mut noted = contradictions(tool);
        if let Some((neighbours, server)) = neighbours {
            let made = match circumstances.card {
                Some(_) => None,
                None => Card::of(tool),
            };
            let card = circumstances.card.or(made.as_ref());
            let likenesses = card.map(|card| neighbours.likenesses(server, card));
            noted.extend(likenesses.into_iter().flatten().map(|like| {
                (
                    like.probe,
                    format!("It resembles `{}` of `{}`.", like.tool, like.server),
                )
            }));
        }
        self.weigh(
            document,
            Subject::Tool,
            &names,
            Circumstances {
                tool: name,
                ..circumstances
            },
            noted,
        )
    }

    /// Looks at any other value.
    pub fn value(
        &mut self,
        value: &Tree<'_>,
        subject: Subject,
        circumstances: Circumstances<'_>,
    ) -> Report {
        let mut document = std::mem::take(&mut self.spare).emptied();
        extract::value(&mut document, value);
        let names = Names {
            neighbours: circumstances.neighbours.zip(circumstances.server),
            ..Names::default()
        };
        self.weigh(document, subject, &names, circumstances, Vec::new())
    }

    /// `noted` are findings about the subject as a whole, each with what to add to its explanation.
    fn weigh(
        &mut self,
        mut document: Document<'_>,
        subject: Subject,
        names: &Names<'_>,
        circumstances: Circumstances<'_>,
        noted: Vec<(Probe, String)>,
    ) -> Report {
        let Circumstances {
            server, tool, time, ..
        } = circumstances;
        let knowledge = Arc::clone(&self.knowledge);
        let rules = &knowledge.rules;
        let surface = subject.surface();
        let weights = knowledge.weights.on(surface);
        let originals = document.pieces().len();
        let hidden = unhide(&mut document);
        self.matches.run(rules, &document, surface, names);
        let mut firings = std::mem::take(&mut self.matches.firings);
        let silences: Vec<&Suppression> = rules
            .suppressions()
            .iter()
            .filter(|one| one.concerns(server, tool, time))
            .collect();
        let counts = |id: RuleId| {
            let rule = rules.rule(id);
            rule.on(surface)
                && rule.for_server(server)
                && !silences
                    .iter()
                    .any(|one| one.silences(&rule.id, rule.category.as_str()))
        };
        firings.retain(|firing| counts(firing.rule));
        let mut probes: Vec<Probed> = Vec::new();
        let mut probe = |probe, piece, hidden, words| {
            if let Some(rule) = rules.probe(probe).filter(|rule| counts(*rule)) {
                probes.push(Probed {
                    rule,
                    piece,
                    hidden,
                    words,
                });
            }
        };
        for (piece, hidden) in hidden {
            probe(hidden.probe, piece, Some(hidden), String::new());
        }
        // Instructions in what was decoded: nobody encodes them by accident.
        let decoded = document
            .pieces()
            .get(originals)
            .map(|piece| piece.start as u32);
        if let Some(from) = decoded
            && let Some(firing) = firings
                .iter()
                .find(|firing| firing.start >= from && weights.rules[firing.rule.0 as usize] >= 1.0)
            && let Some((piece, _)) = document.piece_at(firing.start as usize)
        {
            probe(Probe::EncodedFinding, piece, None, String::new());
        }
        for (which, words) in noted {
            probe(which, 0, None, words);
        }
        for probed in &probes {
            let at = document
                .pieces()
                .get(probed.piece)
                .map_or(0, |piece| piece.start as u32);
            firings.push(Firing {
                rule: probed.rule,
                start: at,
                end: at,
            });
        }
        if (self.matches.truncated || document.truncated())
            && let Some(rule) = rules.probe(Probe::Overlong).filter(|rule| counts(*rule))
        {
            firings.push(Firing {
                rule,
                start: 0,
                end: 0,
            });
        }
        firings.sort_unstable_by_key(|firing| (firing.start, firing.rule));
        self.features.collect(rules, &document, &firings);
        let verdict = score::weigh(rules, weights, &self.features);
        let mut report = Report {
            score: verdict.score(),
            truncated: self.matches.truncated || document.truncated(),
            ..Report::clean()
        };
        if verdict.action != Action::None {
            report.action = verdict.action;
            explain(rules, &document, &firings, &probes, &mut report.detections);
            report.severity = Some(severity(verdict.action, &report.detections));
        }
        self.matches.firings = firings;
        self.spare = document.emptied();
        report
    }
}

/// A finding that did not come from the matching of words.
struct Probed {
    rule: RuleId,
    /// Index of the piece that it stands in.
    piece: usize,
    hidden: Option<Hidden>,
    /// What to add to the rule's explanation.
    words: String,
}

/// Finds hidden characters and decodes payloads; what was decoded becomes a piece of its own.
/// Returns each finding with the index of its piece.
fn unhide(document: &mut Document<'_>) -> Vec<(usize, Hidden)> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    let mut decoded: Vec<(NodeId, Part, &'static str, String)> = Vec::new();
    for (index, piece) in document.pieces().iter().enumerate() {
        let raw = crate::text::bound(&piece.raw, super::document::VALUE_LIMIT);
        hidden::characters(&raw, &mut found);
        if found.iter().any(|hidden| {
            matches!(
                hidden.probe,
                Probe::TagCharacters | Probe::VariationSelectors
            )
        }) && let Some(text) = hidden::spelled(&raw)
        {
            decoded.push((piece.node, piece.part, "invisible", text));
        }
        all.extend(found.drain(..).map(|hidden| (index, hidden)));
        for payload in hidden::payloads(&raw) {
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
    if decoded.len() > DECODED {
        document.cut_short();
    }
    for (node, part, how, text) in decoded.into_iter().take(DECODED) {
        let node = document.node(node, Segment::Decoded(how));
        document.push(node, part, text);
    }
    all
}

/// Annotations that the tool's own name and description contradict.
fn contradictions(tool: &Tree<'_>) -> Vec<(Probe, String)> {
    let mut found = Vec::new();
    let Some(annotations) = tool.get("annotations").and_then(Tree::as_object) else {
        return found;
    };
    let flag = |key: &str| annotations.get(key).and_then(Tree::as_bool);
    let name = tool.get("name").and_then(Tree::as_str).unwrap_or_default();
    let words = names::words(name);
    let begins_with = |verbs: &[&str]| {
        words
            .first()
            .is_some_and(|verb| verbs.contains(&verb.as_str()))
    };
    let destroys = begins_with(DESTROYS);
    let changes = destroys || begins_with(CHANGES);
    if flag("readOnlyHint") == Some(true) && changes {
        found.push((Probe::ReadOnlyContradiction, String::new()));
    }
    if flag("destructiveHint") == Some(false) && destroys {
        found.push((Probe::DestructiveContradiction, String::new()));
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
    probes: &[Probed],
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
        let probed = probes
            .iter()
            .find(|probed| probed.rule == firing.rule && probed.piece == index);
        let range = match probed {
            Some(Probed {
                hidden: Some(hidden),
                ..
            }) => (hidden.start, hidden.end),
            Some(_) => (0, piece.raw.len()),
            None => document.raw_range(piece, firing.start as usize, firing.end as usize),
        };
        let words = probed.map_or("", |probed| probed.words.as_str());
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
                    format!("{} {}", rule.says, shown(words, EXCERPT))
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
