//! The features of a sentence: its words in order, its shape, and the signs that the rules know.
//!
//! Words alone do not carry over to the next author. What attacks have in common is their shape: a name that is
//! not the server's own, an order to someone, a condition, an address, where a description would
//! talk about something else. So the word lists and the tokens of the rules count as signs too, alone, in
//! pairs, and together with the shape.
//!
//! Every feature is hashed into one of [`BUCKETS`]. Names are hashed, not numbers, so a new word list or
//! rule does not shift the others.

use super::token::{CLASSES, TOKENS, Token, TokenClass};
use super::topic::{Topic, for_each_word};

/// How many buckets there are.
pub const BUCKETS: usize = 1 << 17;
/// Most signs of a sentence to combine.
const SIGNS: usize = 28;

/// A sentence in its place in a definition.
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a> {
    /// Its tokens.
    pub tokens: &'a [Token],
    /// Whether it is beside the description, for example in a schema.
    pub aside: bool,
    /// The parameter that it describes.
    pub parameter: Option<&'a str>,
    /// What the server is about.
    pub topic: &'a Topic,
    /// The signs in it, as hashes of their names, each once.
    pub signs: &'a [u64],
    /// The rules that match in it, as hashes of their ids, each once.
    pub rules: &'a [u64],
}

/// The features of a sentence by kind, as buckets. None counts twice, except those that share a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentenceFeatures {
    /// Sequences of words, and parts of words.
    pub words: Vec<u32>,
    /// What it contains, and where it is.
    pub shape: Vec<u32>,
    /// The signs that the rules know.
    pub signs: Vec<u32>,
}

