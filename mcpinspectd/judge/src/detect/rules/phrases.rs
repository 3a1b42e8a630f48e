//! Finds phrases of whole words, which is what nearly all patterns in rules are.
//!
//! An automaton over bytes has a state for each letter of each phrase. For thousands of phrases that
//! takes ten megabytes, and ordinary text visits so many of these states that every letter waits for
//! memory. This trie has a step per word instead: each word of the text is hashed once, most words start no
//! phrase, and the rest are looked up in a table that fits in a processor's cache.
//!
//! The table may merge words with equal hashes, because every phrase found by its hashes is
//! compared with the text before it is reported.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// Most words of a phrase; bounds the work per word of a text.
const WORDS_MAX: usize = 16;
/// Most bytes between two words of a phrase.
const GAP_MAX: usize = 4;
/// Bytes by which the last word of an open phrase is looked up.
const STEM: usize = 3;

/// A trie of phrases, keyed by words.
#[derive(Debug)]
pub struct PhraseTrie {
    /// From a node, a word and the gap before that word to the next node.
    edges: HashMap<u64, u32, FixedState>,
    nodes: Vec<Node>,
    /// Which hashes start a phrase; a filter with a bit for several hashes.
    starts: Box<[u64; STARTS / 64]>,
}

const STARTS: usize = 1 << 15;

/// A prefix that phrases share.
#[derive(Debug, Default)]
struct Node {
    /// A filter of the steps from here, with a bit for several steps. Most words pass none.
    steps: u64,
    complete: Vec<Complete>,
}

/// A phrase that is complete at a node.
#[derive(Debug)]
struct Complete {
    /// What the phrase stands for.
    concepts: u128,
    text: Box<[u8]>,
    /// Whether its last word may be longer than written.
    open: bool,
}

const ROOT: u32 = 0;

/// A word of a text or of a phrase.
#[derive(Clone, Copy)]
struct PhraseWord {
    start: usize,
    end: usize,
    /// Hash of all its letters.
    whole: u64,
    /// Hash of its first letters, if it has enough.
    stem: Option<u64>,
}

impl PhraseTrie {
    /// A trie without phrases.
    pub fn new() -> Self {
        Self {
            edges: HashMap::default(),
            nodes: vec![Node::default()],
            starts: Box::new([0; STARTS / 64]),
        }
    }

    /// Adds a phrase. It must start at the start of a word and end at the end of one; an `open`
    /// phrase may also end within a word. Returns whether it was added, which takes words with short gaps.
    pub fn add(&mut self, concepts: u128, text: &str, open: bool) -> bool {
        let text = text.as_bytes();
        let words: Vec<PhraseWord> = words(text).take(WORDS_MAX + 1).collect();
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
                    self.starts[start_bit(hash).0] |= start_bit(hash).1;
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

    /// Calls `found` for each occurrence of a phrase, with its concepts, start and end. Returns how many
    /// steps that took.
    pub fn find(&self, text: &[u8], mut found: impl FnMut(u128, usize, usize)) -> u64 {
        // Nodes that the text has reached at the previous word, with the start of their phrase.
        let (mut reached, mut advanced) = (Vec::<(u32, usize)>::new(), Vec::new());
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
                    advanced.push((*next, start));
                }
            };
            if gap.len() <= GAP_MAX && !reached.is_empty() {
                for hash in [Some(word.whole), word.stem].into_iter().flatten() {
                    let hash = after_gap(gap, hash);
                    for (node, start) in &reached {
                        if self.nodes[*node as usize].steps & step_bit(hash) != 0 {
                            step(*node, *start, hash);
                        }
                    }
                }
            }
            for hash in [Some(word.whole), word.stem].into_iter().flatten() {
                if self.starts_phrase(hash) {
                    step(ROOT, word.start, hash);
                }
            }
            reached.clear();
            std::mem::swap(&mut reached, &mut advanced);
            before = word.end;
        }
        work
    }

    fn starts_phrase(&self, hash: u64) -> bool {
        let (place, bit) = start_bit(hash);
        self.starts[place] & bit != 0
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        let complete = self.nodes.iter().flat_map(|node| &node.complete);
        let complete: usize = complete
            .map(|phrase| size_of::<Complete>() + phrase.text.len())
            .sum();
        self.edges.capacity() * size_of::<(u64, u32)>()
            + self.nodes.capacity() * size_of::<Node>()
            + size_of_val(&*self.starts)
            + complete
    }
}

/// The words of a text: the same boundaries as the automata use.
fn words(text: &[u8]) -> impl Iterator<Item = PhraseWord> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while !is_word_byte(*text.get(at)?) {
            at += 1;
        }
        let start = at;
        let (mut hash, mut letters, mut stem) = (0, 0u64, None);
        while let Some(byte) = text.get(at).filter(|byte| is_word_byte(**byte)) {
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
        Some(PhraseWord {
            start,
            end: at,
            whole: mix(hash ^ letters, WHOLE),
            stem,
        })
    })
}

/// Whether a byte is part of a word. Every byte beyond ASCII is.
pub fn is_word_byte(byte: u8) -> bool {
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

/// Arbitrary odd numbers, one for each kind of hash.
const WHOLE: u64 = 0x9e37_79b9_7f4a_7c15;
const STEMS: u64 = 0xd1b5_4a32_d192_ed03;
const GAPS: u64 = 0xaef1_7502_108e_f2d9;
const EDGES: u64 = 0x94d0_49bb_1331_11eb;

fn mix(value: u64, by: u64) -> u64 {
    let product = u128::from(value ^ by) * u128::from(by);
    product as u64 ^ (product >> 64) as u64
}

/// The hash of a word after a gap.
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

/// The index and the bit of a hash in the filter of starts.
fn start_bit(hash: u64) -> (usize, u64) {
    let place = hash as usize % STARTS;
    (place / 64, 1 << (place % 64))
}

#[cfg(test)]
mod tests {
    use aho_corasick::AhoCorasick;
    use proptest::prelude::*;

    use super::*;

    /// Few words that resemble each other, so that phrases often match.
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
            let mut phrases = PhraseTrie::new();
            let taken: Vec<bool> = (0..)
                .zip(&patterns)
                .map(|(id, (text, open))| phrases.add(id, text, *open))
                .collect();
            let mut found = Vec::new();
            phrases.find(text.as_bytes(), |id, start, end| found.push((id, start, end)));
            found.sort_unstable();

            let automaton = AhoCorasick::new(patterns.iter().map(|(text, _)| text)).unwrap();
            let word = |at: Option<usize>| {
                at.and_then(|at| text.as_bytes().get(at)).is_some_and(|byte| is_word_byte(*byte))
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
    fn only_phrases_that_can_be_found_are_added() {
        let mut phrases = PhraseTrie::new();
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
        assert!(!phrases.add(0, "to", true), "too short to look up");
        assert!(!phrases.add(0, "do not ", true));
    }
}
