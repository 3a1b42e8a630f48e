//! What is compared of a tool: its name, its parameters' names, its description's words.

use super::super::names::{distinctive, folded, hash_bytes, skeleton};
use super::super::tree::Tree;

/// Most word pairs of a description that are compared.
const PAIRS: usize = 64;
/// Bands of the index of descriptions; each is two hashes.
pub const BANDS: usize = 8;
/// Share of equal word pairs from which two descriptions are the same text.
const SAME_TEXT: f32 = 0.7;
/// Fewest word pairs of a description that make it comparable.
const TEXT_MIN: usize = 6;
/// Share of a description's word pairs from which on it stands in a longer one.
const QUOTED_TEXT: f32 = 0.85;
/// Share of equal word pairs from which two descriptions speak of the same.
pub const RELATED_TEXT: f32 = 0.3;
/// Fewest word pairs of a description for it to be worth copying.
const TEXT_COPIED: usize = 8;
/// Fewest word pairs of a description for it to be recognised inside a longer one.
const TEXT_QUOTED: usize = 14;

/// What is compared of a tool.
#[derive(Clone, Debug)]
pub struct Card {
    /// The name in lower case.
    pub name: Box<str>,
    /// The name without case, separators and look-alikes.
    pub skeleton: Box<str>,
    /// Hashes of the parameters' names, sorted.
    parameters: Box<[u32]>,
    /// Hashes of the description's pairs of neighbouring words, sorted.
    pairs: Box<[u32]>,
    sketch: Sketch,
    /// Keys of the index of descriptions: texts that are mostly equal share at least one.
    pub bands: Option<[u32; BANDS]>,
}

impl Card {
    /// The card of a definition; none where it has no name.
    pub fn of(tool: &Tree<'_>) -> Option<Self> {
        let name = name_of(tool)?;
        let description = tool
            .get("description")
            .and_then(Tree::as_str)
            .unwrap_or_default();
        let mut parameters: Vec<u32> = tool
            .get("inputSchema")
            .and_then(|schema| schema.get("properties"))
            .and_then(Tree::as_object)
            .map(|properties| {
                properties
                    .keys()
                    .take(PAIRS)
                    .map(|key| hash(&skeleton(key)))
                    .collect()
            })
            .unwrap_or_default();
        parameters.sort_unstable();
        let name = folded(name);
        let pairs = pairs(description);
        Some(Self {
            skeleton: skeleton(&name).into(),
            name,
            parameters: parameters.into(),
            sketch: Sketch::of(&pairs),
            bands: bands(&pairs),
            pairs: pairs.into(),
        })
    }

    /// Whether `share` of the shorter description stands in the longer one. Of texts that are too
    /// short for that, only equal ones are alike, and never more than [`RELATED_TEXT`].
    pub fn shares_text(&self, other: &Self, share: f32) -> bool {
        let shorter = self.pairs.len().min(other.pairs.len());
        if shorter >= TEXT_MIN {
            self.has_in_common(other, share * shorter as f32)
        } else {
            shorter > 0 && self.pairs == other.pairs && share <= RELATED_TEXT
        }
    }

    /// Whether both descriptions have at least so many pairs of words in common. Most of the tools
    /// that are looked at have next to none, and the sketches show it at a glance.
    fn has_in_common(&self, other: &Self, least: f32) -> bool {
        let enough = |count: usize| count as f32 >= least;
        enough(self.sketch.most_in_common(&other.sketch))
            && enough(common(&self.pairs, &other.pairs))
    }

    /// Whether a tool of the same name was copied, rather than named alike by chance.
    pub fn copies(&self, other: &Self, few: bool) -> bool {
        self.same_text(other, few)
            || (few
                && distinctive(&self.name)
                && self.same_parameters(other)
                && self.shares_text(other, RELATED_TEXT))
    }

    /// Whether the descriptions are the same text, long enough to be no commonplace.
    pub fn same_text(&self, other: &Self, few: bool) -> bool {
        let least = if few { TEXT_COPIED } else { TEXT_COPIED + 3 };
        let (a, b) = (self.pairs.len(), other.pairs.len());
        let (shorter, longer) = (a.min(b), a.max(b));
        let whole = (shorter >= least).then_some(SAME_TEXT * longer as f32);
        let quoted = (shorter >= TEXT_QUOTED).then_some(QUOTED_TEXT * shorter as f32);
        let wanted = whole.into_iter().chain(quoted).reduce(f32::min);
        wanted.is_some_and(|wanted| self.has_in_common(other, wanted))
    }

