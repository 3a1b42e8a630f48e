//! Adds up the weights of the rules that match.

use mcpinspect_core::model::Action;

use super::features::Features;
use super::weights::SurfaceWeights;
use crate::detect::category::{Category, Evidence};
use crate::detect::rules::{Decides, RuleId, RuleKind, RuleSet};

/// The share of a rule's weight that counts besides a heavier rule of the same kind of evidence: two ways to
/// say the same are hardly more than one.
pub const REPEAT: f32 = 0.4;
/// A weight below this is not evidence of its own.
const MINOR: f32 = 0.4;
/// How many kinds of evidence an alert needs.
const KINDS_TO_ALERT: u32 = 2;
/// By how much the log odds of a single kind of evidence must exceed the limit for an alert.
const SINGLE_KIND: f32 = 0.3;
/// How many kinds of evidence a block needs.
const KINDS_TO_BLOCK: u32 = 3;

/// What the matches in a subject add up to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The action that they call for.
    pub action: Action,
    /// The action that single rules call for alone.
    pub decided: Action,
    /// The same for rules that compare or compute, whose findings are facts whatever else the text says, and
    /// for an administrator's own.
    pub proven: Action,
    /// Log odds of the worst window.
    pub log_odds: f32,
}

impl Score {
    /// The probability of an attack.
    pub fn probability(&self) -> f32 {
        1.0 / (1.0 + (-self.log_odds).exp())
    }
}

/// Weighs a subject.
pub fn weigh(rules: &RuleSet, weights: &SurfaceWeights, features: &Features) -> Score {
    let mut score = Score {
        action: Action::None,
        decided: Action::None,
        proven: Action::None,
        log_odds: weights.bias,
    };
    let mut buffer = Vec::new();
    for window in &features.windows {
        let (log_odds, weighed) = weigh_window(rules, weights, window, &mut buffer);
        score.log_odds = score.log_odds.max(log_odds);
        score.action = score.action.max(weighed);
        let single = window.iter().map(|id| rules.rule(*id));
        for rule in single.filter(|rule| rule.decides.is_some()) {
            let decided = rule.decides.map_or(Action::None, Decides::action);
            score.decided = score.decided.max(decided);
            let computed = matches!(rule.matching, RuleKind::Probe);
            if computed || rule.evidence == Evidence::Imitation || !rule.builtin {
                score.proven = score.proven.max(decided);
            }
        }
        score.action = score.action.max(score.decided);
    }
    score
}

/// What the heaviest rule of a subject is about.
pub fn heaviest(
    rules: &RuleSet,
    weights: &SurfaceWeights,
    features: &Features,
) -> Option<Category> {
    let weight = |id: &RuleId| weights.rules[id.0 as usize];
    let found = features.windows.iter().flatten();
    let heaviest = found.max_by(|a, b| weight(a).total_cmp(&weight(b)))?;
    Some(rules.rule(*heaviest).category)
}

/// How much of each rule's weight counts in a window: all of it for the heaviest rule of each kind of
/// evidence, [`REPEAT`] for the others. `shares` receives one entry per rule of the window.
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
    shares(rules, &weights.rules, window, buffer);
    for (id, share) in window.iter().zip(buffer.iter()) {
        let weight = weights.rules[id.0 as usize];
        let rule = rules.rule(*id);
        log_odds += share * weight;
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
    (log_odds, weighed)
}
