//! From findings to one verdict.
//!
//! Honest descriptions are long and full of single signs: "you must", "before using", a URL. What
//! they do not have is many different signs close together. So findings are weighed in a sliding
//! window over each piece of text (what stands in keys, or was found by a probe, counts for every
//! window), the weights of the rules that hold are added up as log odds, and the subject's score is
//! that of its worst window. The verdict then wants evidence of at least two kinds, or much of one,
//! unless a rule decides alone.

use serde::Deserialize;
use std::collections::BTreeMap;

use super::category::{Evidence, Part, Surface};
use super::document::Document;
use super::matching::Firing;
use super::pack::Decides;
use super::rules::{How, RuleId, RuleSet};
use crate::model::Action;

/// Bytes of folded text in which findings add up.
const WINDOW: u32 = 700;
/// Most windows of one subject.
const WINDOW_LIMIT: usize = 4096;
/// How many windows back a repetition is looked for.
const RECENT: usize = 8;
/// Share of a rule's weight that counts beside a heavier one of the same kind of evidence: two ways
/// to say the same are hardly more than one.
pub const REPEAT: f32 = 0.4;
/// A weight below this is no evidence of its own.
const MINOR: f32 = 0.4;
/// How many kinds of evidence an alert needs.
const KINDS_TO_ALERT: u32 = 2;
/// By how much the log odds of a single kind of evidence have to exceed the limit for an alert.
const SINGLE_KIND: f32 = 0.3;
/// How many kinds of evidence a block needs.
const KINDS_TO_BLOCK: u32 = 3;

/// Weights and limits for the texts of one surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceWeights {
    /// Log odds of a text in which nothing was found.
    pub bias: f32,
    /// Log odds from which a subject is worth a warning.
    pub warn: f32,
    /// Log odds from which a person is told.
    pub alert: f32,
    /// Log odds from which a guard would stop it.
    pub block: f32,
    /// Weight of each rule, by its index.
    pub rules: Vec<f32>,
}

/// Weights for definitions and for content.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// What servers declare.
    pub definition: SurfaceWeights,
    /// What servers answer, and what clients send.
    pub content: SurfaceWeights,
}

/// The weights file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawWeights {
    definition: RawSurface,
    content: RawSurface,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSurface {
    bias: f32,
    warn: f32,
    alert: f32,
    block: f32,
    #[serde(default)]
    weights: BTreeMap<String, f32>,
}

impl Weights {
    /// Reads a weights file. Rules that it does not name keep the weight of their pack; names
    /// without a rule are ignored, so that weights survive the removal of a rule.
    pub fn parse(text: &str, rules: &RuleSet) -> Result<Self, toml::de::Error> {
        let raw: RawWeights = toml::from_str(text)?;
        Ok(Self {
            definition: raw.definition.resolve(rules),
            content: raw.content.resolve(rules),
        })
    }

    /// The weights that count for a surface.
    pub fn on(&self, surface: Surface) -> &SurfaceWeights {
        match surface {
            Surface::Definition => &self.definition,
            Surface::Content | Surface::Argument => &self.content,
        }
    }
}

impl RawSurface {
    fn resolve(self, rules: &RuleSet) -> SurfaceWeights {
        let weights = rules
            .rules()
            .iter()
            .map(|rule| self.weights.get(&rule.id).copied().unwrap_or(rule.weight))
            .collect();
        SurfaceWeights {
            bias: self.bias,
            warn: self.warn,
            alert: self.alert,
            block: self.block,
            rules: weights,
        }
    }
}

/// What the windows of one subject hold: the input of scoring and of fitting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// For each window the rules that hold in it, ascending, each once; never empty.
    pub windows: Vec<Vec<RuleId>>,
}

