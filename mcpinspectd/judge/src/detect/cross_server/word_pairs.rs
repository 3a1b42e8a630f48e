//! Descriptions, compared by their pairs of adjacent words.
//!
//! Copies of a description differ in details: a word is replaced, a sentence added. Most pairs of adjacent
//! words stay the same, and two honest descriptions of similar tools have few in common. Each description is
//! compared with many others, nearly all of them different. So a sketch of a few machine words
//! excludes most of them, and an index by bands finds the candidates.

use crate::detect::text::names::hash_bytes;

/// Most pairs to compare.
pub(super) const PAIRS: usize = 64;
/// The fewest pairs that make a description comparable.
pub(super) const COMPARABLE_MIN: usize = 6;
/// Bands of the index; each is made of two hashes.
pub(super) const BANDS: usize = 8;

/// The word pairs of a description.
#[derive(Clone, Debug)]
pub(super) struct WordPairs {
    /// Hashes of the pairs, sorted.
    hashes: Box<[u32]>,
    sketch: Sketch,
}

impl WordPairs {
    /// The word pairs at the beginning of a text.
    pub(super) fn of(text: &str) -> Self {
        let hashes = hashes_of(text);
        Self {
            sketch: Sketch::of(&hashes),
            hashes: hashes.into(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Keys for an index: descriptions that are mostly equal share at least one. `None` if there are too few
    /// pairs.
    pub(super) fn bands(&self) -> Option<[u32; BANDS]> {
        bands_of(&self.hashes)
    }

    /// Whether all pairs are the same.
    pub(super) fn equal(&self, other: &Self) -> bool {
        self.hashes == other.hashes
    }

    /// Whether at least `least` pairs are the same.
    pub(super) fn have_in_common(&self, other: &Self, least: f32) -> bool {
        let enough = |count: usize| count as f32 >= least;
        enough(self.sketch.most_in_common(&other.sketch))
            && enough(common(&self.hashes, &other.hashes))
    }
}

/// A set of word pairs in so few bits that two sets can be compared at once.
#[derive(Clone, Debug, Default)]
struct Sketch {
    bits: [u64; 8],
    /// How many pairs share a bit with another pair of the set.
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

    /// An upper bound on what two sets with these sketches have in common.
    fn most_in_common(&self, other: &Self) -> usize {
        let bits = self.bits.iter().zip(&other.bits);
        let bits: u32 = bits.map(|(a, b)| (a & b).count_ones()).sum();
        bits as usize + usize::from(self.shared.min(other.shared))
    }
}

/// Hashes of a text's start that mostly equal texts share (a MinHash); `None` if it is too
/// short to be compared.
fn bands_of(pairs: &[u32]) -> Option<[u32; BANDS]> {
    if pairs.len() < COMPARABLE_MIN {
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

/// Hashes of the pairs of adjacent words at the beginning of a text, sorted.
fn hashes_of(text: &str) -> Vec<u32> {
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
pub(super) fn common(mut a: &[u32], mut b: &[u32]) -> usize {
    let mut common = 0;
    while let ([one, rest_of_a @ ..], [other, rest_of_b @ ..]) = (a, b) {
        common += usize::from(one == other);
        // Branchless, because no processor can predict which one is smaller.
        let (forward_a, forward_b) = (one <= other, other <= one);
        a = if forward_a { rest_of_a } else { a };
        b = if forward_b { rest_of_b } else { b };
    }
    common
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
pub(super) fn hash(text: &str) -> u32 {
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

    /// Arbitrary numbers, many of them equal in the bits that a sketch uses.
    fn set(seed: u32, size: u32, range: u32) -> Vec<u32> {
        let numbers: BTreeSet<u32> = (0..size).map(|n| mix(n, seed) % range).collect();
        numbers.into_iter().collect()
    }

    #[test]
    fn a_sketch_never_underestimates() {
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
    fn the_hash_of_a_word_does_not_depend_on_its_case() {
        for (one, other) in [
            ("Search", "search"),
            ("ÄRGER", "ärger"),
            (&"LONG".repeat(20), &"long".repeat(20)),
        ] {
            assert_eq!(hash_folded(one), hash_folded(other));
        }
    }
}
