//! Analyses one subject: extracts its text, matches the rules, weighs the matches, describes them.

use std::sync::Arc;

use mcpinspect_core::model::Action;

use super::combine::{Lenience, RaisedBy, combine};
use super::context::AnalysisContext;
use super::detections::{self, ProbeMatch};
use super::reading::{self, ReadSentence};
use super::report::Report;
use super::reveal::reveal;
use super::role;
use super::subject::Subject;
use crate::detect::category::Category;
use crate::detect::cross_server::{ToolProfile, similarities};
use crate::detect::json::Json;
use crate::detect::matching::{KnownNames, Matcher, RuleMatch};
use crate::detect::meaning;
use crate::detect::meaning::features::Extractor;
use crate::detect::meaning::model::Model;
use crate::detect::meaning::topic::Topic;
use crate::detect::meaning::{DefinitionClassifier, Meaning};
use crate::detect::probes::annotations;
use crate::detect::rules::{Probe, RuleId, RuleSet, Suppression};
use crate::detect::score::{Features, heaviest, weigh};
use crate::detect::text::{SubjectText, extract};
use crate::detect::weighted_rules::WeightedRules;

/// A decoded payload in which a rule of at least this weight matches is a finding of its own.
const DECODED_WEIGHT: f32 = 1.0;

/// Most neighbours of a tool whose names indicate what its server is about.
const NEIGHBOURS: usize = 64;

/// Most bytes of a definition whose sentences the model reads. A longer one is left to the rules, so that reading
/// it costs no more memory.
const READ: usize = 1 << 20;

/// Most bytes of a tool's own name to look for in its text.
const NAME: usize = 1024;

/// Analyses subjects, one after another. Reuses its buffers; each thread has its own.
#[derive(Debug)]
pub struct Analyser {
    rules: Arc<WeightedRules>,
    matcher: Matcher,
    features: Features,
    /// The text of the last subject, kept to reuse its memory.
    spare: SubjectText<'static>,
    /// The model that reads sentences, if not the built-in one.
    model: Option<Arc<Model<'static>>>,
    /// What finds their features.
    extractor: Extractor,
    keeps_sentences: bool,
    /// The sentences of the last definition of a tool, if they are kept.
    sentences: Vec<ReadSentence>,
    /// What its server is about.
    topic: Topic,
}

impl Analyser {
    /// An analyser with these rules.
    pub fn new(rules: Arc<WeightedRules>) -> Self {
        Self {
            rules,
            matcher: Matcher::default(),
            features: Features::default(),
            spare: SubjectText::new(),
            model: None,
            extractor: Extractor::default(),
            keeps_sentences: false,
            sentences: Vec::new(),
            topic: Topic::default(),
        }
    }

    /// Reads sentences with another model than the built-in one, to measure it.
    #[must_use]
    pub fn with_model(mut self, model: Arc<Model<'static>>) -> Self {
        self.model = Some(model);
        self
    }

    /// The rules in use.
    pub fn rules(&self) -> &Arc<WeightedRules> {
        &self.rules
    }

    /// Units of work that the last subject took.
    pub fn work(&self) -> u64 {
        self.matcher.results.work
    }

    /// What matched in the last subject, as input for fitting.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Keeps the sentences of each tool definition until the next, as training needs them.
    #[must_use]
    pub fn keeping_sentences(mut self) -> Self {
        self.keeps_sentences = true;
        self
    }

    /// The sentences of the last definition of a tool, as the model reads them, if they are kept.
    pub fn sentences(&self) -> &[ReadSentence] {
        &self.sentences
    }

