//! Makes hidden text visible to the rules.

use crate::detect::category::Part;
use crate::detect::probes::{encoded, hidden};
use crate::detect::rules::Probe;
use crate::detect::text::{PathId, PathSegment, SubjectText, VALUE_LIMIT};

/// Most payloads of one subject that are decoded and examined.
const DECODED: usize = 32;

/// Finds hidden characters and encoded payloads, and adds what they spell to the subject as pieces of its
/// own. Returns each finding with the index of its piece.
pub(super) fn reveal(subject: &mut SubjectText<'_>) -> Vec<(usize, hidden::Hidden)> {
    let mut all = Vec::new();
    let mut found = Vec::new();
    let mut decoded: Vec<(PathId, Part, &'static str, String)> = Vec::new();
    for (index, piece) in subject.pieces().iter().enumerate() {
        let raw = crate::text::bound(&piece.raw, VALUE_LIMIT);
        hidden::find(&raw, &mut found);
        if found.iter().any(|hidden| {
            matches!(
                hidden.probe,
                Probe::TagCharacters | Probe::VariationSelectors
            )
        }) && let Some(text) = hidden::spelled(&raw)
        {
            decoded.push((piece.path, piece.part, "invisible", text));
        }
        all.extend(found.drain(..).map(|hidden| (index, hidden)));
        for payload in encoded::find(&raw) {
            all.push((
                index,
                hidden::Hidden {
                    probe: Probe::EncodedText,
                    start: payload.start,
                    end: payload.end,
                },
            ));
            decoded.push((piece.path, piece.part, payload.how, payload.text));
        }
    }
    if decoded.len() > DECODED {
        subject.mark_truncated();
    }
    for (path, part, how, text) in decoded.into_iter().take(DECODED) {
        let path = subject.child(path, PathSegment::Decoded(how));
        subject.push(path, part, text);
    }
    all
}
