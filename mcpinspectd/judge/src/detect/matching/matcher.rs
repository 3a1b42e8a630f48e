//! Finds every rule that matches in a subject's text.
//!
//! A text is matched in ranges of whole pieces, so that what is noted about it on the way stays small. In
//! each range, one pass finds tokens, one finds phrases, and one or two run the automata for all other patterns. The
//! hits are then matched sentence by sentence. All of this is linear in the text, whatever it says:
//! everything that could multiply (hits in a sentence, windows of a regular expression, matches) has a limit,
//! and reaching one is reported as `truncated`.

use aho_corasick::Input;

use super::hit::Hit;
use super::names::KnownNames;
use super::results::MatchResults;
use super::{negation, sentences, token};
use crate::detect::category::Surface;
use crate::detect::rules::{
    Automaton, Negation, PhraseTrie, RuleId, RuleKind, RuleSet, is_word_byte,
};
use crate::detect::text::{PieceRange, SubjectText};

/// Capacity for hits to keep for the next subject.
const KEPT_HITS: usize = 4096;

/// Most sentences of a subject to note.
const SENTENCES: usize = 2048;

/// A sentence, and what was found in it.
#[derive(Clone, Copy, Debug)]
pub struct MatchedSentence {
    /// Its start in the folded text.
    pub start: u32,
    /// Its end in the folded text.
    pub end: u32,
    /// The concepts in it, as bits.
    pub concepts: u128,
}

/// Matches rules, one subject after another. Reuses its buffers.
#[derive(Debug, Default)]
pub struct Matcher {
    hits: Vec<Hit>,
    sentence_ends: Vec<u32>,
    /// For each rule with a regular expression that was tried, the end of its last window.
    windows: Vec<(RuleId, u32)>,
    /// What was found in the last subject.
    pub results: MatchResults,
    /// The first sentences of the last subject.
    pub sentences: Vec<MatchedSentence>,
}

impl Matcher {
    /// Finds everything in `subject`.
    pub fn run(
        &mut self,
        rules: &RuleSet,
        subject: &SubjectText<'_>,
        surface: Surface,
        names: &KnownNames<'_>,
    ) {
        self.results.clear();
        self.sentences.clear();
        self.results.truncated = subject.truncated();
        for range in subject.ranges() {
            self.range(rules, subject, range, surface, names);
        }
        self.results
            .matches
            .sort_unstable_by_key(|found| (found.start, found.rule));
        self.hits.clear();
        self.hits.shrink_to(KEPT_HITS);
    }

    /// Finds everything in a range of the pieces.
    fn range(
        &mut self,
        rules: &RuleSet,
        subject: &SubjectText<'_>,
        range: PieceRange,
        surface: Surface,
        names: &KnownNames<'_>,
    ) {
        self.hits.clear();
        self.sentence_ends.clear();
        token::scan(
            subject,
            range,
            names,
            &mut self.hits,
            &mut self.sentence_ends,
        );
        self.phrases(&rules.phrases, subject, range);
        self.automaton(&rules.ascii, rules, subject, range, surface);
        if !subject.folded()[range.start..range.end].is_ascii() {
            self.automaton(&rules.wide, rules, subject, range, surface);
        }
        self.hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        self.results.work += self.hits.len() as u64;
        self.negations(rules.negation(), subject);
        let (hits, ends) = (&self.hits, &self.sentence_ends);
        note(range.start, hits, ends, &mut self.sentences);
        sentences::match_sentences(
            rules,
            subject,
            range,
            surface,
            hits,
            ends,
            &mut self.results,
        );
    }

    /// Finds out which hits are denied.
    fn negations(&mut self, words: Negation, subject: &SubjectText<'_>) {
        let text = subject.folded().as_bytes();
        let mut rest = &mut *self.hits;
        for end in &self.sentence_ends {
            let inside = rest.partition_point(|hit| hit.start < *end);
            let (these, others) = rest.split_at_mut(inside);
            rest = others;
            negation::count(words, text, these, *end as usize);
        }
    }

