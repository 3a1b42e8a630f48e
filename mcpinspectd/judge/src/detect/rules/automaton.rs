//! One automaton for all literals, anchors and words that are not whole.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};

use super::format::RuleError;
use super::phrases::PhraseTrie;
use super::rule::RuleId;

/// Up to this many bytes of pattern text, the automaton is laid out for speed, which takes about 300 bytes of
/// memory for each.
const DFA_LIMIT: usize = 56 * 1024;

/// What one pattern stands for.
#[derive(Debug, Default)]
pub(in crate::detect) struct PatternMeaning {
    /// Word lists that it is in.
    pub concepts: u128,
    /// Rules that it is a literal of.
    pub literals: Vec<RuleId>,
    /// Rules that it is an anchor of.
    pub anchors: Vec<RuleId>,
    /// Whether it must start at the start of a word.
    pub word_start: bool,
    /// Whether it must end at the end of a word.
    pub word_end: bool,
}

impl PatternMeaning {
    /// Adds `text` to `phrases` if it consists of whole words and stands only for concepts. Returns
    /// whether it was added.
    pub(super) fn add_to(&self, phrases: &mut PhraseTrie, text: &str) -> bool {
        let words = self.word_start && self.literals.is_empty() && self.anchors.is_empty();
        words && phrases.add(self.concepts, text, !self.word_end)
    }
}

/// Patterns that are not phrases of whole words, and what each stands for.
#[derive(Debug)]
pub(in crate::detect) struct Automaton {
    /// Finds the patterns.
    pub patterns: AhoCorasick,
    /// The meaning of each pattern, by its number.
    pub meanings: Vec<PatternMeaning>,
}

impl Automaton {
    /// Builds the automaton of some patterns.
    pub(super) fn build(patterns: Vec<(String, PatternMeaning)>) -> Result<Self, RuleError> {
        let bytes: usize = patterns.iter().map(|(text, _)| text.len()).sum();
        let kind = if bytes <= DFA_LIMIT {
            AhoCorasickKind::DFA
        } else {
            AhoCorasickKind::ContiguousNFA
        };
        let (texts, meanings): (Vec<String>, Vec<PatternMeaning>) = patterns.into_iter().unzip();
        let patterns = AhoCorasickBuilder::new()
            .match_kind(MatchKind::Standard)
            .kind(Some(kind))
            .build(texts)
            .map_err(|error| RuleError {
                file: "rules".into(),
                line: 1,
                problem: error.to_string(),
            })?;
        Ok(Self { patterns, meanings })
    }

    /// Its memory, in bytes.
    pub(super) fn memory(&self) -> usize {
        let meanings = self.meanings.iter();
        let meanings: usize = meanings
            .map(|m| size_of::<PatternMeaning>() + 2 * (m.literals.len() + m.anchors.len()))
            .sum();
        self.patterns.memory_usage() + meanings
    }
}