    /// Whether both take the same parameters, for the most part.
    pub fn same_parameters(&self, other: &Self) -> bool {
        let (a, b) = (&self.parameters, &other.parameters);
        a.len().min(b.len()) >= 1 && common(a, b) * 4 >= a.len().max(b.len()) * 3
    }
}

/// A set of word pairs in so few bits that two of them are compared at once.
#[derive(Clone, Debug, Default)]
struct Sketch {
    bits: [u64; 8],
    /// How many pairs share a bit with another one of the set.
    shared: u8,
}

impl Sketch {
    fn of(pairs: &[u32]) -> Self {
        let mut sketch = Self::default();
        for pair in pairs {
            let (word, bit) = (pair >> 6 & 7, 1 << (pair & 63));
            let word = &mut sketch.bits[word as usize];
            sketch.shared += u8::from(*word & bit != 0);
            *word |= bit;
        }
        sketch
    }

    /// No two sets with these sketches have more in common.
    fn most_in_common(&self, other: &Self) -> usize {
        let bits = self.bits.iter().zip(&other.bits);
        let bits: u32 = bits.map(|(a, b)| (a & b).count_ones()).sum();
        bits as usize + usize::from(self.shared.min(other.shared))
    }
}

fn bands(pairs: &[u32]) -> Option<[u32; BANDS]> {
    if pairs.len() < TEXT_MIN {
        return None;
    }
    let mut least = [u32::MAX; 2 * BANDS];
    for pair in pairs {
        for (seed, least) in (0..).zip(&mut least) {
            *least = (*least).min(mix(*pair, seed));
        }
    }
    Some(std::array::from_fn(|band| {
        mix(least[2 * band], least[2 * band + 1])
    }))
}

/// Hashes of the pairs of neighbouring words of a text's beginning, sorted.
fn pairs(text: &str) -> Vec<u32> {
    let mut previous = 0;
    let mut pairs = Vec::with_capacity(PAIRS);
    for word in text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(PAIRS)
    {
        let word = hash_folded(word);
        pairs.push(mix(previous, word));
        previous = word;
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// How many elements two sorted lists have in common.
fn common(mut a: &[u32], mut b: &[u32]) -> usize {
    let mut common = 0;
    while let ([one, rest_of_a @ ..], [other, rest_of_b @ ..]) = (a, b) {
        common += usize::from(one == other);
        // Without a branch: which one is smaller is anybody's guess.
        let (forward_a, forward_b) = (one <= other, other <= one);
        a = if forward_a { rest_of_a } else { a };
        b = if forward_b { rest_of_b } else { b };
    }
    common
}

fn name_of<'a>(tool: &'a Tree<'_>) -> Option<&'a str> {
    tool.get("name")
        .and_then(Tree::as_str)
        .filter(|name| !name.is_empty())
}

/// The hash of a word in lower case.
fn hash_folded(word: &str) -> u32 {
    if word.is_ascii() {
        let mut lower = [0; 32];
        if let Some(lower) = lower.get_mut(..word.len()) {
            lower.copy_from_slice(word.as_bytes());
            lower.make_ascii_lowercase();
            return hash_bytes(lower);
        }
    }
    hash(&word.to_lowercase())
}

/// A short hash of a text.
pub fn hash(text: &str) -> u32 {
    hash_bytes(text.as_bytes())
}

fn mix(a: u32, b: u32) -> u32 {
    let mixed = (a ^ b.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    mixed ^ (mixed >> 15)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Numbers without a pattern, many of them equal in the bits that a sketch looks at.
    fn set(seed: u32, size: u32, range: u32) -> Vec<u32> {
        let numbers: BTreeSet<u32> = (0..size).map(|n| mix(n, seed) % range).collect();
        numbers.into_iter().collect()
    }

    #[test]
    fn a_sketch_never_says_less_than_there_is() {
        for seed in 0..400 {
            for range in [70, 600, 100_000] {
                let (a, b) = (set(seed, 64, range), set(seed + 1000, seed % 65, range));
                let counted = a.iter().filter(|pair| b.contains(pair)).count();
                assert_eq!(common(&a, &b), counted);
                let most = Sketch::of(&a).most_in_common(&Sketch::of(&b));
                assert!(most >= counted, "{most} for {counted} of {range}");
            }
        }
    }

    #[test]
    fn words_have_their_hash_however_they_are_written() {
        for (one, other) in [
            ("Search", "search"),
            ("ÄRGER", "ärger"),
            (&"LONG".repeat(20), &"long".repeat(20)),
        ] {
            assert_eq!(hash_folded(one), hash_folded(other));
        }
    }
}
