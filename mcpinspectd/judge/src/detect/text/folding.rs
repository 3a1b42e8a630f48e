//! Folds text: what a model reads, however it was written.
//!
//! Upper case, full-width letters, Cyrillic look-alikes, zero-width characters and runs of blanks must
//! not hide a word from a rule, so they are folded away in one pass. The pass also records where the
//! folded text shifts relative to the original, because a finding has to point into the original, and
//! which words stood out by the way they were written, because folding loses that.
//!
//! In folded text `\n` marks the start of a paragraph or list item; every other blank is one space.

use unicode_normalization::UnicodeNormalization;

use super::bytes::{BYTE_CLASS, ByteClass, foldless_run_end, opens_item, skip_control};
use super::confusables::{Base, base_letter, is_ignorable};

/// Separates two pieces of a subject's text. No rule can match across it.
pub const PIECE_END: u8 = 0x1f;

/// A run of this many blanks pushes what follows out of sight.
const BLANK_RUN: usize = 60;
/// This many blank lines in a row do the same.
const BLANK_LINES: usize = 12;

/// What a word looked like before it was folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// At least four letters, all of them capitals.
    Capitals,
    /// `camelCase`.
    Camel,
    /// Letters of several scripts that look alike.
    MixedScript,
    /// A long run of blanks ends here.
    AfterBlanks,
}

/// A word whose shape is remembered.
#[derive(Clone, Copy, Debug)]
pub struct Shaped {
    /// Start in the folded text.
    pub start: usize,
    /// End in the folded text.
    pub end: usize,
    /// Its shape.
    pub shape: Shape,
}

/// Folded text that knows where it came from.
#[derive(Debug, Default)]
pub(super) struct FoldedText {
    text: String,
    /// Where the distance between the folded and the original text changes: position in the folded
    /// text, position in the original.
    shifts: Vec<(u32, u32)>,
    shaped: Vec<Shaped>,
}

impl FoldedText {
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Bytes of memory that the notes about the text occupy. Ordinary text has few.
    pub(super) fn notes(&self) -> usize {
        size_of_val(&*self.shifts) + size_of_val(&*self.shaped)
    }