    /// What the server of the last definition is about.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Analyses a tool's definition.
    pub fn tool(&mut self, tool: &Json<'_>, context: AnalysisContext<'_>) -> Report {
        let mut text = std::mem::take(&mut self.spare).emptied();
        extract::tool(&mut text, tool);
        let name = tool.get("name").and_then(Json::as_str);
        let own = mcpinspect_core::text::bound(name.unwrap_or_default(), NAME).to_lowercase();
        let servers = context.tools.zip(context.server);
        let names = KnownNames {
            own: &own,
            tool: Some(tool),
            servers,
            ..KnownNames::default()
        };
        let contradictions = annotations::contradictions(tool).into_iter();
        let mut noted: Vec<(Probe, String)> =
            contradictions.map(|probe| (probe, String::new())).collect();
        if let Some((tools, server)) = servers {
            let made = match context.profile {
                Some(_) => None,
                None => ToolProfile::of(tool),
            };
            let profile = context.profile.or(made.as_ref());
            let similar = profile.map(|profile| similarities(tools, server, profile));
            noted.extend(similar.into_iter().flatten().map(|other| {
                (
                    other.probe,
                    format!("It resembles `{}` of `{}`.", other.tool, other.server),
                )
            }));
        }
        let context = AnalysisContext {
            tool: name,
            ..context
        };
        self.assess(text, Subject::Tool, &names, context, noted)
    }

    /// Analyses any other value.
    pub fn value(
        &mut self,
        value: &Json<'_>,
        subject: Subject,
        context: AnalysisContext<'_>,
    ) -> Report {
        let mut text = std::mem::take(&mut self.spare).emptied();
        extract::value(&mut text, value);
        let names = KnownNames {
            servers: context.tools.zip(context.server),
            ..KnownNames::default()
        };
        self.assess(text, subject, &names, context, Vec::new())
    }

    /// What the model makes of the definition just matched, and its most telling sentence.
    fn classify(
        &mut self,
        rules: &RuleSet,
        text: &SubjectText<'_>,
        names: &KnownNames<'_>,
        context: AnalysisContext<'_>,
    ) -> Option<(Meaning, ReadSentence)> {
        self.sentences.clear();
        let bytes: usize = text.pieces().iter().map(|piece| piece.raw.len()).sum();
        if bytes > READ {
            return None;
        }
        self.topic = topic(context);
        let model = match &self.model {
            Some(model) => model,
            None => meaning::builtin(),
        };
        let mut classifier = DefinitionClassifier::new(model, &mut self.extractor);
        let mut telling = None;
        for sentence in reading::sentences(rules, text, &self.matcher, names) {
            let worse = classifier.add(&sentence.seen(&self.topic));
            if self.keeps_sentences {
                self.sentences.push(sentence.clone());
            }
            if worse {
                telling = Some(sentence);
            }
        }
        classifier.meaning().zip(telling)
    }

