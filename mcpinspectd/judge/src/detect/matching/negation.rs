//! What a negation turns into its opposite.
//!
//! "Never follow instructions that you find there" has all the words of the order that it forbids, and "never
//! run this without telling the user" those of a secret. So each hit knows how many negations apply to it:
//! a rule may ask that a word be asserted, or that it be denied and not denied twice.
//!
//! A negation reaches to the end of its clause: a mark, a conjunction, or a number of bytes. Whatever lifts it again
//! ("never *fail* to", "do not *only*") counts as one more. Which words do what is data: the lists `negates`,
//! `lifts_negation` and `ends_negation` of the rule files. Languages that negate after the verb are not supported.

use super::hit::Hit;
use crate::detect::rules::Negation;

/// How far a negation reaches at most, in bytes.
const REACH: usize = 120;
/// The longest member of an enumeration ("trust, run, or follow") that a comma does not cut off.
const MEMBER: usize = 24;
/// Most negations of a sentence to count at a time.
const OPEN: usize = 4;

/// Counts, for each hit of a sentence, the negations that apply to it. `hits` are ascending, and `end` is where
/// the sentence ends.
pub(super) fn count(words: Negation, text: &[u8], hits: &mut [Hit], end: usize) {
    if words.by == 0 || !hits.iter().any(|hit| hit.concepts & words.by != 0) {
        return;
    }
    // Where each open negation begins to count and where it ends; the earliest gives way.
    let mut open = [(0u32, 0u32); OPEN];
    let mut next = 0;
    for hit in hits {
        if hit.concepts & words.ended != 0 {
            for (_, until) in &mut open {
                *until = (*until).min(hit.start);
            }
        }
        let over = open
            .iter()
            .filter(|(from, until)| *from <= hit.start && hit.start < *until);
        hit.negations = over.count() as u8;
        let lifts = hit.concepts & words.lifted != 0 && hit.negations > 0;
        let negates = hit.concepts & words.by != 0;
        if !negates && !lifts {
            continue;
        }
        // "Is not to be" has two words of the list, but is one negation.
        if open
            .iter()
            .any(|(from, until)| *until > 0 && hit.start < *from)
        {
            continue;
        }
        let from = hit.end as usize;
        let (from, until) = clause(text, from, end.min(from + REACH));
        open[next % OPEN] = (from as u32, until as u32);
        next += 1;
    }
}

/// The clause that continues at `from`, up to `limit`.
fn clause(text: &[u8], from: usize, limit: usize) -> (usize, usize) {
    let text = &text[..limit.min(text.len())];
    let mut from = from.min(text.len());
    // "Never, under any circumstances, do this."
    if text.get(from) == Some(&b',') {
        let aside = text[from + 1..].iter().position(|byte| *byte == b',');
        from += aside.map_or(1, |length| length + 2);
    }
    let mut at = from;
    while let Some(byte) = text.get(at) {
        let ends = match byte {
            b';' | b':' | b'!' | b'?' | b'\n' => text
                .get(at + 1)
                .is_none_or(|next| next.is_ascii_whitespace()),
            b',' => !enumerates(&text[at + 1..]),
            b'-' => text.get(at.wrapping_sub(1)) == Some(&b' ') && text.get(at + 1) == Some(&b' '),
            // The full stops and commas of East Asian scripts, and the long dash.
            0xe2..=0xef => ["。", "、", "，", "；", "：", "—"]
                .iter()
                .any(|mark| text[at..].starts_with(mark.as_bytes())),
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    (from, at)
}

/// Whether what follows a comma is the next member of an enumeration of alternatives.
fn enumerates(rest: &[u8]) -> bool {
    let or = |rest: &[u8]| {
        let rest = rest.trim_ascii_start();
        rest.starts_with(b"or ") || rest.starts_with(b"nor ")
    };
    let member = rest.iter().take(MEMBER).position(|byte| *byte == b',');
    or(rest) || member.is_some_and(|length| or(&rest[length + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: u128 = 1;
    const LIFTED: u128 = 2;
    const ENDED: u128 = 4;
    const DEED: u128 = 8;

    /// How many negations apply to `run`.
    fn under(text: &str) -> Vec<u8> {
        let words = [
            ("never", BY),
            ("not to", BY),
            ("not", BY),
            ("without", BY),
            ("only", LIFTED),
            ("fail", LIFTED),
            ("but", ENDED),
            ("run", DEED),
        ];
        let found = words.iter().flat_map(|(word, concepts)| {
            text.match_indices(word).map(|(start, _)| Hit {
                start: start as u32,
                end: (start + word.len()) as u32,
                concepts: *concepts,
                negations: 0,
            })
        });
        let mut hits: Vec<Hit> = found.collect();
        hits.sort_unstable_by_key(|hit| (hit.start, hit.end));
        let words = Negation {
            by: BY,
            lifted: LIFTED,
            ended: ENDED,
        };
        count(words, text.as_bytes(), &mut hits, text.len());
        let deeds = hits.iter().filter(|hit| hit.concepts == DEED);
        deeds.map(|hit| hit.negations).collect()
    }

    #[test]
    fn a_negation_reaches_to_the_end_of_its_clause() {
        assert_eq!(under("run this"), [0]);
        assert_eq!(under("never run this"), [1]);
        assert_eq!(under("never open it, run it"), [0]);
        assert_eq!(under("never open it but run it"), [0]);
        assert_eq!(under("never mind: run it"), [0]);
        assert_eq!(under("run this, and never that"), [0]);
        assert_eq!(under("you are not to run this"), [1]);
        assert_eq!(under("never, whatever it says, run it"), [1]);
        assert_eq!(under("never trust, open, or run it"), [1]);
        assert_eq!(under(&format!("never {}run", "x".repeat(REACH))), [0]);
    }

    #[test]
    fn what_is_denied_twice_is_meant() {
        assert_eq!(under("never fail to run it"), [2]);
        assert_eq!(under("do not only look but run it"), [0]);
        assert_eq!(under("do not only run it"), [2]);
        assert_eq!(under("never leave without run"), [2]);
        assert_eq!(under("fail to run"), [0]);
    }
}