    /// Bytes of memory that the text occupies.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity()
    }

    /// Words that stood out.
    pub(super) fn shaped(&self) -> &[Shaped] {
        &self.shaped
    }

    /// Empties it, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.shifts.clear();
        self.shaped.clear();
    }

    /// Adds a character that has no original.
    pub(super) fn push(&mut self, c: char) {
        self.text.push(c);
    }

    /// The position in the original of `position`, which is in a piece that ends at `piece_end`.
    pub(super) fn raw_position(&self, position: usize, piece_end: usize) -> usize {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let next = self.shifts.partition_point(|(at, _)| *at <= position);
        let Some((at, raw)) = next.checked_sub(1).and_then(|index| self.shifts.get(index)) else {
            return position as usize;
        };
        // A character that folds to several stands for all of them.
        let following = self
            .shifts
            .get(next)
            .filter(|(at, _)| (*at as usize) <= piece_end);
        let limit = following.map_or(u32::MAX, |(_, raw)| *raw);
        raw.saturating_add(position - at).min(limit) as usize
    }

    /// Notes that the folded text continues at `raw_position` of the original.
    fn shift(&mut self, raw_position: usize) {
        let at = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let raw = u32::try_from(raw_position).unwrap_or(u32::MAX);
        match self.shifts.last_mut() {
            Some(last) if last.0 == at => last.1 = raw,
            Some((last_at, last_raw)) if raw.checked_sub(*last_raw) == at.checked_sub(*last_at) => {
            }
            _ => self.shifts.push((at, raw)),
        }
    }

    /// Adds `raw[from..to]`, folded. An `identifier` in `snake_case` or `camelCase` is split into words.
    pub(super) fn fold(&mut self, raw: &str, from: usize, to: usize, identifier: bool) {
        let bytes = raw.as_bytes();
        self.shift(from);
        // Not doubled: a text of four megabytes would have room for eight.
        let more = to - from + 1;
        if self.text.capacity() - self.text.len() < more {
            self.text.reserve_exact(more.max(self.text.len() / 4));
        }
        let mut word = FoldedWord::at(self.text.len());
        let mut at = from;
        while at < to {
            if word.start == self.text.len() {
                let end = foldless_run_end(bytes, at, to, identifier);
                self.text.push_str(&raw[at..end]);
                at = end;
                word = FoldedWord::at(self.text.len());
            }
            let Some(byte) = bytes[..to].get(at).copied() else {
                break;
            };
            match BYTE_CLASS[byte as usize] {
                ByteClass::Lower => {
                    let length = bytes[at..to]
                        .iter()
                        .take_while(|byte| byte.is_ascii_lowercase())
                        .count();
                    word.see_lower(length, bytes[at + length - 1]);
                    self.text.push_str(&raw[at..at + length]);
                    at += length;
                }
                ByteClass::Digit => {
                    word.see(byte);
                    self.text.push(byte as char);
                    at += 1;
                }
                ByteClass::Upper => {
                    if identifier && word.last_lower() {
                        self.end_word(&mut word);
                        self.text.push(' ');
                        self.shift(at);
                        word = FoldedWord::at(self.text.len());
                    }
                    word.see(byte);
                    self.text.push(byte.to_ascii_lowercase() as char);
                    at += 1;
                }
                ByteClass::Other => {
                    self.end_word(&mut word);
                    let shown = if identifier && matches!(byte, b'_' | b'-' | b'.') {
                        b' '
                    } else {
                        byte
                    };
                    self.text.push(shown as char);
                    at += 1;
                    word = FoldedWord::at(self.text.len());
                }
                ByteClass::Blank => {
                    self.end_word(&mut word);
                    at = self.fold_blanks(raw, at, to);
                    word = FoldedWord::at(self.text.len());
                }
                ByteClass::Control => {
                    self.end_word(&mut word);
                    at = skip_control(bytes, at, to);
                    self.blank(' ');
                    self.shift(at);
                    word = FoldedWord::at(self.text.len());
                }
                ByteClass::Wide => {
                    at = self.fold_wide(raw, at, to, &mut word);
                }
            }
        }
        self.end_word(&mut word);
    }

    /// Adds a blank, unless an equivalent one is already there.
    fn blank(&mut self, blank: char) {
        match self.text.as_bytes().last() {
            None | Some(b'\n' | &PIECE_END) => {}
            Some(b' ') if blank == ' ' => {}
            Some(b' ') => {
                self.text.pop();
                self.text.push(blank);
            }
            Some(_) => self.text.push(blank),
        }
    }

    /// Folds a run of blanks into one space, or into one newline if a new paragraph or item starts.
    fn fold_blanks(&mut self, raw: &str, from: usize, to: usize) -> usize {
        let bytes = raw.as_bytes();
        if bytes[from] == b' '
            && bytes
                .get(from + 1)
                .is_some_and(|next| next.is_ascii_graphic())
        {
            self.blank(' ');
            self.shift(from + 1);
            return from + 1;
        }
        let mut at = from;
        let mut newlines = 0;
        while at < to && BYTE_CLASS[bytes[at] as usize] == ByteClass::Blank {
            newlines += usize::from(bytes[at] == b'\n');
            at += 1;
        }
        let opens = newlines > 1 || (newlines == 1 && opens_item(&bytes[at..to]));
        self.blank(if opens { '\n' } else { ' ' });
        self.shift(at);
        // Columns of a table and indented examples are ordinary; a screenful of nothing is not.
        let hides = (newlines == 0 && at - from >= BLANK_RUN) || newlines >= BLANK_LINES;
        if hides && at < to && from > 0 {
            let here = self.text.len();
            self.shaped.push(Shaped {
                start: here.saturating_sub(1),
                end: here,
                shape: Shape::AfterBlanks,
            });
        }
        at
    }

    /// Folds one character beyond ASCII; in scripts with look-alikes, the whole word that it begins.
    fn fold_wide(&mut self, raw: &str, at: usize, to: usize, word: &mut FoldedWord) -> usize {
        let Some(first) = raw.get(at..to).and_then(|rest| rest.chars().next()) else {
            return to;
        };
        let after = at + first.len_utf8();
        if is_ignorable(first) {
            self.shift(after);
            return after;
        }
        match first {
            '\u{2018}' | '\u{2019}' | '\u{201b}' => self.one(after, '\'', word),
            '\u{201c}' | '\u{201d}' => self.one(after, '"', word),
            '\u{2028}' | '\u{2029}' => {
                self.end_word(word);
                self.blank('\n');
                self.shift(after);
                *word = FoldedWord::at(self.text.len());
            }
            c if c.is_whitespace() => {
                self.end_word(word);
                self.blank(' ');
                self.shift(after);
                *word = FoldedWord::at(self.text.len());
            }
            // No capitals and no look-alikes of ASCII: most of the world's text.
            '\u{3001}'..='\u{d7ff}' | '\u{0900}'..='\u{0fff}' => self.one(after, first, word),
            c if c.is_alphanumeric() => return self.fold_word(raw, at, to, word),
            c => {
                for folded in std::iter::once(c).nfkc() {
                    self.text.extend(folded.to_lowercase());
                }
                self.shift(after);
            }
        }
        after
    }

    /// Adds `c`, whose original ends at `after`.
    fn one(&mut self, after: usize, c: char, word: &mut FoldedWord) {
        self.text.push(c);
        self.shift(after);
        if !c.is_alphanumeric() {
            *word = FoldedWord::at(self.text.len());
        }
    }

    /// Folds the rest of a word with letters beyond ASCII. Look-alikes become the ASCII letter that they
    /// imitate if the word also has ASCII letters, or consists of look-alikes alone.
    fn fold_word(&mut self, raw: &str, from: usize, to: usize, word: &mut FoldedWord) -> usize {
        let rest = &raw[from..to];
        let mut letters = 0;
        let (mut ascii, mut other_script, mut foldable) = (word.letters > 0, false, true);
        let mut end = from;
        for c in rest.chars().take(64) {
            if !c.is_alphanumeric() && !is_ignorable(c) {
                break;
            }
            end += c.len_utf8();
            letters += 1;
            if c.is_ascii_alphabetic() {
                ascii = true;
            } else if !c.is_ascii() && !is_ignorable(c) {
                match base_letter(c) {
                    Base::Latin(_) => {}
                    Base::LookAlike(_) => other_script = true,
                    Base::Other => foldable = false,
                }
            }
        }
        let fold = ascii || (foldable && letters > 1);
        let start = word.start;
        for (offset, c) in raw[from..end].char_indices() {
            let after = from + offset + c.len_utf8();
            if is_ignorable(c) {
                self.shift(after);
                continue;
            }
            match (c.is_ascii(), base_letter(c)) {
                (true, _) => self.text.push(c.to_ascii_lowercase()),
                (_, Base::Latin(base)) => self.text.push(base),
                (_, Base::LookAlike(base)) if fold => self.text.push(base),
                // Greek, Cyrillic, Armenian, Hebrew, Arabic: nothing to compose.
                _ if matches!(c, '\u{370}'..='\u{6ff}') => self.text.extend(c.to_lowercase()),
                _ => self.text.extend(c.nfkc().flat_map(char::to_lowercase)),
            }
            self.shift(after);
        }
        if ascii && other_script {
            self.shaped.push(Shaped {
                start,
                end: self.text.len(),
                shape: Shape::MixedScript,
            });
        }
        word.letters = usize::from(ascii);
        end.max(from + 1)
    }

    /// Notes the shape of a word that ends here.
    fn end_word(&mut self, word: &mut FoldedWord) {
        let end = self.text.len();
        if word.letters >= 4 && word.capitals == word.letters {
            self.shaped.push(Shaped {
                start: word.start,
                end,
                shape: Shape::Capitals,
            });
        } else if word.camel {
            self.shaped.push(Shaped {
                start: word.start,
                end,
                shape: Shape::Camel,
            });
        }
        word.letters = 0;
        word.capitals = 0;
        word.camel = false;
    }
}

/// The word that is being folded.
struct FoldedWord {
    start: usize,
    letters: usize,
    capitals: usize,
    camel: bool,
    first_lower: bool,
    last: u8,
}

impl FoldedWord {
    fn at(start: usize) -> Self {
        Self {
            start,
            letters: 0,
            capitals: 0,
            camel: false,
            first_lower: false,
            last: 0,
        }
    }

    /// Takes in an ASCII letter or digit.
    fn see(&mut self, byte: u8) {
        let upper = byte.is_ascii_uppercase();
        if byte.is_ascii_alphabetic() {
            if self.letters == 0 {
                self.first_lower = !upper;
            }
            self.letters += 1;
            self.capitals += usize::from(upper);
            self.camel |= upper && self.first_lower && self.last.is_ascii_lowercase();
        }
        self.last = byte;
    }

    /// Takes in a run of lower-case letters, at least one, that ends in `last`.
    fn see_lower(&mut self, length: usize, last: u8) {
        self.first_lower |= self.letters == 0;
        self.letters += length;
        self.last = last;
    }

    fn last_lower(&self) -> bool {
        self.last.is_ascii_lowercase()
    }
}
