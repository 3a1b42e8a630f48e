//! The difference of two texts, word by word.

use std::time::{Duration, Instant};

use similar::{Algorithm, capture_diff_slices_deadline};

pub use similar::ChangeTag;

/// How long to search for the shortest difference of long texts.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// A part of one or both texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which text it belongs to: both (`Equal`), the old (`Delete`) or the new (`Insert`).
    pub tag: ChangeTag,
    /// Its text.
    pub text: String,
}

/// Computes the difference, in the order of the text.
pub fn diff(old: &str, new: &str) -> Vec<Span> {
    let (old, new) = (tokens(old), tokens(new));
    let deadline = Instant::now() + TIME_LIMIT;
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, Some(deadline));
    let mut builder = SpanBuilder::default();
    for operation in operations {
        for change in operation.iter_slices(&old, &new) {
            let (tag, tokens) = change;
            builder.push_change(tag, &tokens.concat());
        }
    }
    builder.finish()
}

/// Splits a text into words and single other characters.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut start = 0;
    let mut in_word = false;
    for (at, c) in text.char_indices() {
        if at > start && !(in_word && is_word(c)) {
            tokens.push(&text[start..at]);
            start = at;
        }
        in_word = is_word(c);
    }
    if start < text.len() {
        tokens.push(&text[start..]);
    }
    tokens
}

/// Joins changes that only blanks and punctuation separate: a replaced sentence reads better as one
/// change than word by word.
#[derive(Default)]
struct SpanBuilder {
    spans: Vec<Span>,
    deleted: String,
    inserted: String,
    separator: String,
}

impl SpanBuilder {
    fn push_change(&mut self, tag: ChangeTag, text: &str) {
        match tag {
            ChangeTag::Equal => {
                let changing = !self.deleted.is_empty() || !self.inserted.is_empty();
                if changing && !text.contains(char::is_alphanumeric) {
                    self.separator.push_str(text);
                } else {
                    self.flush();
                    self.push(ChangeTag::Equal, text.to_owned());
                }
            }
            ChangeTag::Delete | ChangeTag::Insert => {
                let separator = std::mem::take(&mut self.separator);
                self.deleted.push_str(&separator);
                self.inserted.push_str(&separator);
                match tag {
                    ChangeTag::Delete => self.deleted.push_str(text),
                    _ => self.inserted.push_str(text),
                }
            }
        }
    }

    fn flush(&mut self) {
        let deleted = std::mem::take(&mut self.deleted);
        let inserted = std::mem::take(&mut self.inserted);
        let separator = std::mem::take(&mut self.separator);
        self.push(ChangeTag::Delete, deleted);
        self.push(ChangeTag::Insert, inserted);
        self.push(ChangeTag::Equal, separator);
    }

    fn push(&mut self, tag: ChangeTag, text: String) {
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.tag == tag => last.text.push_str(&text),
            _ => self.spans.push(Span { tag, text }),
        }
    }

    fn finish(mut self) -> Vec<Span> {
        self.flush();
        self.spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_do_not_take_long() {
        let old: String = (0..100_000_u64)
            .map(|n| format!("{} ", n * 7919 % 100_003))
            .collect();
        let new: String = (0..100_000_u64)
            .map(|n| format!("{} ", n * 104_729 % 100_003))
            .collect();
        let start = Instant::now();
        assert!(!diff(&old, &new).is_empty());
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
