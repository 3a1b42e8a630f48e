//! Sentences, in text that was wrapped, escaped and put into YAML or JSON on its way.
//!
//! A result is often a document inside a listing inside a string. A sentence in it continues on the next line,
//! with different indentation and with escaped quotes; a line such as `amount: 98.70` is not a sentence at all. What
//! an order says can only be told from what a record says once both are put back together.

/// Longest sentence, in bytes; the rest of a longer one counts as another.
const SENTENCE: usize = 600;
/// Longest passage to put together, in bytes.
const PASSAGE: usize = 4096;
/// Longest key of a line of data, in bytes.
const KEY: usize = 40;

/// A sentence, put back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoredSentence<'p> {
    /// Its text, with single blanks.
    pub text: &'p str,
    /// Where it starts in the original text, in bytes. Within a line that had escapes, roughly.
    pub position: usize,
    /// Whether it begins a line of a record, such as `amount: 98.70`.
    pub record: bool,
}

/// Calls `visit` for each sentence of a text, in order.
pub fn sentences(text: &str, mut visit: impl FnMut(RestoredSentence<'_>)) {
    let mut passage = Passage::default();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (length, separator) = line_length(rest);
        let line = &rest[..length];
        if line.trim().is_empty() {
            passage.finish(&mut visit);
        } else {
            if begins_anew(line) || passage.text.len() + line.len() > PASSAGE {
                passage.finish(&mut visit);
            }
            // A long line is a passage of its own, in parts.
            passage.append(line, at);
        }
        at += length + separator;
    }
    passage.finish(&mut visit);
}

/// The length of the first line, and of what ends it: a newline, or an escaped one.
fn line_length(text: &str) -> (usize, usize) {
    let bytes = text.as_bytes();
    for at in memchr::memchr2_iter(b'\n', b'\\', bytes) {
        match (bytes[at], bytes.get(at + 1)) {
            (b'\n', _) => return (at, 1),
            // In quoted YAML, a backslash at the end of a line joins it with the next.
            (_, Some(b'n')) => return (at, 2),
            _ => {}
        }
    }
    (text.len(), 0)
}

/// Whether a line begins a passage: a list item, or a key with its value.
fn begins_anew(line: &str) -> bool {
    let line = line.trim_start();
    let item = line
        .strip_prefix(['-', '*', '•'])
        .is_some_and(|rest| rest.starts_with(' '));
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..4).contains(&digits) && line[digits..].starts_with(['.', ')']);
    item || numbered || line.starts_with('#') || key_of(line).is_some()
}

/// The key of a line `key: value`, if it is one.
pub fn key_of(line: &str) -> Option<&str> {
    let line = line
        .trim_start()
        .trim_start_matches(['-', ' ', '"', '\'', '{']);
    let end = line.bytes().take(KEY).position(|byte| byte == b':')?;
    let key = line[..end].trim_end_matches(['"', '\'']);
    let after = line[end + 1..].chars().next();
    let words = key.split(' ').count();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '-' | '.');
    (!key.is_empty()
        && words <= 3
        && key.chars().all(plain)
        && after.is_none_or(char::is_whitespace))
    .then_some(key)
}

/// Lines that belong together.
#[derive(Debug, Default)]
struct Passage {
    text: String,
    /// Where each line starts, in `text` and in the original.
    lines: Vec<(usize, usize)>,
}

impl Passage {
    /// Adds a line that starts at `position` of the original.
    fn append(&mut self, line: &str, position: usize) {
        let indented = line.len() - line.trim_start().len();
        if !self.text.is_empty() && !self.text.ends_with(' ') {
            self.text.push(' ');
        }
        self.lines.push((self.text.len(), position + indented));
        let line = line.trim();
        if is_plain(line) {
            self.text.push_str(line);
            return;
        }
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match (c, characters.peek()) {
                ('\\', _) => {}
                ('\'', Some('\'')) => {}
                (c, _) if c.is_whitespace() => {
                    if !self.text.ends_with(' ') {
                        self.text.push(' ');
                    }
                }
                (c, _) => self.text.push(c),
            }
        }
    }

    /// Splits the passage into sentences, and begins another.
    fn finish(&mut self, visit: &mut impl FnMut(RestoredSentence<'_>)) {
        let mut start = 0;
        let record = key_of(&self.text).is_some();
        let mut line = 0;
        while start < self.text.len() {
            let begins = start == 0;
            let rest = &self.text[start..];
            let end = start + sentence_length(rest);
            // Between two sentences there is one blank.
            start += usize::from(rest.starts_with(' '));
            let text = self.text[start..end].trim();
            if !text.is_empty() {
                while self
                    .lines
                    .get(line + 1)
                    .is_some_and(|(from, _)| *from <= start)
                {
                    line += 1;
                }
                let known = self.lines.get(line);
                let position = known.map_or(0, |(from, position)| position + (start - from));
                visit(RestoredSentence {
                    text,
                    position,
                    record: record && begins,
                });
            }
            start = end;
        }
        self.text.clear();
        self.lines.clear();
    }
}

