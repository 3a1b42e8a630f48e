//! What matching finds.

use crate::detect::rules::RuleId;

/// Most matches of one rule in one subject: a flood of one finding must not displace the others.
const MATCHES_OF_RULE: u16 = 64;

/// A rule that matches at a place in the folded text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    /// Which rule.
    pub rule: RuleId,
    /// Start in the folded text.
    pub start: u32,
    /// End in the folded text.
    pub end: u32,
}

/// The matches in one subject.
#[derive(Debug, Default)]
pub struct MatchResults {
    /// The matches, by position.
    pub matches: Vec<RuleMatch>,
    /// Whether a limit was reached.
    pub truncated: bool,
    /// Units of work: hits, tests of masks and bytes of windows. Tests check that it grows linearly.
    pub work: u64,
    /// How many times each rule matched.
    counts: Vec<u16>,
}

impl MatchResults {
    /// Empties it, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.matches.clear();
        self.counts.clear();
        self.truncated = false;
        self.work = 0;
    }

    /// Records a match.
    pub(super) fn record(&mut self, rule: RuleId, start: usize, end: usize) {
        let index = rule.0 as usize;
        if self.counts.len() <= index {
            self.counts.resize(index + 1, 0);
        }
        if self.counts[index] < MATCHES_OF_RULE {
            self.counts[index] += 1;
            self.matches.push(RuleMatch {
                rule,
                start: start as u32,
                end: end as u32,
            });
        } else {
            self.truncated = true;
        }
    }
}
