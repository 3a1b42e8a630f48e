//! Matches rules about words and tokens that occur together.
//!
//! A sentence is tested by the set of concepts in it, which excludes nearly all rules at once. The places of
//! the hits are compared only for the few rules left. Sentences and pieces that are crammed with
//! hits are examined in overlapping shares, so that the work stays linear in the text.

use super::hit::Hit;
use super::results::MatchResults;
use crate::detect::category::{Part, Surface};
use crate::detect::rules::{Cooccurrence, RuleSet, Scope, TokenKind};
use crate::detect::text::{PIECE_END, PieceRange, SubjectText};

/// Most hits of a sentence to examine together.
const SENTENCE_HITS: usize = 96;
/// Most hits of a piece to examine together.
const PIECE_HITS: usize = 384;

/// Matches the rules about co-occurrences in every sentence of a range of the text. `hits` are ascending, and so are
/// the `ends` of its sentences.
pub(super) fn match_sentences(
    rules: &RuleSet,
    subject: &SubjectText<'_>,
    range: PieceRange,
    surface: Surface,
    hits: &[Hit],
    ends: &[u32],
    results: &mut MatchResults,
) {
    let mut tests = RuleTester {
        rules,
        surface,
        results,
    };
    let text = subject.folded().as_bytes();
    let mut from = range.start;
    let mut first = 0usize;
    let mut piece = range.first;
    // The hits of the previous sentence, and the first hit of the piece.
    let mut previous: Option<(usize, usize)> = None;
    let mut piece_hits = 0usize;
    let mut window = Vec::new();
    for end in ends {
        let end = *end as usize;
        let last = first
            + hits[first..]
                .iter()
                .take_while(|hit| (hit.start as usize) < end)
                .count();
        let part = subject
            .pieces()
            .get(piece)
            .map_or(Part::Text, |piece| piece.part);
        if last > first {
            window.clear();
            let opens = from
                + text[from..end]
                    .iter()
                    .take_while(|byte| !byte.is_ascii_alphanumeric() && **byte < 0x80)
                    .count();
            let whole = subject
                .pieces()
                .get(piece)
                .is_some_and(|piece| piece.start == from);
            let starts = 1 << TokenKind::SentenceStart as u32
                | u128::from(whole) << TokenKind::TextStart as u32;
            window.push(Hit {
                start: opens as u32,
                end: opens as u32,
                concepts: starts,
                negations: 0,
            });
            let crammed = last - first > SENTENCE_HITS;
            shares(&hits[first..last], SENTENCE_HITS, |share| {
                window.truncate(1);
                window.extend(share);
                tests.run(&window, Scope::Sentence, part);
                if crammed {
                    tests.run(&window, Scope::Near, part);
                }
            });
            if let Some((before, until)) = previous {
                let before = before.max(until.saturating_sub(SENTENCE_HITS));
                window.truncate(1);
                window.extend(hits[first..last].iter().take(SENTENCE_HITS));
                window.splice(0..1, hits[before..until].iter().copied());
            }
            tests.run(&window, Scope::Near, part);
        }
        previous = Some((first, last));
        let closes = end > 0 && text.get(end - 1) == Some(&PIECE_END);
        if closes {
            shares(&hits[piece_hits..last], PIECE_HITS, |share| {
                tests.run(share, Scope::Piece, part)
            });
            previous = None;
            piece_hits = last;
            piece += 1;
        }
        first = last;
        from = end;
    }
}

/// Tests of the rules of one surface.
struct RuleTester<'a> {
    rules: &'a RuleSet,
    surface: Surface,
    results: &'a mut MatchResults,
}