    fn phrases(&mut self, phrases: &PhraseTrie, subject: &SubjectText<'_>, range: PieceRange) {
        let hits = &mut self.hits;
        let text = &subject.folded().as_bytes()[range.start..range.end];
        self.results.work += phrases.find(text, |concepts, start, end| {
            hits.push(Hit {
                start: (range.start + start) as u32,
                end: (range.start + end) as u32,
                concepts,
                negations: 0,
            })
        });
    }

    fn automaton(
        &mut self,
        automaton: &Automaton,
        rules: &RuleSet,
        subject: &SubjectText<'_>,
        range: PieceRange,
        surface: Surface,
    ) {
        self.windows.clear();
        let text = subject.folded().as_bytes();
        let word = |byte: Option<&u8>| byte.is_some_and(|byte| is_word_byte(*byte));
        let input = Input::new(text).range(range.start..range.end);
        for found in automaton.patterns.find_overlapping_iter(input) {
            let meaning = &automaton.meanings[found.pattern().as_usize()];
            let (start, end) = (found.start(), found.end());
            if (meaning.word_start && start > 0 && word(text.get(start - 1)))
                || (meaning.word_end && word(text.get(end)))
            {
                continue;
            }
            if meaning.concepts != 0 {
                self.hits.push(Hit {
                    start: start as u32,
                    end: end as u32,
                    concepts: meaning.concepts,
                    negations: 0,
                });
            }
            for rule in &meaning.literals {
                if applies(rules, *rule, subject, start, surface) {
                    self.results.record(*rule, start, end);
                }
            }
            for rule in &meaning.anchors {
                if applies(rules, *rule, subject, start, surface) {
                    self.regex(rules, *rule, subject, start, end);
                }
            }
        }
    }

    /// Tries a rule's regular expression around an anchor. An anchor well inside the last window is already
    /// covered, so a text full of anchors is read a small, fixed number of times.
    fn regex(
        &mut self,
        rules: &RuleSet,
        id: RuleId,
        subject: &SubjectText<'_>,
        start: usize,
        end: usize,
    ) {
        let RuleKind::Regex { regex, window } = &rules.rule(id).matching else {
            return;
        };
        let Some((_, piece)) = subject.piece_at(start) else {
            return;
        };
        let window = *window as usize;
        let slot = match self.windows.iter().position(|(rule, _)| *rule == id) {
            Some(slot) => slot,
            None => {
                self.windows.push((id, 0));
                self.windows.len() - 1
            }
        };
        if end + window / 2 <= self.windows[slot].1 as usize {
            return;
        }
        let from = start.saturating_sub(window).max(piece.start);
        let to = (end + window).min(piece.end);
        let text = &subject.folded().as_bytes()[from..to];
        self.results.work += text.len() as u64;
        self.windows[slot].1 = to as u32;
        if let Some(found) = regex.find(text) {
            self.results
                .record(id, from + found.start(), from + found.end());
        }
    }
}

/// Notes the sentences of a range. `hits` and `ends` are ascending.
fn note(start: usize, hits: &[Hit], ends: &[u32], seen: &mut Vec<MatchedSentence>) {
    let mut start = start as u32;
    let mut rest = hits;
    for end in ends.iter().take(SENTENCES - seen.len().min(SENTENCES)) {
        let inside = rest.partition_point(|hit| hit.start < *end);
        let (these, others) = rest.split_at(inside);
        rest = others;
        seen.push(MatchedSentence {
            start,
            end: *end,
            concepts: these.iter().fold(0, |all, hit| all | hit.concepts),
        });
        start = *end;
    }
}

/// Whether a rule examines the text at `position`.
fn applies(
    rules: &RuleSet,
    id: RuleId,
    subject: &SubjectText<'_>,
    position: usize,
    surface: Surface,
) -> bool {
    let rule = rules.rule(id);
    rule.examines_surface(surface)
        && subject
            .piece_at(position)
            .is_some_and(|(_, piece)| rule.examines_part(piece.part))
}