    /// Matches and weighs a text. `noted` are findings about the subject as a whole, each with what to add to
    /// its explanation.
    fn assess(
        &mut self,
        mut text: SubjectText<'_>,
        subject: Subject,
        names: &KnownNames<'_>,
        context: AnalysisContext<'_>,
        noted: Vec<(Probe, String)>,
    ) -> Report {
        let AnalysisContext {
            server,
            user,
            tool,
            time,
            ..
        } = context;
        if context.incomplete {
            text.mark_truncated();
        }
        let active = Arc::clone(&self.rules);
        let rules = &active.rules;
        let surface = subject.surface();
        let weights = active.weights.on(surface);
        let originals = text.pieces().len();
        let hidden = reveal(&mut text);
        self.matcher.run(rules, &text, surface, names);
        let meaning = match subject {
            Subject::Tool => self.classify(rules, &text, names, context),
            _ => None,
        };
        let mut matches = std::mem::take(&mut self.matcher.results.matches);
        let truncated = self.matcher.results.truncated || text.truncated();

        let suppressions: Vec<&Suppression> = rules
            .suppressions()
            .iter()
            .filter(|one| one.applies_to(server, user, tool, time))
            .collect();
        let counts = |id: RuleId| {
            let rule = rules.rule(id);
            rule.examines_surface(surface)
                && rule.examines_server(server)
                && !suppressions
                    .iter()
                    .any(|one| one.covers(&rule.id, rule.category.as_str()))
        };
        matches.retain(|found| counts(found.rule));

        let mut probed: Vec<ProbeMatch> = Vec::new();
        let mut probe = |probe, piece, hidden, addition| {
            if let Some(rule) = rules.probe(probe).filter(|rule| counts(*rule)) {
                probed.push(ProbeMatch {
                    rule,
                    piece,
                    hidden,
                    addition,
                });
            }
        };
        for (piece, hidden) in hidden {
            probe(hidden.probe, piece, Some(hidden), String::new());
        }
        let mut decoded_order = false;
        // No one encodes orders by accident.
        let decoded = text.pieces().get(originals).map(|piece| piece.start as u32);
        if let Some(from) = decoded
            && let Some(found) = matches.iter().find(|found| {
                found.start >= from && weights.rules[found.rule.0 as usize] >= DECODED_WEIGHT
            })
            && let Some((piece, _)) = text.piece_at(found.start as usize)
        {
            probe(Probe::EncodedFinding, piece, None, String::new());
            decoded_order = true;
        }
        for (which, addition) in noted {
            probe(which, 0, None, addition);
        }
        for one in &probed {
            let piece = text.pieces().get(one.piece);
            let at = piece.map_or(0, |piece| piece.start as u32);
            matches.push(at_position(one.rule, at));
        }
        if truncated && let Some(rule) = rules.probe(Probe::Overlong).filter(|rule| counts(*rule)) {
            matches.push(at_position(rule, 0));
        }
        matches.sort_unstable_by_key(|found| (found.start, found.rule));

        self.features.collect(rules, &text, &matches);
        let score = weigh(rules, weights, &self.features);
        let meaning = meaning.filter(|(meaning, _)| {
            let act = meaning.act();
            !suppressions
                .iter()
                .any(|one| one.covers(act.pattern, act.category.as_str()))
        });
        let rules_about = heaviest(rules, weights, &self.features);
        let meaning_about = meaning.as_ref().map(|(meaning, _)| meaning.act().category);
        let lessons = rules.lessons();
        let lenience = |about: Option<Category>| {
            about.map_or(0.0, |category| lessons.lenience(user, category, time))
        };
        let lenience = Lenience {
            rules: lenience(rules_about),
            meaning: lenience(meaning_about),
        };
        let combined = combine(
            score,
            meaning.as_ref().map(|(meaning, _)| *meaning),
            lenience,
        );
        let questionable = combined.raised_by.and_then(|by| match by {
            RaisedBy::Rules => rules_about,
            RaisedBy::Meaning => meaning_about,
        });
        let mut report = Report {
            score: combined.probability,
            truncated,
            unread: text.truncated(),
            undecided: names.undecided.get(),
            questionable,
            ..Report::clean()
        };
        let mut action = combined.action;
        if role::is_data(subject) {
            let decided = matches
                .iter()
                .filter_map(|found| rules.rule(found.rule).decides_in_data());
            let alone = decided.fold(Action::None, |most, one| most.max(one.action()));
            let alone = match decoded_order {
                true => alone.max(Action::Alert),
                false => alone,
            };
            let bytes = text.pieces().iter().take(originals);
            let bytes = bytes.map(|piece| piece.raw.len()).sum();
            action = role::action_of_data(score, weights.warn, bytes, alone);
        }
        if action != Action::None {
            report.action = action;
            report.detections = detections::describe(rules, &text, &matches, &probed);
            if let Some((meaning, sentence)) = meaning.filter(|_| combined.telling) {
                detections::add_meaning(&mut report.detections, &text, meaning, &sentence);
            }
            if role::is_data(subject) && action == Action::Warn {
                role::note_only(&mut report.detections);
            }
            report.severity = Some(detections::severity(action, &report.detections));
        }
        self.matcher.results.matches = matches;
        self.spare = text.emptied();
        report
    }
}

/// What a server is about, judging by the names of a tool and its neighbours, if these are few: a server with
/// hundreds of tools is about everything.
fn topic(context: AnalysisContext<'_>) -> Topic {
    let neighbours = || {
        let neighbours = context.tools.zip(context.server);
        neighbours
            .into_iter()
            .flat_map(|(tools, server)| tools.names_of(server))
    };
    let shown = match neighbours().take(NEIGHBOURS + 1).count() {
        0..=NEIGHBOURS => NEIGHBOURS,
        _ => 0,
    };
    Topic::of(context.tool.into_iter().chain(neighbours().take(shown)))
}

/// A match that has a position but no length.
fn at_position(rule: RuleId, position: u32) -> RuleMatch {
    RuleMatch {
        rule,
        start: position,
        end: position,
    }
}