impl RuleTester<'_> {
    /// Tests all rules of a scope on the hits of one sentence, of two, or of a piece.
    fn run(&mut self, hits: &[Hit], scope: Scope, part: Part) {
        let present = hits.iter().fold(0, |mask, hit| mask | hit.concepts);
        self.results.work += 1;
        for one in self
            .rules
            .cooccurrences(self.surface, scope)
            .possible(present)
        {
            if present & one.none != 0
                || !one.all.iter().all(|element| present & element != 0)
                || !self.rules.rule(one.rule).examines_part(part)
            {
                continue;
            }
            self.results.work += hits.len() as u64;
            let meant = meant(hits, one);
            let hits = meant.as_deref().unwrap_or(hits);
            if let Some((start, end)) = locate(hits, &one.all, one.ordered, one.within) {
                self.results.record(one.rule, start as usize, end as usize);
            }
        }
    }
}

/// The hits without those that a rule does not mean because of a negation; `None` if that leaves them unchanged.
fn meant(hits: &[Hit], rule: &Cooccurrence) -> Option<Vec<Hit>> {
    let unmeant = |hit: &Hit| {
        let asserted = match hit.is_denied() {
            true => rule.asserted,
            false => 0,
        };
        let denied = match hit.negations > 0 && !hit.is_denied() {
            true => rule.denied,
            false => 0,
        };
        hit.concepts & (asserted | denied)
    };
    hits.iter().any(|hit| unmeant(hit) != 0).then(|| {
        let meant = hits.iter().map(|hit| Hit {
            concepts: hit.concepts & !unmeant(hit),
            ..*hit
        });
        meant.collect()
    })
}

/// Passes `hits` to `each` in overlapping shares of at most `size`; usually there is only one.
fn shares(hits: &[Hit], size: usize, mut each: impl FnMut(&[Hit])) {
    let mut from = 0;
    while from < hits.len() {
        let until = hits.len().min(from + size);
        each(&hits[from..until]);
        if until == hits.len() {
            break;
        }
        from += size / 2;
    }
}

/// The first place where every element has a hit of its own within the distance, in order if `ordered`.
fn locate(hits: &[Hit], all: &[u128], ordered: bool, within: u32) -> Option<(u32, u32)> {
    for (index, hit) in hits.iter().enumerate() {
        let found = if ordered {
            locate_ordered(&hits[index..], all, within)
        } else {
            locate_any(&hits[index..], all, within)
        };
        if found.is_some() {
            return found;
        }
        // Without a distance, only the first hit of any element need be tried.
        if within == u32::MAX && !ordered && all.iter().any(|element| hit.concepts & element != 0) {
            return None;
        }
    }
    None
}

fn locate_ordered(hits: &[Hit], all: &[u128], within: u32) -> Option<(u32, u32)> {
    let (first, rest) = hits.split_first()?;
    let (element, mut elements) = all.split_first()?;
    if first.concepts & element == 0 {
        return None;
    }
    let limit = first.start.saturating_add(within);
    let mut end = first.end;
    for hit in rest {
        let Some((element, after)) = elements.split_first() else {
            break;
        };
        if hit.end > limit {
            continue;
        }
        if hit.start >= end && hit.concepts & element != 0 {
            end = hit.end;
            elements = after;
        }
    }
    elements.is_empty().then_some((first.start, end))
}

fn locate_any(hits: &[Hit], all: &[u128], within: u32) -> Option<(u32, u32)> {
    let first = hits.first()?;
    if !all.iter().any(|element| first.concepts & element != 0) {
        return None;
    }
    let limit = first.start.saturating_add(within);
    let mut missing = (1u64 << all.len()) - 1;
    let mut end = first.end;
    for hit in hits {
        if hit.start > limit {
            break;
        }
        // A hit serves only one element, so that a word in two lists does not count twice.
        let serves = all
            .iter()
            .enumerate()
            .find(|(index, element)| missing & (1 << index) != 0 && hit.concepts & **element != 0);
        if let Some((index, _)) = serves {
            missing &= !(1 << index);
            end = end.max(hit.end);
            if missing == 0 {
                return Some((first.start, end));
            }
        }
    }
    None
}
