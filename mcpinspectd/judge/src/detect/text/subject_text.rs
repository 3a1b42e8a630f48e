//! The text of one subject, folded once and mapped back to where it came from.
//!
//! All pieces of a subject share one buffer of folded text, separated by [`PIECE_END`], so that a single
//! pass of the matcher sees them all. A finding is reported in terms of the original: which value
//! has it, and where in that value.

use std::borrow::Cow;

use super::folding::{FoldedText, PIECE_END, Shaped};
use crate::detect::category::Part;

/// Most bytes of one value to examine: its head and its tail.
pub const VALUE_LIMIT: usize = 512 * 1024;
/// Most bytes of one subject to examine.
pub const SUBJECT_LIMIT: usize = 4 * 1024 * 1024;
/// Bytes of folded text after which a range of the pieces ends.
const RANGE: usize = 128 * 1024;
/// Most memory for notes about the text, in bytes: about words that stand out, and letters that fold to
/// others. Text consisting only of those would need ten times its own size.
const NOTES_LIMIT: usize = 2 * 1024 * 1024;
/// Most memory for text, and for paths, to keep for the next subject.
const KEPT_MEMORY: usize = 64 * 1024;

/// A step on the path to a value.
#[derive(Clone, Copy, Debug)]
pub enum PathSegment<'a> {
    /// Member of an object.
    Key(&'a str),
    /// Element of an array.
    Index(usize),
    /// Text decoded from the parent, with its encoding, such as `base64`.
    Decoded(&'static str),
}

/// Names a value of the subject. It becomes a path only if something is found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathId(u32);

impl PathId {
    /// The subject itself.
    pub const ROOT: Self = Self(0);
}

/// One piece of text: one string value or key of the subject.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Start of its folded text in the buffer.
    pub start: usize,
    /// End of its folded text in the buffer.
    pub end: usize,
    /// Which part of the subject it is.
    pub part: Part,
    /// Which value it is.
    pub path: PathId,
    /// The original text.
    pub raw: Cow<'a, str>,
}

/// Some consecutive pieces of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceRange {
    /// Index of the first piece.
    pub first: usize,
    /// Start of its folded text in the buffer.
    pub start: usize,
    /// End of the last piece's folded text in the buffer, after the separator.
    pub end: usize,
}

/// The text of a subject.
#[derive(Debug, Default)]
pub struct SubjectText<'a> {
    folded: FoldedText,
    pieces: Vec<Piece<'a>>,
    /// Each value's parent and the step from there; [`PathId`] counts them from 1.
    paths: Vec<(u32, PathSegment<'a>)>,
    truncated: bool,
}

impl<'a> SubjectText<'a> {
    /// An empty text.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty text that reuses the memory of this one, unless that is a lot.
    pub fn emptied<'b>(mut self) -> SubjectText<'b> {
        let paths = self.paths.capacity() * size_of::<(u32, PathSegment<'_>)>();
        if self.folded.capacity() > KEPT_MEMORY || paths > KEPT_MEMORY {
            return SubjectText::new();
        }
        self.folded.clear();
        SubjectText {
            folded: self.folded,
            pieces: emptied(self.pieces),
            paths: emptied(self.paths),
            truncated: false,
        }
    }

    /// The folded text of all pieces.
    pub fn folded(&self) -> &str {
        self.folded.as_str()
    }

    /// The pieces, in the order of the buffer.
    pub fn pieces(&self) -> &[Piece<'a>] {
        &self.pieces
    }

    /// Words that stood out by their shape.
    pub fn shaped(&self) -> &[Shaped] {
        self.folded.shaped()
    }

    /// Marks the text as incomplete: some of the subject was left out.
    pub fn mark_truncated(&mut self) {
        self.truncated = true;
    }

    /// Whether some of the subject was left out.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Names the value one step below `parent`.
    pub fn child(&mut self, parent: PathId, segment: PathSegment<'a>) -> PathId {
        self.paths.push((parent.0, segment));
        PathId(u32::try_from(self.paths.len()).unwrap_or(u32::MAX))
    }

    /// The path of a value, such as `inputSchema.properties.path.description` or `content[0].text`.
    /// At most 300 characters.
    pub fn path(&self, id: PathId) -> String {
        let mut steps = Vec::new();
        let mut at = id.0;
        while at != 0 && steps.len() < 64 {
            let Some((parent, segment)) = self.paths.get(at as usize - 1) else {
                break;
            };
            steps.push(*segment);
            at = *parent;
        }
        let mut path = String::new();
        for step in steps.iter().rev() {
            match step {
                PathSegment::Key(key) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.extend(key.chars().take(60));
                }
                PathSegment::Index(index) => path.push_str(&format!("[{index}]")),
                PathSegment::Decoded(how) => path.push_str(&format!("<{how}>")),
            }
        }
        if path.len() > 300 {
            path = path.chars().take(299).collect();
            path.push('…');
        }
        path
    }

