//! The text of one subject, normalised once and mapped back to where it came from.
//!
//! Rules should see what a model reads, not how it was written: upper case, full-width letters,
//! Cyrillic look-alikes, zero-width characters and blank runs must not hide a word from them. A
//! finding however must point into the original text. So every piece of text goes through one pass
//! that folds it and records where the fold changed the distance between both texts.
//!
//! All pieces of a subject share one buffer, parted by [`PIECE_END`], so that one run of the
//! automaton sees them all. `\n` in the buffer is a paragraph or list boundary; every other blank is
//! one space.

use std::borrow::Cow;

use unicode_normalization::UnicodeNormalization;

use super::category::Part;
use super::letters::{Base, base_letter, is_ignorable};

/// Parts two pieces in the buffer. No rule can match across it.
pub const PIECE_END: u8 = 0x1f;

/// Most bytes of one value that are looked at: its head and its tail.
pub const VALUE_LIMIT: usize = 512 * 1024;
/// Most bytes of one subject that are looked at.
pub const SUBJECT_LIMIT: usize = 4 * 1024 * 1024;
/// Most memory for text, and for places, that is kept for the next subject.
const KEPT_MEMORY: usize = 64 * 1024;
/// A run of blanks that pushes what follows out of sight.
const BLANK_RUN: usize = 60;
/// How many blank lines in a row do the same.
const BLANK_LINES: usize = 12;

/// A step of the way to a value: a key, or an index.
#[derive(Clone, Copy, Debug)]
pub enum Segment<'a> {
    /// Member of an object.
    Key(&'a str),
    /// Element of an array.
    Index(usize),
    /// What was decoded out of the parent, such as `base64`.
    Decoded(&'static str),
}

/// Names a place in the subject; resolved to a path only when something was found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(u32);

impl NodeId {
    /// The subject itself.
    pub const ROOT: Self = Self(0);
}

/// One piece of text.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Where its normalised text starts in the buffer.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Which part of the subject it is.
    pub part: Part,
    /// Where it stands.
    pub node: NodeId,
    /// The original text.
    pub raw: Cow<'a, str>,
}

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

/// A word worth remembering for how it was written.
#[derive(Clone, Copy, Debug)]
pub struct Shaped {
    /// Start in the buffer.
    pub start: usize,
    /// End in the buffer.
    pub end: usize,
    /// What was seen.
    pub shape: Shape,
}

/// See the module's text.
#[derive(Debug, Default)]
pub struct Document<'a> {
    text: String,
    pieces: Vec<Piece<'a>>,
    nodes: Vec<(u32, Segment<'a>)>,
    shifts: Vec<(u32, u32)>,
    shaped: Vec<Shaped>,
    truncated: bool,
}