impl Features {
    /// Sorts findings (ascending by position) into windows.
    pub fn collect(&mut self, rules: &RuleSet, document: &Document<'_>, firings: &[Firing]) {
        self.windows.clear();
        let part = |firing: &Firing| {
            document
                .piece_at(firing.start as usize)
                .map(|(index, piece)| (index, piece.part))
        };
        let everywhere = |firing: &Firing| {
            matches!(rules.rule(firing.rule).how, How::Probe)
                || matches!(
                    part(firing),
                    Some((_, Part::Key | Part::Name | Part::Title))
                )
        };
        let mut shared: Vec<RuleId> = firings
            .iter()
            .filter(|firing| everywhere(firing))
            .map(|firing| firing.rule)
            .collect();
        shared.sort_unstable();
        shared.dedup();
        let local: Vec<(&Firing, usize)> = firings
            .iter()
            .filter(|firing| !everywhere(firing))
            .filter_map(|firing| Some((firing, part(firing)?.0)))
            .collect();
        let mut covered = 0;
        for (index, (first, piece)) in local.iter().enumerate() {
            let inside = local[index..]
                .iter()
                .take_while(|(next, other)| other == piece && next.start < first.start + WINDOW)
                .count();
            // A window that ends where the one before ended holds nothing new.
            if index + inside <= covered {
                continue;
            }
            covered = index + inside;
            let mut window = shared.clone();
            window.extend(
                local[index..index + inside]
                    .iter()
                    .map(|(firing, _)| firing.rule),
            );
            window.sort_unstable();
            window.dedup();
            // The same few signs again and again are one.
            if self
                .windows
                .iter()
                .rev()
                .take(RECENT)
                .any(|one| *one == window)
            {
                continue;
            }
            self.windows.push(window);
            if self.windows.len() >= WINDOW_LIMIT {
                break;
            }
        }
        if self.windows.is_empty() && !shared.is_empty() {
            self.windows.push(shared);
        }
    }
}

/// What a subject amounts to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// What it asks for.
    pub action: Action,
    /// Log odds of the worst window.
    pub log_odds: f32,
}

impl Verdict {
    /// The score as a probability.
    pub fn score(&self) -> f32 {
        1.0 / (1.0 + (-self.log_odds).exp())
    }
}

/// Weighs a subject.
pub fn weigh(rules: &RuleSet, weights: &SurfaceWeights, features: &Features) -> Verdict {
    let mut verdict = Verdict {
        action: Action::None,
        log_odds: weights.bias,
    };
    let mut buffer = Vec::new();
    for window in &features.windows {
        let (log_odds, action) = weigh_window(rules, weights, window, &mut buffer);
        verdict.log_odds = verdict.log_odds.max(log_odds);
        verdict.action = verdict.action.max(action);
    }
    verdict
}

/// How much of each rule's weight counts in a window: all of the heaviest of each kind of evidence,
/// [`REPEAT`] of the others. `shares` gets one entry per rule of the window.
pub fn shares(rules: &RuleSet, weights: &[f32], window: &[RuleId], shares: &mut Vec<f32>) {
    let mut heaviest: [Option<usize>; Evidence::ALL.len()] = [None; Evidence::ALL.len()];
    for (at, id) in window.iter().enumerate() {
        let slot = &mut heaviest[rules.rule(*id).evidence as usize];
        if slot.is_none_or(|best| weights[window[best].0 as usize] < weights[id.0 as usize]) {
            *slot = Some(at);
        }
    }
    shares.clear();
    shares.extend(window.iter().enumerate().map(|(at, id)| {
        let evidence = rules.rule(*id).evidence;
        if evidence == Evidence::Honest || heaviest[evidence as usize] == Some(at) {
            1.0
        } else {
            REPEAT
        }
    }));
}

fn weigh_window(
    rules: &RuleSet,
    weights: &SurfaceWeights,
    window: &[RuleId],
    buffer: &mut Vec<f32>,
) -> (f32, Action) {
    let mut log_odds = weights.bias;
    let mut kinds = 0u32;
    let mut alone = None;
    shares(rules, &weights.rules, window, buffer);
    for (id, share) in window.iter().zip(buffer.iter()) {
        let weight = weights.rules[id.0 as usize];
        let rule = rules.rule(*id);
        log_odds += share * weight;
        alone = alone.max(rule.decides);
        if weight >= MINOR && rule.evidence != Evidence::Honest {
            kinds |= 1 << rule.evidence as u32;
        }
    }
    let kinds = kinds.count_ones();
    let weighed = if log_odds >= weights.block && kinds >= KINDS_TO_BLOCK {
        Action::Block
    } else if log_odds >= weights.alert
        && (kinds >= KINDS_TO_ALERT || log_odds >= weights.alert + SINGLE_KIND)
    {
        Action::Alert
    } else if log_odds >= weights.warn {
        Action::Warn
    } else {
        Action::None
    };
    let decided = match alone {
        None => Action::None,
        Some(Decides::Warn) => Action::Warn,
        Some(Decides::Alert) => Action::Alert,
        Some(Decides::Block) => Action::Block,
    };
    (log_odds, weighed.max(decided))
}
