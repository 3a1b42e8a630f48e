//! Describes matches as findings: which rule, where, and why.

use mcpinspect_core::model::{Action, Detection, Match, Severity};

use super::reading::ReadSentence;
use super::report::DETECTIONS;
use crate::detect::matching::RuleMatch;
use crate::detect::meaning::Meaning;
use crate::detect::probes::hidden::HiddenText;
use crate::detect::rules::{RuleId, RuleSet};
use crate::detect::text::sanitise::excerpt;
use crate::detect::text::{Piece, SubjectText};

/// Most places of one finding.
const PLACES: usize = 4;
/// The longest excerpt of a match, in characters.
const EXCERPT: usize = 160;
/// Characters of context to each side of a match.
const CONTEXT: usize = 60;

/// A finding that a probe reported.
pub(super) struct ProbeMatch {
    /// The probe's rule.
    pub rule: RuleId,
    /// Index of the piece that it is about.
    pub piece: usize,
    /// The place in the original text, if it is about a place.
    pub hidden: Option<HiddenText>,
    /// What to add to the rule's explanation.
    pub addition: String,
}

/// Describes all matches. Those of `probed` are among `matches`.
pub(super) fn describe(
    rules: &RuleSet,
    subject: &SubjectText<'_>,
    matches: &[RuleMatch],
    probed: &[ProbeMatch],
) -> Vec<Detection> {
    let mut out: Vec<Detection> = Vec::new();
    for found in matches {
        let rule = rules.rule(found.rule);
        let Some((index, piece)) = subject.piece_at(found.start as usize) else {
            continue;
        };
        if rule.weight < 0.0 {
            continue;
        }
        let probe = probed
            .iter()
            .find(|probe| probe.rule == found.rule && probe.piece == index);
        let range = match probe {
            Some(ProbeMatch {
                hidden: Some(hidden),
                ..
            }) => (hidden.start, hidden.end),
            Some(_) => (0, piece.raw.len()),
            None => subject.raw_range(piece, found.start as usize, found.end as usize),
        };
        let addition = probe.map_or("", |probe| probe.addition.as_str());
        let place = place(piece, range);
        let field = subject.path(piece.path);
        let known = out
            .iter()
            .position(|detection| detection.pattern == rule.id && detection.field == field);
        match known {
            Some(at) if out[at].matches.len() < PLACES => out[at].matches.push(place),
            Some(_) => {}
            None if out.len() < DETECTIONS => out.push(Detection {
                pattern: rule.id.clone(),
                category: rule.category.as_str().to_owned(),
                severity: rule.severity,
                matches: vec![place],
                field,
                explanation: if addition.is_empty() {
                    rule.explanation.clone()
                } else {
                    format!("{} {}", rule.explanation, excerpt(addition, EXCERPT))
                },
            }),
            None => break,
        }
    }
    out.sort_by_key(|detection| std::cmp::Reverse(detection.severity));
    out
}

/// Adds the sentence that the model finds telling, before the findings of rules.
pub(super) fn add_meaning(
    out: &mut Vec<Detection>,
    subject: &SubjectText<'_>,
    meaning: Meaning,
    sentence: &ReadSentence,
) {
    let (start, end) = (sentence.span.0 as usize, sentence.span.1 as usize);
    let Some((_, piece)) = subject.piece_at(start) else {
        return;
    };
    let act = meaning.act();
    out.truncate(DETECTIONS - 1);
    let detection = Detection {
        pattern: act.pattern.to_owned(),
        category: act.category.as_str().to_owned(),
        severity: Severity::High,
        matches: vec![place(
            piece,
            subject.raw_range(piece, start, end.min(piece.end)),
        )],
        field: subject.path(piece.path),
        explanation: format!(
            "{} It says: \u{201c}{}\u{201d}",
            act.says,
            excerpt(&sentence.text, EXCERPT)
        ),
    };
    out.insert(0, detection);
}

/// The place of a match in a piece's original text, with its context.
fn place(piece: &Piece<'_>, (start, end): (usize, usize)) -> Match {
    let raw = &*piece.raw;
    let (start, end) = (start.min(raw.len()), end.min(raw.len()));
    let before = raw.get(..start).map_or(start, |text| {
        text.char_indices()
            .rev()
            .nth(CONTEXT - 1)
            .map_or(0, |(at, _)| at)
    });
    let after = raw.get(end..).map_or(end, |text| {
        end + text
            .char_indices()
            .nth(CONTEXT)
            .map_or(text.len(), |(at, _)| at)
    });
    Match {
        text: excerpt(raw.get(start..end).unwrap_or_default(), EXCERPT),
        position: start,
        context: excerpt(
            raw.get(before..after).unwrap_or_default(),
            EXCERPT + 2 * CONTEXT,
        ),
    }
}

/// The severity of a subject that calls for `action`.
pub(super) fn severity(action: Action, detections: &[Detection]) -> Severity {
    let worst = detections
        .iter()
        .map(|detection| detection.severity)
        .max()
        .unwrap_or(Severity::Low);
    match action {
        Action::Block => Severity::Critical,
        Action::Alert => worst.clamp(Severity::High, Severity::Critical),
        Action::Warn | Action::None => worst.clamp(Severity::Low, Severity::Medium),
    }
}