impl<'a> Document<'a> {
    /// An empty document.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty document in the memory of this one, unless that is a lot.
    pub fn emptied<'b>(mut self) -> Document<'b> {
        let places = self.nodes.capacity() * size_of::<(u32, Segment<'_>)>();
        if self.text.capacity() > KEPT_MEMORY || places > KEPT_MEMORY {
            return Document::new();
        }
        self.text.clear();
        self.shifts.clear();
        self.shaped.clear();
        Document {
            text: self.text,
            pieces: emptied(self.pieces),
            nodes: emptied(self.nodes),
            shifts: self.shifts,
            shaped: self.shaped,
            truncated: false,
        }
    }

    /// The normalised text of all pieces.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The pieces, in the order of the buffer.
    pub fn pieces(&self) -> &[Piece<'a>] {
        &self.pieces
    }

    /// Words that stood out.
    pub fn shaped(&self) -> &[Shaped] {
        &self.shaped
    }

    /// Notes that some of the subject is not in here.
    pub fn cut_short(&mut self) {
        self.truncated = true;
    }

    /// Whether some text was too long to be looked at in full.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// A place below `parent`.
    pub fn node(&mut self, parent: NodeId, segment: Segment<'a>) -> NodeId {
        self.nodes.push((parent.0, segment));
        NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    /// Path of a place, such as `inputSchema.properties.path.description` or `content[0].text`.
    /// At most 300 characters.
    pub fn path(&self, node: NodeId) -> String {
        let mut steps = Vec::new();
        let mut at = node.0;
        while at != 0 && steps.len() < 64 {
            let Some((parent, segment)) = self.nodes.get(at as usize - 1) else {
                break;
            };
            steps.push(*segment);
            at = *parent;
        }
        let mut path = String::new();
        for step in steps.iter().rev() {
            match step {
                Segment::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.extend(key.chars().take(60));
                }
                Segment::Index(index) => path.push_str(&format!("[{index}]")),
                Segment::Decoded(how) => path.push_str(&format!("<{how}>")),
            }
        }
        if path.len() > 300 {
            path = path.chars().take(299).collect();
            path.push('…');
        }
        path
    }

    /// The piece that holds byte `position` of the buffer.
    pub fn piece_at(&self, position: usize) -> Option<(usize, &Piece<'a>)> {
        let index = self
            .pieces
            .partition_point(|piece| piece.start <= position)
            .checked_sub(1)?;
        self.pieces.get(index).map(|piece| (index, piece))
    }

    /// Range of the original text behind a range of the buffer; both lie in `piece`.
    pub fn raw_range(&self, piece: &Piece<'a>, start: usize, end: usize) -> (usize, usize) {
        let from = floor_boundary(&piece.raw, self.raw_position(piece, start));
        let to = ceil_boundary(&piece.raw, self.raw_position(piece, end).max(from));
        (from, to)
    }

    fn raw_position(&self, piece: &Piece<'a>, position: usize) -> usize {
        let position = u32::try_from(position).unwrap_or(u32::MAX);
        let next = self.shifts.partition_point(|(at, _)| *at <= position);
        let Some((at, raw)) = next.checked_sub(1).and_then(|index| self.shifts.get(index)) else {
            return position as usize;
        };
        // A character that folds to several stands for all of them.
        let following = self
            .shifts
            .get(next)
            .filter(|(at, _)| (*at as usize) <= piece.end);
        let limit = following.map_or(u32::MAX, |(_, raw)| *raw);
        raw.saturating_add(position - at).min(limit) as usize
    }

    /// Adds a piece of text.
    pub fn push(&mut self, node: NodeId, part: Part, raw: impl Into<Cow<'a, str>>) {
        let raw = raw.into();
        if raw.is_empty() {
            return;
        }
        if self.text.len() >= SUBJECT_LIMIT {
            self.truncated = true;
            return;
        }
        let start = self.text.len();
        let room = VALUE_LIMIT.min(SUBJECT_LIMIT - start);
        if raw.len() <= room {
            self.fold(&raw, 0, raw.len(), part == Part::Key);
        } else {
            self.truncated = true;
            let head = floor_boundary(&raw, room * 3 / 4);
            let tail = ceil_boundary(&raw, raw.len() - room / 4);
            self.fold(&raw, 0, head, false);
            self.text.push('\n');
            self.fold(&raw, tail, raw.len(), false);
        }
        let end = self.text.len();
        self.text.push(PIECE_END as char);
        self.pieces.push(Piece {
            start,
            end,
            part,
            node,
            raw,
        });
    }

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

    /// Folds `raw[from..to]` into the buffer. `identifier`: split `snake_case` and `camelCase`.
    fn fold(&mut self, raw: &str, from: usize, to: usize, identifier: bool) {
        let bytes = raw.as_bytes();
        self.shift(from);
        self.text.reserve(to - from + 1);
        let mut word = Word::at(self.text.len());
        let mut at = from;
        while at < to {
            if word.start == self.text.len() {
                let end = plain(bytes, at, to, identifier);
                self.text.push_str(&raw[at..end]);
                at = end;
                word = Word::at(self.text.len());
            }
            let Some(byte) = bytes[..to].get(at).copied() else {
                break;
            };
            match CLASS[byte as usize] {
                Class::Lower => {
                    let length = bytes[at..to]
                        .iter()
                        .take_while(|byte| byte.is_ascii_lowercase())
                        .count();
                    word.see_lower(length, bytes[at + length - 1]);
                    self.text.push_str(&raw[at..at + length]);
                    at += length;
                }
                Class::Digit => {
                    word.see(byte);
                    self.text.push(byte as char);
                    at += 1;
                }
                Class::Upper => {
                    if identifier && word.last_lower() {
                        self.end_word(&mut word);
                        self.text.push(' ');
                        self.shift(at);
                        word = Word::at(self.text.len());
                    }
                    word.see(byte);
                    self.text.push(byte.to_ascii_lowercase() as char);
                    at += 1;
                }
                Class::Other => {
                    self.end_word(&mut word);
                    let shown = if identifier && matches!(byte, b'_' | b'-' | b'.') {
                        b' '
                    } else {
                        byte
                    };
                    self.text.push(shown as char);
                    at += 1;
                    word = Word::at(self.text.len());
                }
                Class::Blank => {
                    self.end_word(&mut word);
                    at = self.fold_blanks(raw, at, to);
                    word = Word::at(self.text.len());
                }
                Class::Control => {
                    self.end_word(&mut word);
                    at = skip_control(bytes, at, to);
                    self.blank(' ');
                    self.shift(at);
                    word = Word::at(self.text.len());
                }
                Class::Wide => {
                    at = self.fold_wide(raw, at, to, &mut word);
                }
            }
        }
        self.end_word(&mut word);
    }

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

    /// Folds a run of blanks into one space, or one newline where a new paragraph or item starts.
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
        while at < to && CLASS[bytes[at] as usize] == Class::Blank {
            newlines += usize::from(bytes[at] == b'\n');
            at += 1;
        }
        let opens = newlines > 1 || (newlines == 1 && opens_item(&bytes[at..to]));
        self.blank(if opens { '\n' } else { ' ' });
        self.shift(at);
        // Columns in a table or an indented example are ordinary; a screenful of nothing is not.
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

    /// Folds one character beyond ASCII, and for scripts with look-alikes the word that it begins.
    fn fold_wide(&mut self, raw: &str, at: usize, to: usize, word: &mut Word) -> usize {
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
                *word = Word::at(self.text.len());
            }
            c if c.is_whitespace() => {
                self.end_word(word);
                self.blank(' ');
                self.shift(after);
                *word = Word::at(self.text.len());
            }
            // No capitals, no ASCII look-alikes: the bulk of the world's text.
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

    fn one(&mut self, after: usize, c: char, word: &mut Word) {
        self.text.push(c);
        self.shift(after);
        if !c.is_alphanumeric() {
            *word = Word::at(self.text.len());
        }
    }

    /// The rest of a word with letters beyond ASCII. Look-alikes become the ASCII letter that they
    /// imitate when the word also has ASCII letters, or consists of look-alikes alone.
    fn fold_word(&mut self, raw: &str, from: usize, to: usize, word: &mut Word) -> usize {
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

    fn end_word(&mut self, word: &mut Word) {
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

/// What is known of the word under way.
struct Word {
    start: usize,
    letters: usize,
    capitals: usize,
    camel: bool,
    first_lower: bool,
    last: u8,
}

impl Word {
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

    /// Sees a run of lower-case letters, at least one.
    fn see_lower(&mut self, length: usize, last: u8) {
        self.first_lower |= self.letters == 0;
        self.letters += length;
        self.last = last;
    }

    fn last_lower(&self) -> bool {
        self.last.is_ascii_lowercase()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Blank,
    Control,
    Other,
    Wide,
}

static CLASS: [Class; 256] = {
    let mut table = [Class::Other; 256];
    let mut byte = 0usize;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Class::Blank,
            0..=0x1f | 0x7f => Class::Control,
            0x80.. => Class::Wide,
            _ => Class::Other,
        };
        byte += 1;
    }
    table
};

/// The end of a run that folds to itself, most of any text: words without capitals that are parted
/// by marks and single spaces. It ends between words.
fn plain(bytes: &[u8], from: usize, to: usize, identifier: bool) -> usize {
    let mut words = from;
    for (at, byte) in bytes[..to].iter().enumerate().skip(from) {
        match CLASS[*byte as usize] {
            Class::Lower | Class::Digit => {}
            Class::Other if !identifier => words = at + 1,
            Class::Blank
                if *byte == b' '
                    && at > from
                    && bytes.get(at + 1).is_some_and(u8::is_ascii_graphic) =>
            {
                words = at + 1;
            }
            Class::Blank | Class::Control | Class::Other => return at,
            Class::Upper | Class::Wide => return words,
        }
    }
    to
}

/// After the control character at `at`, or after the whole terminal sequence that it starts.
fn skip_control(bytes: &[u8], at: usize, to: usize) -> usize {
    if bytes[at] != 0x1b || bytes.get(at + 1) != Some(&b'[') {
        return at + 1;
    }
    let limit = to.min(at + 34);
    let parameters = (at + 2..limit).find(|index| !matches!(bytes[*index], 0x20..=0x3f));
    parameters.map_or(limit, |end| (end + 1).min(to))
}

/// Whether a line that starts like this is a new item rather than the rest of a wrapped sentence.
fn opens_item(line: &[u8]) -> bool {
    match line.first() {
        Some(b'-' | b'*' | b'#' | b'<' | b'@' | b'|' | b'>' | b'{' | b'}' | b'[') => true,
        Some(b'0'..=b'9') => {
            let digits = line
                .iter()
                .take(4)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            matches!(line.get(digits), Some(b'.' | b')'))
        }
        Some(first) if first.is_ascii_alphabetic() => {
            let name = line
                .iter()
                .take(40)
                .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
                .count();
            matches!(line.get(name), Some(b':'))
                || (line.get(name) == Some(&b' ') && line.get(name + 1) == Some(&b'('))
        }
        Some(0xe2) => true,
        _ => false,
    }
}

/// An empty list in the memory of `list`: collecting in place keeps it, where both have elements of
/// the same layout.
fn emptied<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.into_iter().filter_map(|_| None).collect()
}

fn floor_boundary(text: &str, position: usize) -> usize {
    let mut at = position.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, position: usize) -> usize {
    let mut at = position.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
