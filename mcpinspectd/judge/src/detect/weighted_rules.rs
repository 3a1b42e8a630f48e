//! The rules and weights that detection runs with, and how they are replaced while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::rules::{RuleError, RuleSet};
use super::score::Weights;

/// The built-in rule files: name and text.
pub const BUILTIN_RULES: &[(&str, &str)] =
    &[("builtin.toml", include_str!("../../rules/builtin.toml"))];
/// The built-in weights.
pub const BUILTIN_WEIGHTS: &str = include_str!("../../rules/weights.toml");

/// Rules with their weights and suppressions: immutable, and shared between threads.
#[derive(Debug)]
pub struct WeightedRules {
    /// The rules, and the suppressions from the same files.
    pub rules: RuleSet,
    /// What the rules weigh.
    pub weights: Weights,
}

impl WeightedRules {
    /// The built-in rules. They are compiled once.
    #[expect(
        clippy::expect_used,
        reason = "both files are part of the program, and a test compiles them"
    )]
    pub fn builtin() -> Arc<Self> {
        static BUILTIN: LazyLock<Arc<WeightedRules>> = LazyLock::new(|| {
            let rules = RuleSet::compile(BUILTIN_RULES).expect("the built-in rules are valid");
            let weights =
                Weights::parse(BUILTIN_WEIGHTS, &rules).expect("the built-in weights are valid");
            Arc::new(WeightedRules { rules, weights })
        });
        Arc::clone(&BUILTIN)
    }

    /// The built-in rules together with other rule files, each a name and a text. A file with a mistake is
    /// left out and reported; the others count.
    pub fn with_files(files: &[(String, String)]) -> (Arc<Self>, Vec<RuleError>) {
        let mut errors = Vec::new();
        let mut good = BUILTIN_RULES.to_vec();
        let mut compiled = None;
        for (name, text) in files {
            good.push((name, text));
            match RuleSet::compile(&good) {
                Ok(rules) => compiled = Some(rules),
                Err(error) => {
                    errors.push(error);
                    good.pop();
                }
            }
        }
        let Some(rules) = compiled else {
            return (Self::builtin(), errors);
        };
        match Weights::parse(BUILTIN_WEIGHTS, &rules) {
            Ok(weights) => (Arc::new(Self { rules, weights }), errors),
            Err(_) => (Self::builtin(), errors),
        }
    }
}

/// The rules in use. They can be replaced at any time.
#[derive(Debug)]
pub struct ActiveRules {
    rules: RwLock<Arc<WeightedRules>>,
    generation: AtomicU64,
}

impl ActiveRules {
    /// Starts with `rules`.
    pub fn new(rules: Arc<WeightedRules>) -> Self {
        Self {
            rules: RwLock::new(rules),
            generation: AtomicU64::new(0),
        }
    }

    /// How many times the rules were replaced: a cheap way to notice a replacement.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The rules in use.
    pub fn get(&self) -> Arc<WeightedRules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the rules.
    pub fn replace(&self, rules: Arc<WeightedRules>) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.generation.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_plausible_weight() {
        let active = WeightedRules::builtin();
        for (rule, weight) in active
            .rules
            .rules()
            .iter()
            .zip(&active.weights.definition.rules)
        {
            assert!(
                weight.is_finite() && (rule.weight < 0.0) == (*weight < 0.0) || *weight == 0.0,
                "{}",
                rule.id
            );
        }
    }

    #[test]
    fn the_indexes_are_small() {
        assert!(
            WeightedRules::builtin().rules.memory() <= 16 * 1024 * 1024,
            "{} bytes",
            WeightedRules::builtin().rules.memory()
        );
    }
}