    /// The pieces in ranges of a bounded size, so that each can be examined with bounded memory: no rule
    /// matches across two pieces.
    pub fn ranges(&self) -> impl Iterator<Item = PieceRange> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let first = next;
            let start = self.pieces.get(first)?.start;
            let mut end = start;
            while let Some(piece) = self.pieces.get(next)
                && end - start < RANGE
            {
                // After its separator.
                end = piece.end + 1;
                next += 1;
            }
            Some(PieceRange { first, start, end })
        })
    }

    /// The index of the piece at byte `position` of the buffer, and that piece.
    pub fn piece_at(&self, position: usize) -> Option<(usize, &Piece<'a>)> {
        let index = self
            .pieces
            .partition_point(|piece| piece.start <= position)
            .checked_sub(1)?;
        self.pieces.get(index).map(|piece| (index, piece))
    }

    /// The range of the original text behind a range of the buffer; both are in `piece`.
    pub fn raw_range(&self, piece: &Piece<'a>, start: usize, end: usize) -> (usize, usize) {
        let raw = |position| self.folded.raw_position(position, piece.end);
        let from = piece.raw.floor_char_boundary(raw(start));
        let to = piece.raw.ceil_char_boundary(raw(end).max(from));
        (from, to)
    }

    /// Adds a piece of text.
    pub fn push(&mut self, path: PathId, part: Part, raw: impl Into<Cow<'a, str>>) {
        let raw = raw.into();
        if raw.is_empty() {
            return;
        }
        let folded = &mut self.folded;
        if folded.len() >= SUBJECT_LIMIT || folded.notes() >= NOTES_LIMIT {
            self.truncated = true;
            return;
        }
        let start = folded.len();
        let room = VALUE_LIMIT.min(SUBJECT_LIMIT - start);
        if raw.len() <= room {
            folded.fold(&raw, 0, raw.len(), part == Part::Key);
        } else {
            self.truncated = true;
            let head = raw.floor_char_boundary(room * 3 / 4);
            let tail = raw.ceil_char_boundary(raw.len() - room / 4);
            folded.fold(&raw, 0, head, false);
            folded.push('\n');
            folded.fold(&raw, tail, raw.len(), false);
        }
        let end = folded.len();
        folded.push(PIECE_END as char);
        self.pieces.push(Piece {
            start,
            end,
            part,
            path,
            raw,
        });
    }
}

/// A text as it looks in the buffer.
pub fn fold(text: &str) -> String {
    let mut subject = SubjectText::new();
    subject.push(PathId::ROOT, Part::Text, text);
    let folded = subject.folded();
    folded
        .strip_suffix(PIECE_END as char)
        .unwrap_or(folded)
        .to_owned()
}

/// An empty list in the memory of `list`. Collecting in place keeps the memory, because the elements of
/// both lists have the same layout.
fn emptied<A, B>(mut list: Vec<A>) -> Vec<B> {
    list.clear();
    list.into_iter().filter_map(|_| None).collect()
}
