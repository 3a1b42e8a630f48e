//! Runs a rule set over a document and says which rules hold where.
//!
//! The work is one pass for phrases, one of the automaton for all other patterns, and per sentence a
//! fixed number of mask tests: linear in the text whatever it says. Everything that could multiply (hits in one sentence, windows of a
//! regular expression, findings) has a limit, and reaching one is reported as `truncated`.

use super::category::{Part, Surface};
use super::document::{Document, PIECE_END};
use super::pack::{Scope, Token};
use super::phrases::{Phrases, in_word};
use super::rules::{Automaton, How, RuleId, RuleSet};
use super::token::{self, Hit, Names};

/// Most hits of one sentence that are looked at together; one that is crammed with more is looked at
/// in overlapping shares.
const SENTENCE_HITS: usize = 96;
/// Most hits of one piece that are looked at together; a longer one is looked at in overlapping shares.
const PIECE_HITS: usize = 384;
/// Most findings of one rule in one document: a flood of one finding must not wash out the others.
const FIRINGS_OF_RULE: u16 = 64;

/// A rule that holds at a place of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Which rule.
    pub rule: RuleId,
    /// Start in the buffer.
    pub start: u32,
    /// End in the buffer.
    pub end: u32,
}

/// Buffers that are used again from document to document, and the result of the last one.
#[derive(Debug, Default)]
pub struct Matches {
    hits: Vec<Hit>,
    sentences: Vec<u32>,
    cursors: Vec<(RuleId, u32)>,
    /// How often each rule was found to hold.
    fired: Vec<u16>,
    /// What holds, by position.
    pub firings: Vec<Firing>,
    /// Whether a limit was reached.
    pub truncated: bool,
    /// Units of work done: hits, mask tests and window bytes. For tests of linearity.
    pub work: u64,
}

impl Matches {
    /// Finds everything in `document`.
    pub fn run(
        &mut self,
        rules: &RuleSet,
        document: &Document<'_>,
        surface: Surface,
        names: &Names<'_>,
    ) {
        self.hits.clear();
        self.sentences.clear();
        self.cursors.clear();
        self.firings.clear();
        self.fired.clear();
        self.truncated = document.truncated();
        self.work = 0;
        token::scan(document, names, &mut self.hits, &mut self.sentences);
        self.phrases(&rules.phrases, document);
        self.automaton(&rules.ascii, rules, document, surface);
        if !document.text().is_ascii() {
            self.automaton(&rules.wide, rules, document, surface);
        }
        self.hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        self.work += self.hits.len() as u64;
        self.sentences(rules, document, surface);
        self.firings
            .sort_unstable_by_key(|firing| (firing.start, firing.rule));
    }

    fn fire(&mut self, rule: RuleId, start: usize, end: usize) {
        let fired = rule.0 as usize;
        if self.fired.len() <= fired {
            self.fired.resize(fired + 1, 0);
        }
        if self.fired[fired] < FIRINGS_OF_RULE {
            self.fired[fired] += 1;
            self.firings.push(Firing {
                rule,
                start: start as u32,
                end: end as u32,
            });
        } else {
            self.truncated = true;
        }
    }

    fn phrases(&mut self, phrases: &Phrases, document: &Document<'_>) {
        let hits = &mut self.hits;
        self.work += phrases.find(document.text().as_bytes(), |concepts, start, end| {
            hits.push(Hit {
                start: start as u32,
                end: end as u32,
                concepts,
            })
        });
    }

