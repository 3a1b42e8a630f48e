//! Finds phrases of whole words: nearly all of the patterns that rules are made of.
//!
//! An automaton over bytes has a state for each letter of each phrase. For thousands of phrases that
//! is ten megabytes, and a text of ordinary words leads through so many of these states that each
//! letter waits for memory. Here a step is a word: the text's words are hashed once, and most of them
//! begin no phrase. What is left is looked up in a table that fits into a processor's cache.
//!
//! A phrase is found by hashes and then compared, so the table may merge what has equal hashes.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Most words of a phrase. With it the work per word of a text is bounded.
const WORDS_MAX: usize = 16;
/// Most bytes between two words of a phrase.
const GAP_MAX: usize = 4;
/// Bytes by which the open last word of a phrase is looked up.
const STEM: usize = 3;

/// See the module's text.
#[derive(Debug)]
pub struct Phrases {
    /// From a node, by a word and what parts it from the word before, to the next node.
    edges: HashMap<u64, u32, FixedState>,
    nodes: Vec<Node>,
    /// Which hashes begin a phrase, by their topmost bits.
    beginnings: Box<[u64; BEGINNINGS / 64]>,
}

const BEGINNINGS: usize = 1 << 15;

/// A beginning that phrases have in common.
#[derive(Debug, Default)]
struct Node {
    /// How phrases go on from here: a bit for each step. Most words are none of them.
    steps: u64,
    complete: Vec<Complete>,
}

/// A phrase that has no more words.
#[derive(Debug)]
struct Complete {
    /// What it stands for.
    concepts: u128,
    text: Box<[u8]>,
    /// Whether its last word may go on.
    open: bool,
}

const ROOT: u32 = 0;

/// A word of a text or of a phrase.
#[derive(Clone, Copy)]
struct Word {
    start: usize,
    end: usize,
    /// Of its letters.
    whole: u64,
    /// Of its first letters; none where it has fewer.
    stem: Option<u64>,
}

impl Phrases {
    /// No phrases yet.
    pub fn new() -> Self {
        Self {
            edges: HashMap::default(),
            nodes: vec![Node::default()],
            beginnings: Box::new([0; BEGINNINGS / 64]),
        }
    }

    /// Takes in a phrase that begins at the start of a word, and ends at the end of one or, where
    /// it is `open`, within one. Gives whether it could: it must consist of words and short gaps.
    pub fn add(&mut self, concepts: u128, text: &str, open: bool) -> bool {
        let text = text.as_bytes();
        let words: Vec<Word> = words(text).take(WORDS_MAX + 1).collect();
        let (Some(first), Some(last)) = (words.first(), words.last()) else {
            return false;
        };
        let gaps = words.windows(2).map(|pair| pair[1].start - pair[0].end);
        if first.start != 0
            || last.end != text.len()
            || words.len() > WORDS_MAX
            || gaps.max().is_some_and(|gap| gap > GAP_MAX)
            || (open && last.stem.is_none())
        {
            return false;
        }
        let mut node = ROOT;
        for (index, word) in words.iter().enumerate() {
            let is_last = index + 1 == words.len();
            let hash = match word.stem {
                Some(stem) if open && is_last => stem,
                _ => word.whole,
            };
            let step = match index.checked_sub(1) {
                None => {
                    self.beginnings[beginning(hash).0] |= beginning(hash).1;
                    hash
                }
                Some(before) => after_gap(&text[words[before].end..word.start], hash),
            };
            self.nodes[node as usize].steps |= step_bit(step);
            node = match self.edges.get(&edge(node, step)) {
                Some(next) => *next,
                None => {
                    let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
                    self.nodes.push(Node::default());
                    self.edges.insert(edge(node, step), next);
                    next
                }
            };
        }
        let text = text.into();
        self.nodes[node as usize].complete.push(Complete {
            concepts,
            text,
            open,
        });
        true
    }

    /// Tells `found` of each place where a phrase stands: its concepts, its start and its end. Gives
    /// how many steps it took.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(u128, usize, usize)) -> u64 {
        // Beginnings of phrases that the text has been equal to up to the word before.
        let (mut begun, mut going) = (Vec::<(u32, usize)>::new(), Vec::new());
        let (mut before, mut work) = (0, 0);
        for word in words(text) {
            let gap = &text[before..word.start];
            let mut step = |node: u32, start: usize, hash: u64| {
                work += 1;
                let Some(next) = self.edges.get(&edge(node, hash)) else {
                    return;
                };
                let node = &self.nodes[*next as usize];
                for phrase in &node.complete {
                    let end = start + phrase.text.len();
                    let ends = end == word.end || (phrase.open && end < word.end);
                    if ends && text.get(start..end) == Some(&phrase.text) {
                        found(phrase.concepts, start, end);
                    }
                }
                if node.steps != 0 {
                    going.push((*next, start));
                }
            };
            if gap.len() <= GAP_MAX && !begun.is_empty() {
                for hash in [Some(word.whole), word.stem].into_iter().flatten() {
                    let hash = after_gap(gap, hash);
                    for (node, start) in &begun {
                        if self.nodes[*node as usize].steps & step_bit(hash) != 0 {
                            step(*node, *start, hash);
                        }
                    }
                }
            }
            for hash in [Some(word.whole), word.stem].into_iter().flatten() {
                if self.begins(hash) {
                    step(ROOT, word.start, hash);
                }
            }
            begun.clear();
            std::mem::swap(&mut begun, &mut going);
            before = word.end;
        }
        work
    }

    fn begins(&self, hash: u64) -> bool {
        let (place, bit) = beginning(hash);
        self.beginnings[place] & bit != 0
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let complete = self.nodes.iter().flat_map(|node| &node.complete);
        let complete: usize = complete
            .map(|phrase| size_of::<Complete>() + phrase.text.len())
            .sum();
        self.edges.capacity() * size_of::<(u64, u32)>()
            + self.nodes.capacity() * size_of::<Node>()
            + size_of_val(&*self.beginnings)
            + complete
    }
}

