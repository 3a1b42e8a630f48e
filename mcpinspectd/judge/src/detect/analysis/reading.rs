//! The sentences of a definition, as the model reads them.

use crate::detect::category::Part;
use crate::detect::matching::{KnownNames, Matcher};
use crate::detect::meaning::features::{Sentence, hash};
use crate::detect::meaning::token::{Token, tokens};
use crate::detect::meaning::topic::Topic;
use crate::detect::rules::RuleSet;
use crate::detect::text::SubjectText;

/// Most sentences of a definition to read.
const SENTENCES: usize = 1024;
/// Most bytes of a sentence to read. What folds to little may be long, and the middle of a value that was
/// too long was left out when it was folded.
const BYTES: usize = 4096;
/// The fewest letters and digits of a meaningful sentence.
const LETTERS: usize = 4;

/// A sentence of a definition.
#[derive(Clone, Debug)]
pub struct ReadSentence {
    /// Where it starts and ends in the folded text.
    pub(super) span: (u32, u32),
    /// Its text as sent.
    pub text: String,
    /// Its tokens.
    pub tokens: Vec<Token>,
    /// Whether it is beside the description, for example in a schema.
    pub aside: bool,
    /// The parameter that it describes.
    pub parameter: Option<String>,
    /// The signs in it, as hashes of their names.
    pub signs: Vec<u64>,
    /// The built-in rules that match in it, as hashes of their ids.
    pub rules: Vec<u64>,
}

impl ReadSentence {
    /// The sentence as the model sees it, for a server that is about `topic`.
    pub fn seen<'a>(&'a self, topic: &'a Topic) -> Sentence<'a> {
        Sentence {
            tokens: &self.tokens,
            aside: self.aside,
            parameter: self.parameter.as_deref(),
            topic,
            signs: &self.signs,
            rules: &self.rules,
        }
    }
}

/// The sentences of the definition that `matcher` has just examined.
pub(super) fn sentences<'a>(
    rules: &'a RuleSet,
    text: &'a SubjectText<'_>,
    matcher: &'a Matcher,
    names: &'a KnownNames<'_>,
) -> impl Iterator<Item = ReadSentence> {
    let matches = &matcher.results.matches;
    let read = matcher.sentences.iter().filter_map(move |seen| {
        let (_, piece) = text.piece_at(seen.start as usize)?;
        if matches!(piece.part, Part::Key | Part::Name) {
            return None;
        }
        let end = (seen.end as usize).min(piece.end);
        let (from, to) = text.raw_range(piece, seen.start as usize, end);
        let raw = piece.raw.get(from..to)?;
        let raw = raw[..raw.floor_char_boundary(BYTES)].trim();
        let letters = raw.chars().filter(|c| c.is_alphanumeric());
        if letters.take(LETTERS).count() < LETTERS {
            return None;
        }
        let first = matches.partition_point(|found| found.start < seen.start);
        let inside = matches[first..]
            .iter()
            .take_while(|found| found.start < seen.end)
            .map(|found| rules.rule(found.rule));
        Some(ReadSentence {
            span: (seen.start, seen.end),
            text: raw.to_owned(),
            tokens: tokens(raw, names),
            aside: piece.part != Part::Description,
            parameter: (piece.part == Part::Schema)
                .then(|| parameter(&text.path(piece.path)).map(str::to_owned))
                .flatten(),
            signs: rules.signs(seen.concepts).collect(),
            rules: distinct(
                inside
                    .filter(|rule| rule.builtin)
                    .map(|rule| hash(rule.id.as_bytes()))
                    .collect(),
            ),
        })
    });
    read.take(SENTENCES)
}

fn distinct(mut hashes: Vec<u64>) -> Vec<u64> {
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// The parameter that the text at `path` describes: `city` for `inputSchema.properties.city.description`.
fn parameter(path: &str) -> Option<&str> {
    let (before, _) = path.rsplit_once(".description")?;
    let (before, name) = before.rsplit_once('.')?;
    before.ends_with("properties").then_some(name)
}