    fn automaton(
        &mut self,
        automaton: &Automaton,
        rules: &RuleSet,
        document: &Document<'_>,
        surface: Surface,
    ) {
        self.cursors.clear();
        let text = document.text().as_bytes();
        let word = |byte: Option<&u8>| byte.is_some_and(|byte| in_word(*byte));
        for found in automaton.patterns.find_overlapping_iter(text) {
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
                });
            }
            for rule in &meaning.literals {
                if applies(rules, *rule, document, start, surface) {
                    self.fire(*rule, start, end);
                }
            }
            for rule in &meaning.anchors {
                if applies(rules, *rule, document, start, surface) {
                    self.pattern(rules, *rule, document, start, end);
                }
            }
        }
    }

    /// Tries a rule's regular expression around an anchor. An anchor well inside the last window was
    /// covered by it, so a text full of anchors is read a small, fixed number of times.
    fn pattern(
        &mut self,
        rules: &RuleSet,
        id: RuleId,
        document: &Document<'_>,
        start: usize,
        end: usize,
    ) {
        let How::Pattern { regex, window } = &rules.rule(id).how else {
            return;
        };
        let Some((_, piece)) = document.piece_at(start) else {
            return;
        };
        let window = *window as usize;
        let slot = match self.cursors.iter().position(|(rule, _)| *rule == id) {
            Some(slot) => slot,
            None => {
                self.cursors.push((id, 0));
                self.cursors.len() - 1
            }
        };
        if end + window / 2 <= self.cursors[slot].1 as usize {
            return;
        }
        let from = start.saturating_sub(window).max(piece.start);
        let to = (end + window).min(piece.end);
        let text = &document.text().as_bytes()[from..to];
        self.work += text.len() as u64;
        self.cursors[slot].1 = to as u32;
        if let Some(found) = regex.find(text) {
            self.fire(id, from + found.start(), from + found.end());
        }
    }

    fn sentences(&mut self, rules: &RuleSet, document: &Document<'_>, surface: Surface) {
        let ends = std::mem::take(&mut self.sentences);
        let mut hits = std::mem::take(&mut self.hits);
        let text = document.text().as_bytes();
        let mut from = 0usize;
        let mut first = 0usize;
        let mut piece = 0usize;
        // Hits of the sentence before, and of the piece so far.
        let mut previous: Option<(usize, usize)> = None;
        let mut piece_hits = 0usize;
        let mut window = Vec::new();
        for end in &ends {
            let end = *end as usize;
            let last = first
                + hits[first..]
                    .iter()
                    .take_while(|hit| (hit.start as usize) < end)
                    .count();
            let part = document
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
                let whole = document
                    .pieces()
                    .get(piece)
                    .is_some_and(|piece| piece.start == from);
                let starts =
                    1 << Token::SentenceStart as u32 | u128::from(whole) << Token::TextStart as u32;
                window.push(Hit {
                    start: opens as u32,
                    end: opens as u32,
                    concepts: starts,
                });
                let crammed = last - first > SENTENCE_HITS;
                shares(&hits[first..last], SENTENCE_HITS, |share| {
                    window.truncate(1);
                    window.extend(share);
                    self.together(rules, &window, Scope::Sentence, part, surface);
                    if crammed {
                        self.together(rules, &window, Scope::Near, part, surface);
                    }
                });
                if let Some((before, until)) = previous {
                    let before = before.max(until.saturating_sub(SENTENCE_HITS));
                    window.truncate(1);
                    window.extend(hits[first..last].iter().take(SENTENCE_HITS));
                    window.splice(0..1, hits[before..until].iter().copied());
                }
                self.together(rules, &window, Scope::Near, part, surface);
            }
            previous = Some((first, last));
            let closes = end > 0 && text.get(end - 1) == Some(&PIECE_END);
            if closes {
                shares(&hits[piece_hits..last], PIECE_HITS, |share| {
                    self.together(rules, share, Scope::Piece, part, surface)
                });
                previous = None;
                piece_hits = last;
                piece += 1;
            }
            first = last;
            from = end;
        }
        hits.clear();
        self.hits = hits;
        self.sentences = ends;
    }

    fn together(
        &mut self,
        rules: &RuleSet,
        hits: &[Hit],
        scope: Scope,
        part: Part,
        surface: Surface,
    ) {
        let present = hits.iter().fold(0, |mask, hit| mask | hit.concepts);
        self.work += 1;
        for plan in rules.plans(surface, scope).possible(present) {
            if present & plan.none != 0
                || !plan.all.iter().all(|element| present & element != 0)
                || !rules.rule(plan.rule).in_part(part)
            {
                continue;
            }
            self.work += hits.len() as u64;
            if let Some((start, end)) = locate(hits, &plan.all, plan.ordered, plan.within) {
                self.fire(plan.rule, start as usize, end as usize);
            }
        }
    }
}

/// Hands out `hits` in overlapping shares of at most `size`: most often in one.
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

fn applies(
    rules: &RuleSet,
    id: RuleId,
    document: &Document<'_>,
    position: usize,
    surface: Surface,
) -> bool {
    let rule = rules.rule(id);
    rule.on(surface)
        && document
            .piece_at(position)
            .is_some_and(|(_, piece)| rule.in_part(piece.part))
}

/// The first place where every element has a hit of its own within the distance, in order if asked.
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
        // Without a distance, the first start that has an element at all decides.
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
        // One hit serves one element, so that a word in two lists does not count twice.
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