/// The words of a text, as [`super::matching`] takes them: a boundary is where one starts or ends.
fn words(text: &[u8]) -> impl Iterator<Item = Word> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while !in_word(*text.get(at)?) {
            at += 1;
        }
        let start = at;
        let (mut hash, mut letters, mut stem) = (0, 0u64, None);
        while let Some(byte) = text.get(at).filter(|byte| in_word(**byte)) {
            letters = letters << 8 | u64::from(*byte);
            at += 1;
            if at - start == STEM {
                stem = Some(mix(letters, STEMS));
            }
            if (at - start).is_multiple_of(8) {
                hash = mix(hash ^ letters, WHOLE);
                letters = 0;
            }
        }
        Some(Word {
            start,
            end: at,
            whole: mix(hash ^ letters, WHOLE),
            stem,
        })
    })
}

/// Whether a byte is part of a word. All of what is beyond ASCII is.
pub fn in_word(byte: u8) -> bool {
    WORD[byte as usize]
}

static WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80;
        byte += 1;
    }
    table
};

/// Numbers without a pattern, one for each thing that is hashed.
const WHOLE: u64 = 0x9e37_79b9_7f4a_7c15;
const STEMS: u64 = 0xd1b5_4a32_d192_ed03;
const GAPS: u64 = 0xaef1_7502_108e_f2d9;
const EDGES: u64 = 0x94d0_49bb_1331_11eb;

fn mix(value: u64, by: u64) -> u64 {
    let product = u128::from(value ^ by) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of a word that comes behind a gap.
fn after_gap(gap: &[u8], hash: u64) -> u64 {
    let gap = gap.iter().fold(1, |all, byte| all << 8 | u64::from(*byte));
    mix(hash ^ gap, GAPS)
}

fn edge(node: u32, step: u64) -> u64 {
    step ^ u64::from(node).wrapping_mul(EDGES)
}

fn step_bit(step: u64) -> u64 {
    1 << (step >> 58)
}

/// The place and the bit of a hash among those that begin a phrase.
fn beginning(hash: u64) -> (usize, u64) {
    let place = hash as usize % BEGINNINGS;
    (place / 64, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use aho_corasick::AhoCorasick;
    use proptest::prelude::*;

    use super::*;

    /// Few words, so that they come together often, and look like each other.
    const VOCABULARY: &[&str] = &[
        "do",
        "not",
        "tell",
        "the",
        "user",
        "users",
        "tell_me",
        "über",
        "instruction",
        "instructions",
        "a",
    ];
    const GAPS: &[&str] = &[" ", "'", ". ", " - ", "\n", "     "];

    fn phrase(words: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let word = prop::sample::select(VOCABULARY);
        let gap = prop_oneof![8 => Just(" "), 1 => prop::sample::select(GAPS)];
        let rest = prop::collection::vec((gap, word.clone()), words);
        (word, rest).prop_map(|(first, rest)| {
            let rest = rest.into_iter().map(|(gap, word)| format!("{gap}{word}"));
            format!("{first}{}", rest.collect::<String>())
        })
    }

    proptest! {
        #[test]
        fn finds_what_an_automaton_finds(
            patterns in prop::collection::vec((phrase(0..4), any::<bool>(), 0..3usize), 1..12),
            text in phrase(0..40),
            before in prop::sample::select(&["", ".", "x", " "][..]),
        ) {
            let text = format!("{before}{text}");
            let patterns: Vec<(String, bool)> = patterns
                .into_iter()
                // An open phrase may end within a word.
                .map(|(mut text, open, less)| {
                    if open {
                        let shorter = text.len() - less.min(text.len() - 1);
                        text.truncate(text.floor_char_boundary(shorter));
                    }
                    (text, open)
                })
                .collect();
            let mut phrases = Phrases::new();
            let taken: Vec<bool> = (0..)
                .zip(&patterns)
                .map(|(id, (text, open))| phrases.add(id, text, *open))
                .collect();
            let mut found = Vec::new();
            phrases.find(text.as_bytes(), |id, start, end| found.push((id, start, end)));
            found.sort_unstable();

            let automaton = AhoCorasick::new(patterns.iter().map(|(text, _)| text)).unwrap();
            let word = |at: Option<usize>| {
                at.and_then(|at| text.as_bytes().get(at)).is_some_and(|byte| in_word(*byte))
            };
            let mut expected: Vec<_> = automaton
                .find_overlapping_iter(&text)
                .map(|found| (found.pattern().as_usize() as u128, found.start(), found.end()))
                .filter(|(id, start, end)| {
                    let open = patterns[*id as usize].1;
                    taken[*id as usize]
                        && !word(start.checked_sub(1))
                        && (open || !word(Some(*end)))
                })
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn takes_only_what_it_can_find() {
        let mut phrases = Phrases::new();
        for text in ["don't tell", "user", "a-b.c", "ssh_key", "über alles"] {
            assert!(phrases.add(0, text, false), "{text}");
        }
        for text in [
            "<important",
            "password:",
            "",
            " ",
            "a      b",
            &"a ".repeat(20),
        ] {
            assert!(!phrases.add(0, text, false), "{text}");
        }
        assert!(phrases.add(0, "do instruct", true));
        assert!(!phrases.add(0, "to", true), "too short to be looked up");
        assert!(!phrases.add(0, "do not ", true));
    }
}
