//! A compiled set of rules.

use std::collections::HashMap;

use super::automaton::Automaton;
use super::cooccurrence::CooccurrenceIndex;
use super::lesson::Lessons;
use super::phrases::PhraseTrie;
use super::rule::{Rule, RuleId};
use super::suppression::Suppression;
use super::vocabulary::{Negation, Probe, Scope};
use crate::detect::category::Surface;

/// A compiled set of rules: immutable, and shared between threads.
#[derive(Debug)]
pub struct RuleSet {
    pub(super) rules: Vec<Rule>,
    /// Nearly all patterns.
    pub(in crate::detect) phrases: PhraseTrie,
    /// The other patterns that are ASCII.
    pub(in crate::detect) ascii: Automaton,
    /// The other patterns beyond ASCII. A text that is ASCII need not be searched for them.
    pub(in crate::detect) wide: Automaton,
    pub(super) cooccurrences: [CooccurrenceIndex; CooccurrenceIndex::COUNT],
    pub(super) probes: HashMap<Probe, RuleId>,
    pub(super) suppressions: Vec<Suppression>,
    pub(super) lessons: Lessons,
    /// The tokens and the built-in word lists: the bit of each, and a hash of its name.
    pub(super) signs: Vec<(u32, u64)>,
    pub(super) negation: Negation,
}

impl RuleSet {
    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// One rule.
    pub fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.0 as usize]
    }

    /// The rules about words that occur together, for a surface and a scope.
    pub(in crate::detect) fn cooccurrences(
        &self,
        surface: Surface,
        scope: Scope,
    ) -> &CooccurrenceIndex {
        &self.cooccurrences[CooccurrenceIndex::place(surface, scope)]
    }

    /// Hashes of the names of the tokens and built-in word lists among `concepts`.
    pub(in crate::detect) fn signs(&self, concepts: u128) -> impl Iterator<Item = u64> {
        let present = self.signs.iter();
        present
            .filter(move |(bit, _)| concepts >> bit & 1 == 1)
            .map(|(_, name)| *name)
    }

    /// The words that deny something.
    pub(in crate::detect) fn negation(&self) -> Negation {
        self.negation
    }

    /// Findings that are not reported.
    pub fn suppressions(&self) -> &[Suppression] {
        &self.suppressions
    }

    /// What people's decisions taught.
    pub fn lessons(&self) -> &Lessons {
        &self.lessons
    }

    /// The rule of a probe.
    pub fn probe(&self, probe: Probe) -> Option<RuleId> {
        self.probes.get(&probe).copied()
    }

    /// The memory that the patterns and rules take, in bytes, without regular expressions.
    pub fn memory(&self) -> usize {
        let patterns = self.phrases.memory() + self.ascii.memory() + self.wide.memory();
        patterns + self.rules.len() * size_of::<Rule>()
    }
}
