//! Sorts the matches of a subject into windows.
//!
//! Honest descriptions are long, and full of single signs. A window slides over each piece of text, so that
//! only signs close together add up. What is found in keys and names, or by a probe, belongs to the subject
//! as a whole and counts in every window.

use crate::detect::category::Part;
use crate::detect::matching::RuleMatch;
use crate::detect::rules::{RuleId, RuleKind, RuleSet};
use crate::detect::text::SubjectText;

/// Bytes of folded text in which matches add up.
const WINDOW: u32 = 700;
/// Most windows of a subject.
const WINDOW_LIMIT: usize = 4096;
/// How many windows back to look for a repetition.
const RECENT: usize = 8;

/// Which rules match in each window of a subject: the input for weighing and for fitting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// For each window, the rules that match in it, ascending and without repeats; never empty.
    pub windows: Vec<Vec<RuleId>>,
}

impl Features {
    /// Sorts matches, ascending by position, into windows.
    pub fn collect(&mut self, rules: &RuleSet, subject: &SubjectText<'_>, matches: &[RuleMatch]) {
        self.windows.clear();
        let part = |found: &RuleMatch| {
            subject
                .piece_at(found.start as usize)
                .map(|(index, piece)| (index, piece.part))
        };
        let everywhere = |found: &RuleMatch| {
            matches!(rules.rule(found.rule).matching, RuleKind::Probe)
                || matches!(part(found), Some((_, Part::Key | Part::Name | Part::Title)))
        };
        let mut shared: Vec<RuleId> = matches
            .iter()
            .filter(|found| everywhere(found))
            .map(|found| found.rule)
            .collect();
        shared.sort_unstable();
        shared.dedup();
        let local: Vec<(&RuleMatch, usize)> = matches
            .iter()
            .filter(|found| !everywhere(found))
            .filter_map(|found| Some((found, part(found)?.0)))
            .collect();
        let mut covered = 0;
        for (index, (first, piece)) in local.iter().enumerate() {
            let inside = local[index..]
                .iter()
                .take_while(|(next, other)| other == piece && next.start < first.start + WINDOW)
                .count();
            // A window that ends where the previous one ended contains nothing new.
            if index + inside <= covered {
                continue;
            }
            covered = index + inside;
            let mut window = shared.clone();
            window.extend(
                local[index..index + inside]
                    .iter()
                    .map(|(found, _)| found.rule),
            );
            window.sort_unstable();
            window.dedup();
            // The same few signs, repeated, count once.
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
