//! Tokens: quoted values, identifiers, addresses, paths and other things that no word list can name.
//!
//! "Call `x_y` with 'z'" is the skeleton of most orders to an agent. The words around it differ from author
//! to author; the skeleton does not. One pass over the folded text finds these tokens and the ends of
//! sentences.

use super::hit::Hit;
use super::names::{KnownNames, bit, name_traits, path_traits};
use crate::detect::rules::TokenKind;
use crate::detect::text::{PIECE_END, PieceRange, Shape, SubjectText};

/// The longest sentence. A longer one is cut, so that the work per sentence is bounded.
const SENTENCE_LIMIT: usize = 600;
/// The longest text between two quotation marks that counts as a quoted value.
const QUOTE_LIMIT: usize = 160;

/// Finds tokens in a range of the text, which go to `hits`, and the ends of sentences, which go to `ends`:
/// ascending, up to and including the end of the range.
pub(super) fn scan(
    subject: &SubjectText<'_>,
    range: PieceRange,
    names: &KnownNames<'_>,
    hits: &mut Vec<Hit>,
    ends: &mut Vec<u32>,
) {
    let text = &subject.folded().as_bytes()[..range.end];
    let mut scanner = Scanner {
        text,
        names,
        hits,
        camel: Vec::new(),
    };
    let shaped = subject.shaped();
    // They are ordered by their ends.
    let from = shaped.partition_point(|shaped| shaped.end <= range.start);
    let until = shaped.partition_point(|shaped| shaped.end <= range.end);
    for shaped in &shaped[from..until] {
        let token = match shaped.shape {
            Shape::Capitals => TokenKind::Capitals,
            Shape::MixedScript => TokenKind::MixedScript,
            Shape::AfterBlanks => TokenKind::AfterBlanks,
            Shape::Camel => {
                scanner.camel.push((shaped.start, shaped.end));
                continue;
            }
        };
        scanner.push(shaped.start, shaped.end, bit(token));
    }
    let camel = std::mem::take(&mut scanner.camel);
    for (start, end) in camel {
        scanner.name(start, end);
    }
    let mut sentence = range.start;
    let mut at = range.start;
    while at < text.len() {
        let byte = text[at];
        if at - sentence >= SENTENCE_LIMIT && matches!(byte, b' ' | b',' | b'"' | b'/')
            || at - sentence >= 2 * SENTENCE_LIMIT
        {
            ends.push(at as u32);
            sentence = at;
        }
        match byte {
            b'\n' | PIECE_END => {
                ends.push(at as u32 + 1);
                sentence = at + 1;
            }
            b'.' | b'!' | b'?' | b';' if ends_sentence(text, at) => {
                ends.push(at as u32 + 1);
                sentence = at + 1;
            }
            b'\'' | b'"' | b'`' => at = scanner.quote(at),
            b'_' => at = scanner.identifier(at),
            b'@' => scanner.email(at),
            b':' if text.get(at + 1..at + 3) == Some(b"//") => scanner.url(at),
            b'/' | b'~' | b'\\' => at = scanner.path(at),
            b'<' | b'[' => scanner.tag(at),
            b'+' => scanner.phone(at),
            b'$' if matches!(text.get(at + 1), Some(b'(')) => {
                scanner.push(at, at + 2, bit(TokenKind::ShellSubstitution))
            }
            _ => {}
        }
        at += 1;
    }
    ends.push(text.len() as u32);
}

/// Whether the mark at `at` ends a sentence: a blank follows, and it does not belong to a common
/// abbreviation.
fn ends_sentence(text: &[u8], at: usize) -> bool {
    if !matches!(
        text.get(at + 1),
        None | Some(b' ' | b'\n' | &PIECE_END | b'"' | b')' | b'\'' | b'<')
    ) {
        return false;
    }
    if text[at] == b';' {
        return false;
    }
    let before = &text[at.saturating_sub(5)..at];
    !(before.ends_with(b"e.g")
        || before.ends_with(b"i.e")
        || before.ends_with(b" vs")
        || before.ends_with(b" etc"))
}