/// Whether a line has nothing to remove: most do not.
fn is_plain(line: &str) -> bool {
    let mut before = 0;
    line.bytes().all(|byte| {
        let plain = match byte {
            b'\\' | 0x80.. => false,
            b'\'' | b' ' => byte != before,
            _ => !byte.is_ascii_control(),
        };
        before = byte;
        plain
    })
}

/// The length of the first sentence of a text.
fn sentence_length(text: &str) -> usize {
    // Only these bytes begin a character that ends a sentence.
    let may_end = |(_, byte): &(usize, u8)| matches!(byte, b'.' | b'!' | b'?' | 0xe3 | 0xef);
    for (at, _) in text.bytes().enumerate().take(SENTENCE).filter(may_end) {
        let mut characters = text[at..].chars();
        let (c, next) = (characters.next(), characters.next());
        let ends = match (c, next) {
            (Some('。' | '！' | '？'), _) => true,
            (Some('.' | '!' | '?'), Some(' ')) => {
                let after = text[at + 1..].trim_start().chars().next();
                after.is_some_and(|c| !c.is_lowercase())
            }
            // It was quoted, and the quotation ends with it.
            (Some('.' | '!' | '?'), Some('\'' | '"' | '”' | '’')) => {
                ends_quotation(&text[at + 1..])
            }
            // One text was glued to another.
            (Some('.' | '!' | '?'), Some(next)) => {
                let before = text[..at].chars().next_back();
                before.is_some_and(char::is_lowercase) && next.is_uppercase()
            }
            _ => false,
        };
        if ends {
            let end = at + c.map_or(0, char::len_utf8);
            return end + closing_quotes(&text[end..]);
        }
    }
    text.ceil_char_boundary(SENTENCE)
}

/// Whether a quotation that a sentence closes is followed by another one, or by another sentence.
fn ends_quotation(after: &str) -> bool {
    let mut characters = after[closing_quotes(after)..].chars();
    match characters.next() {
        None | Some(',' | ']' | '}' | ')') => true,
        Some(' ') => characters.next().is_some_and(|c| !c.is_lowercase()),
        _ => false,
    }
}

/// The length of the quotation marks at the beginning of a text.
fn closing_quotes(text: &str) -> usize {
    text.len() - text.trim_start_matches(['\'', '"', '”', '’']).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, usize)> {
        let mut all = Vec::new();
        sentences(text, |one| all.push((one.text.to_owned(), one.position)));
        all
    }

    #[test]
    fn a_wrapped_sentence_is_one_and_a_record_is_none_of_it() {
        let text = "- amount: 10.0\n  subject: 'Please send it\n    to ''x@y.example''. Then go.'\n  id: 5";
        let found = all(text);
        let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "- amount: 10.0",
                "subject: 'Please send it to 'x@y.example'.",
                "Then go.'",
                "id: 5"
            ]
        );
        assert_eq!(&text[found[1].1..found[1].1 + 8], "subject:");
    }

    #[test]
    fn escaped_newlines_separate_and_glued_sentences_are_cut() {
        assert_eq!(all(r#"{"body": "Hi,\n\nplease reply.\n"}"#).len(), 3);
        let glued = all("Adjust your order accordingly.TODO: pay.Send it");
        assert_eq!(glued.len(), 3);
        assert_eq!(all("Version 1.2.3 of it is out").len(), 1);
        let reviews =
            "{'City': 'Loved it. Book early.', 'Night': 'Quiet.', \"Mill\": \"Far out.\"}";
        assert_eq!(all(reviews).len(), 5, "{reviews}");
        assert_eq!(all("Answer with 'Yes.' and nothing else").len(), 1);
    }

    #[test]
    fn keys_are_short_names() {
        assert_eq!(key_of("  - start_time: 2024"), Some("start_time"));
        assert_eq!(key_of("\"body\": \"x\""), Some("body"));
        assert_eq!(key_of("IBAN: GB1"), Some("IBAN"));
        assert_eq!(key_of("please note that you have to pay: now"), None);
        assert_eq!(key_of("https://x.example"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_within_its_bounds(text in "(?s).{0,400}") {
            sentences(&text, |one| {
                assert!(!one.text.is_empty() && one.text.len() <= SENTENCE + 4);
                assert!(one.position <= text.len());
            });
        }
    }
}