/// FNV-1a over 64 bits: the same on every machine.
pub fn hash(bytes: &[u8]) -> u64 {
    extend(SEED, bytes)
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn extend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The bucket of a feature of some kind.
fn bucket(kind: u8, feature: u64) -> u32 {
    // Mixed until every bit of the feature affects the highest ones.
    let mut hash = feature ^ u64::from(kind).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (hash >> 40) as u32 % BUCKETS as u32
}

fn pair(a: u64, b: u64) -> u64 {
    let hash = (a.rotate_left(25) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 32)
}

/// The features of a sentence, with the words in one order: fitting does not depend on how they are found.
pub fn features(sentence: &Sentence<'_>) -> SentenceFeatures {
    let mut extractor = Extractor::default();
    extractor.extract(sentence);
    extractor.features.words.sort_unstable();
    extractor.features
}

/// Finds the features of one sentence after another, in the same memory.
#[derive(Debug)]
pub struct Extractor {
    features: SentenceFeatures,
    /// A bit for each bucket: whether it is among the words.
    seen: Vec<u64>,
}

impl Default for Extractor {
    fn default() -> Self {
        Self {
            features: SentenceFeatures::default(),
            seen: vec![0; BUCKETS / 64],
        }
    }
}

impl Extractor {
    /// The features of a sentence.
    pub fn extract(&mut self, sentence: &Sentence<'_>) -> &SentenceFeatures {
        let out = &mut self.features;
        out.words.clear();
        sequences(sentence.tokens, &mut out.words);
        parts(sentence.tokens, &mut out.words);
        // Words repeat; flags, signs and rules do not.
        let seen = &mut self.seen;
        let bit = |bucket: u32| (bucket as usize / 64, 1u64 << (bucket % 64));
        out.words.retain(|bucket| {
            let (index, bit) = bit(*bucket);
            let is_new = seen[index] & bit == 0;
            seen[index] |= bit;
            is_new
        });
        for bucket in &out.words {
            seen[bit(*bucket).0] = 0;
        }
        let flags = flags(sentence);
        out.shape.clear();
        for (index, a) in flags.iter().enumerate() {
            out.shape.push(bucket(20, *a));
            let others = flags[index + 1..].iter();
            out.shape.extend(others.map(|b| bucket(21, a << 8 | b)));
        }
        if let Some(name) = sentence.parameter {
            let shape = &mut out.shape;
            for_each_word(name, |word| shape.push(bucket(22, hash(word.as_bytes()))));
        }
        out.signs.clear();
        let signs = &sentence.signs[..sentence.signs.len().min(SIGNS)];
        for (index, a) in signs.iter().enumerate() {
            out.signs.push(bucket(30, *a));
            let others = signs[index + 1..].iter();
            out.signs
                .extend(others.map(|b| bucket(31, pair(*a.min(b), *a.max(b)))));
            out.signs
                .extend(flags.iter().map(|flag| bucket(33, pair(*a, *flag))));
        }
        out.signs
            .extend(sentence.rules.iter().map(|rule| bucket(32, *rule)));
        out
    }
}

/// What a token counts as in a sequence.
fn meaning(token: &Token) -> u64 {
    match token.class {
        TokenClass::Word | TokenClass::Character | TokenClass::Mark => hash(token.text.as_bytes()),
        class => extend(SEED ^ 0x5bd1, &[known_as(class) as u8]),
    }
}

/// A tool of another server counts as what it looks like: which servers there are differs from machine
/// to machine, and rules distinguish them.
fn known_as(class: TokenClass) -> TokenClass {
    match class {
        TokenClass::ForeignTool => TokenClass::ToolLike,
        class => class,
    }
}

/// One to three tokens in a row, and two with one or two between them.
fn sequences(tokens: &[Token], out: &mut Vec<u32>) {
    let edge = hash(b"$");
    let tokens: Vec<u64> = tokens.iter().map(meaning).collect();
    let at = |index: usize| match index {
        0 => edge,
        _ => tokens.get(index - 1).copied().unwrap_or(edge),
    };
    for index in 0..=tokens.len() {
        let (a, b, c) = (at(index), at(index + 1), at(index + 2));
        out.push(bucket(2, pair(a, b)));
        out.push(bucket(3, pair(pair(a, b), c)));
        if index > 0 {
            out.push(bucket(1, a));
        }
        if index > 0 && index < tokens.len() {
            out.push(bucket(4, pair(a, c)));
            out.push(bucket(5, pair(a, at(index + 3))));
        }
    }
}

/// Parts of words, which are the same in many forms of a word.
fn parts(tokens: &[Token], out: &mut Vec<u32>) {
    let mut letters: Vec<char> = Vec::new();
    for token in tokens {
        if token.class != TokenClass::Word || token.text.len() < 4 {
            continue;
        }
        letters.clear();
        letters.push('^');
        letters.extend(token.text.chars());
        letters.push('$');
        let shortest = if token.text.is_ascii() { 4 } else { 3 };
        for start in 0..letters.len() {
            let mut part = SEED;
            for (length, letter) in (1..=5).zip(&letters[start..]) {
                part = pair(part, u64::from(*letter));
                if length >= shortest {
                    out.push(bucket(6, part));
                }
            }
        }
    }
}

/// The shape of a sentence, as numbers below 256.
fn flags(sentence: &Sentence<'_>) -> Vec<u64> {
    let tokens = sentence.tokens;
    let mut counts = [0usize; CLASSES];
    for token in tokens {
        counts[known_as(token.class) as usize] += 1;
    }
    let mut flags: Vec<u64> = Vec::new();
    for (class, count) in (0u64..).zip(counts).skip(TokenClass::Itself as usize) {
        flags.extend((count > 0).then_some(class));
        flags.extend((count > 1).then_some(32 + class));
    }
    flags.push(64 + u64::from(sentence.aside));
    flags.push(match tokens.len() {
        0..=5 => 70,
        6..=11 => 71,
        12..=20 => 72,
        21..=35 => 73,
        TOKENS.. => 75,
        _ => 74,
    });
    // How much of it is about what the server is about.
    let words = tokens
        .iter()
        .filter(|token| token.class == TokenClass::Word);
    let about = words
        .filter(|token| sentence.topic.has(&token.text))
        .take(3)
        .count();
    flags.push(80 + about as u64);
    flags.extend(tokens.first().map(|first| 90 + first.class as u64));
    flags
}