struct Scanner<'a, 'n> {
    text: &'a [u8],
    names: &'a KnownNames<'n>,
    hits: &'a mut Vec<Hit>,
    camel: Vec<(usize, usize)>,
}

impl Scanner<'_, '_> {
    fn push(&mut self, start: usize, end: usize, concepts: u128) {
        self.hits.push(Hit {
            start: start as u32,
            end: end as u32,
            concepts,
            negations: 0,
        });
    }

    /// Records an identifier: the subject itself, a parameter, or another name.
    fn name(&mut self, start: usize, end: usize) {
        let Ok(word) = std::str::from_utf8(&self.text[start..end]) else {
            return;
        };
        let word = word.trim_matches(|c: char| matches!(c, '`' | '\'' | '"' | '(' | ')'));
        let concepts = self.names.own_word(word).unwrap_or_else(|| {
            bit(TokenKind::Identifier) | name_traits(word) | self.names.foreign(word)
        });
        self.push(start, end, concepts);
    }

    /// Records the quoted value whose mark is at `at`. Returns the position of its last byte, or `at` to
    /// continue inside.
    fn quote(&mut self, at: usize) -> usize {
        let mark = self.text[at];
        // Apostrophes inside words are not quotation marks.
        if mark == b'\'' && at > 0 && self.text[at - 1].is_ascii_alphanumeric() {
            return at;
        }
        let limit = self.text.len().min(at + 1 + QUOTE_LIMIT);
        let inside = &self.text[at + 1..limit];
        let mut length = None;
        for (index, byte) in inside.iter().enumerate() {
            if *byte == mark {
                let next = self.text.get(at + 2 + index);
                if mark != b'\'' || !next.is_some_and(u8::is_ascii_alphanumeric) {
                    length = Some(index);
                    break;
                }
            }
            if matches!(*byte, b'\n' | PIECE_END) {
                break;
            }
        }
        let Some(length) = length.filter(|length| *length > 0) else {
            return at;
        };
        let (start, end) = (at + 1, at + 1 + length);
        let inside = &self.text[start..end];
        let simple = inside
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
        if simple && inside.first().is_some_and(u8::is_ascii_alphabetic) {
            let joined = inside.iter().any(|byte| matches!(byte, b'_' | b'-'));
            let Ok(word) = std::str::from_utf8(inside) else {
                return at;
            };
            let token = self.names.own_word(word).unwrap_or_else(|| {
                let named = if joined {
                    bit(TokenKind::Identifier) | name_traits(word)
                } else {
                    0
                };
                named | bit(TokenKind::QuotedWord) | self.names.foreign(word)
            });
            self.push(start, end, token);
            return end;
        }
        self.push(start, end, bit(TokenKind::QuotedText));
        // Scanning continues inside, because addresses and commands are often quoted.
        at
    }

    /// Records the identifier around the underscore at `at`. Returns the position of its last byte.
    fn identifier(&mut self, at: usize) -> usize {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let start = at
            - self.text[at.saturating_sub(80)..at]
                .iter()
                .rev()
                .take_while(|byte| word(byte))
                .count();
        let end = at
            + self.text[at..]
                .iter()
                .take(80)
                .take_while(|byte| word(byte))
                .count();
        if end - start >= 4
            && self.text[start].is_ascii_alphabetic()
            && !(start > 0 && matches!(self.text[start - 1], b'/' | b'.'))
        {
            self.name(start, end);
        }
        end.max(at + 1) - 1
    }

    /// Records the e-mail address around the `@` at `at`.
    fn email(&mut self, at: usize) {
        let local = self.text[at.saturating_sub(64)..at]
            .iter()
            .rev()
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+'))
            .count();
        let host = self.text[at + 1..]
            .iter()
            .take(128)
            .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
            .count();
        let domain = &self.text[at + 1..at + 1 + host];
        if local > 0
            && domain
                .iter()
                .position(|byte| *byte == b'.')
                .is_some_and(|dot| dot > 0 && dot + 2 < domain.len())
        {
            self.push(at - local, at + 1 + host, bit(TokenKind::Email));
        }
    }

