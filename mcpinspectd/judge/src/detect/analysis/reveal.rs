//! Makes hidden text visible to the rules.

use crate::detect::category::Part;
use crate::detect::probes::{encoded, hidden, turns};
use crate::detect::rules::Probe;
use crate::detect::text::{PathId, PathSegment, SubjectText, VALUE_LIMIT};

/// Most payloads of one subject to decode and examine.
const DECODED: usize = 32;
/// Most findings of one kind in one subject: a flood of one must not displace the others.
const OF_A_KIND: usize = 64;

/// Finds hidden characters and encoded payloads, and adds what they spell to the subject as separate pieces.
/// Returns each finding with the index of its piece.
pub(super) fn reveal(subject: &mut SubjectText<'_>) -> Vec<(usize, hidden::HiddenText)> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    let mut decoded: Vec<(PathId, Part, &'static str, String)> = Vec::new();
    let mut too_many = false;
    let note = |all: &mut Vec<(usize, hidden::HiddenText)>, index, hidden: hidden::HiddenText| {
        let of_a_kind = all.iter().filter(|(_, known)| known.probe == hidden.probe);
        if of_a_kind.count() < OF_A_KIND {
            all.push((index, hidden));
        }
    };
    for (index, piece) in subject.pieces().iter().enumerate() {
        let raw = mcpinspect_core::text::bound(&piece.raw, VALUE_LIMIT);
        hidden::find(&raw, &mut found);
        found.extend(turns::find(&raw).map(|(start, end)| hidden::HiddenText {
            probe: Probe::ForgedTurn,
            start,
            end,
        }));
        if found.iter().any(|hidden| {
            matches!(
                hidden.probe,
                Probe::TagCharacters | Probe::VariationSelectors
            )
        }) && let Some(text) = hidden::spelled(&raw)
        {
            match decoded.len() < DECODED {
                true => decoded.push((piece.path, piece.part, "invisible", text)),
                false => too_many = true,
            }
        }
        for hidden in found.drain(..) {
            note(&mut all, index, hidden);
        }
        // Once there are too many, the rest would not be examined.
        let payloads = match too_many {
            false => encoded::find(&raw),
            true => Vec::new(),
        };
        for payload in payloads {
            let hidden = hidden::HiddenText {
                probe: Probe::EncodedText,
                start: payload.start,
                end: payload.end,
            };
            note(&mut all, index, hidden);
            match decoded.len() < DECODED {
                true => decoded.push((piece.path, piece.part, payload.how, payload.text)),
                false => too_many = true,
            }
        }
    }
    if too_many {
        subject.mark_truncated();
    }
    for (path, part, how, text) in decoded {
        let path = subject.child(path, PathSegment::Decoded(how));
        subject.push(path, part, text);
    }
    all
}