    /// Records the address whose `://` is at `at`.
    fn url(&mut self, at: usize) {
        let scheme = self.text[at.saturating_sub(12)..at]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        let rest = self.text[at + 3..]
            .iter()
            .take(300)
            .take_while(|b| {
                b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b')')
            })
            .count();
        let name = &self.text[at - scheme..at];
        if rest < 3 || scheme == 0 {
            return;
        }
        let token = match name {
            b"http" | b"https" | b"ftp" | b"ws" | b"wss" => TokenKind::Url,
            b"file" => TokenKind::Path,
            _ => TokenKind::Resource,
        };
        let host: &[u8] = &self.text[at + 3..at + 3 + rest];
        let host = host
            .split(|byte| matches!(byte, b'/' | b':' | b'?'))
            .next()
            .unwrap_or_default();
        let numeric = token == TokenKind::Url
            && host.iter().filter(|byte| **byte == b'.').count() == 3
            && host
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let numeric = numeric && !host.starts_with(b"127.") && !host.starts_with(b"0.");
        self.push(
            at - scheme,
            at + 3 + rest,
            bit(token) | u128::from(numeric) << TokenKind::NumericUrl as u32,
        );
    }

    /// Records the absolute, home or parent-relative path around the slash at `at`. Returns the position of
    /// its last byte.
    fn path(&mut self, at: usize) -> usize {
        let opens = at == 0
            || matches!(
                self.text[at - 1],
                b' ' | b'\''
                    | b'"'
                    | b'`'
                    | b'('
                    | b'\n'
                    | b'='
                    | b':'
                    | b'['
                    | b','
                    | PIECE_END
                    | b'>'
            );
        let climbs = at >= 2 && &self.text[at - 2..at] == b"..";
        if !opens && !climbs {
            return at;
        }
        if self.text[at] == b'~' && !matches!(self.text.get(at + 1), Some(b'/' | b'\\')) {
            return at;
        }
        let length = self.text[at..]
            .iter()
            .take(200)
            .take_while(|b| {
                b.is_ascii_alphanumeric()
                    || matches!(
                        b,
                        b'/' | b'\\' | b'.' | b'_' | b'-' | b'~' | b'*' | b'$' | b'%'
                    )
            })
            .count();
        let slashes = self.text[at..at + length]
            .iter()
            .filter(|byte| matches!(byte, b'/' | b'\\'))
            .count();
        if length >= 4 && (slashes >= 2 || self.text[at] == b'~') {
            let path = std::str::from_utf8(&self.text[at..at + length]);
            let traits = path.map_or(0, path_traits);
            self.push(at, at + length, bit(TokenKind::Path) | traits);
            return at + length - 1;
        }
        at
    }

    /// Records a tag whose name is a word, such as `<important>` or `[system]`.
    fn tag(&mut self, at: usize) {
        let open = self.text[at];
        let close = if open == b'<' { b'>' } else { b']' };
        let start = at + 1 + usize::from(self.text.get(at + 1) == Some(&b'/'));
        let rest = &self.text[start.min(self.text.len())..];
        let name = rest
            .iter()
            .take(40)
            .take_while(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b' ' | b'|'))
            .count();
        if name < 3 {
            return;
        }
        let closes = rest
            .iter()
            .take(120)
            .skip(name)
            .position(|byte| *byte == close || matches!(*byte, b'\n' | PIECE_END));
        if closes.is_some_and(|extra| rest[name + extra] == close) {
            self.push(
                at,
                start + name + 1,
                bit(if open == b'<' {
                    TokenKind::Tag
                } else {
                    TokenKind::Bracket
                }),
            );
        }
    }

    /// Records the telephone number after the `+` at `at`.
    fn phone(&mut self, at: usize) {
        let length = self.text[at + 1..]
            .iter()
            .take(24)
            .take_while(|b| b.is_ascii_digit() || matches!(b, b' ' | b'-' | b'(' | b')'))
            .count();
        let digits = self.text[at + 1..at + 1 + length]
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            .count();
        if digits >= 9 {
            self.push(at, at + 1 + length, bit(TokenKind::Phone));
        }
    }
}
