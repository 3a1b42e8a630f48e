//! Things in a text that no word list can name: quoted values, identifiers, addresses, paths.
//!
//! "Call `x_y` with 'z'" is the skeleton of most orders to an agent; the words around it differ from
//! author to author, the skeleton does not. One pass over the folded text finds these tokens and the
//! ends of sentences.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use super::document::{Document, PIECE_END, Shape};
use super::extract;
use super::neighbours::Neighbours;
use super::pack::Token;
use super::tree::Tree;

/// Something found at a place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Start in the buffer.
    pub start: u32,
    /// End in the buffer.
    pub end: u32,
    /// What it is: a bit of the rule set's alphabet.
    pub concepts: u128,
}

/// Names that a text may mention without saying anything about other tools.
#[derive(Clone, Debug, Default)]
pub struct Names<'a> {
    /// The subject's own name, lower case.
    pub own: &'a str,
    /// The tool that the subject is. Its parameters and enum values are its own words as well.
    pub tool: Option<&'a Tree<'a>>,
    /// These words, in lower case and sorted: gathered when a text has a word that could be one.
    pub parameters: OnceCell<Vec<Cow<'a, str>>>,
    /// What other servers offer, and the name of the subject's server.
    pub neighbours: Option<(&'a Neighbours, &'a str)>,
}

impl Names<'_> {
    /// The bit of a word that names the subject or one of its parameters.
    fn own_word(&self, word: &str) -> Option<u128> {
        let is_parameter = || {
            self.parameters
                .get_or_init(|| self.tool.map(extract::own_names).unwrap_or_default())
                .binary_search_by(|name| (**name).cmp(word))
                .is_ok()
        };
        if word == self.own {
            Some(bit(Token::OwnName))
        } else {
            is_parameter().then(|| bit(Token::OwnParameter))
        }
    }

    /// The bit of a name that only other servers' tools have.
    fn foreign(&self, word: &str) -> u128 {
        let foreign = self
            .neighbours
            .is_some_and(|(neighbours, server)| neighbours.is_foreign(server, word));
        u128::from(foreign) << Token::ForeignTool as u32
    }
}

/// What the paths of keys, credentials and accounts have in their names.
static TELLING: LazyLock<AhoCorasick> = LazyLock::new(|| {
    any_of(&[
        "passw", "secret", "cred", "token", "shadow", ".ssh", "history", "cookie", "wallet",
        "private", "id_rsa", "api_key", "apikey", "_key", "/.env", ".aws", ".kube", ".gnupg",
        "oauth", "keychain", "sudoers",
    ])
});
/// What the names of tools with effects have in them.
static RISKY: LazyLock<AhoCorasick> = LazyLock::new(|| {
    any_of(&[
        "delete",
        "remove",
        "drop_",
        "drop-",
        "reset",
        "wipe",
        "purge",
        "kill",
        "disable",
        "revoke",
        "transfer",
        "payment",
        "pay_",
        "send",
        "post_",
        "upload",
        "export",
        "forward",
        "write",
        "execute",
        "exec_",
        "run_",
        "shell",
        "overwrite",
        "push_",
        "share",
        "grant",
        "move",
        "update",
        "edit_",
        "create_or",
        "truncate",
        "destroy",
        "terminate",
        "withdraw",
        "purchase",
        "refund",
        "reply",
        "publish",
        "merge",
        "close_",
        "evaluate",
        "command",
        "deploy",
        "install",
        "invite",
        "put_",
        "migrate",
    ])
});

/// Names and paths are short and many: one look at each byte tells about all words.
#[expect(clippy::expect_used, reason = "the words are the program's own")]
fn any_of(words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::DFA))
        .build(words)
        .expect("some dozens of short words")
}

/// Longest sentence; a longer one is cut, so that work per sentence is bounded.
const SENTENCE_LIMIT: usize = 600;
/// Longest text between two quotation marks that counts as a quoted value.
const QUOTE_LIMIT: usize = 160;

fn bit(token: Token) -> u128 {
    1u128 << token as u32
}

/// Finds tokens (into `hits`) and sentence ends (into `ends`, ascending, the last being the text's
/// length).
pub fn scan(document: &Document<'_>, names: &Names<'_>, hits: &mut Vec<Hit>, ends: &mut Vec<u32>) {
    let text = document.text().as_bytes();
    let mut scanner = Scanner {
        text,
        names,
        hits,
        camel: Vec::new(),
    };
    for shaped in document.shaped() {
        let token = match shaped.shape {
            Shape::Capitals => Token::Capitals,
            Shape::MixedScript => Token::MixedScript,
            Shape::AfterBlanks => Token::AfterBlanks,
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
    let mut sentence = 0;
    let mut at = 0;
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
                scanner.push(at, at + 2, bit(Token::ShellSubstitution))
            }
            _ => {}
        }
        at += 1;
    }
    ends.push(text.len() as u32);
}

/// Whether the mark at `at` ends a sentence: a blank follows, and it is no common abbreviation.
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

/// What another tool's or thing's name says about it.
fn traits(name: &str) -> u128 {
    let risky = name.len() > 4 && RISKY.is_match(name);
    let telling = TELLING.is_match(name);
    u128::from(risky) << Token::RiskyName as u32 | u128::from(telling) << Token::TellingName as u32
}

struct Scanner<'a, 'n> {
    text: &'a [u8],
    names: &'a Names<'n>,
    hits: &'a mut Vec<Hit>,
    camel: Vec<(usize, usize)>,
}

impl Scanner<'_, '_> {
    fn push(&mut self, start: usize, end: usize, concepts: u128) {
        self.hits.push(Hit {
            start: start as u32,
            end: end as u32,
            concepts,
        });
    }

    /// An identifier: a parameter, the subject itself, or something else's name.
    fn name(&mut self, start: usize, end: usize) {
        let Ok(word) = std::str::from_utf8(&self.text[start..end]) else {
            return;
        };
        let word = word.trim_matches(|c: char| matches!(c, '`' | '\'' | '"' | '(' | ')'));
        let concepts = self
            .names
            .own_word(word)
            .unwrap_or_else(|| bit(Token::Identifier) | traits(word) | self.names.foreign(word));
        self.push(start, end, concepts);
    }

    /// A quoted value that starts at `at`; returns its last byte (or `at` when it is none).
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
                    bit(Token::Identifier) | traits(word)
                } else {
                    0
                };
                named | bit(Token::QuotedWord) | self.names.foreign(word)
            });
            self.push(start, end, token);
            return end;
        }
        self.push(start, end, bit(Token::QuotedText));
        // What stands inside is looked at as well: addresses and commands are often quoted.
        at
    }

    /// The identifier around the underscore at `at`; returns its last byte.
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
            self.push(at - local, at + 1 + host, bit(Token::Email));
        }
    }

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
            b"http" | b"https" | b"ftp" | b"ws" | b"wss" => Token::Url,
            b"file" => Token::Path,
            _ => Token::Resource,
        };
        let host: &[u8] = &self.text[at + 3..at + 3 + rest];
        let host = host
            .split(|byte| matches!(byte, b'/' | b':' | b'?'))
            .next()
            .unwrap_or_default();
        let numeric = token == Token::Url
            && host.iter().filter(|byte| **byte == b'.').count() == 3
            && host
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let numeric = numeric && !host.starts_with(b"127.") && !host.starts_with(b"0.");
        self.push(
            at - scheme,
            at + 3 + rest,
            bit(token) | u128::from(numeric) << Token::NumericUrl as u32,
        );
    }

    /// An absolute, home or climbing path around the slash at `at`; returns its last byte.
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
            self.push(
                at,
                at + length,
                bit(Token::Path) | self.path_traits(at, at + length),
            );
            return at + length - 1;
        }
        at
    }

    /// What a path says about what it leads to.
    fn path_traits(&self, start: usize, end: usize) -> u128 {
        let Ok(path) = std::str::from_utf8(&self.text[start..end]) else {
            return 0;
        };
        let telling = TELLING.is_match(path);
        let temporary = path.starts_with("/tmp")
            || path.starts_with("/var/tmp")
            || path.starts_with("/dev/shm");
        let hidden = temporary && path.contains("/.");
        u128::from(telling) << Token::TellingPath as u32
            | u128::from(hidden) << Token::HiddenPath as u32
    }

    /// A mark-up tag whose name is a word, as `<important>` or `[system]`.
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
                    Token::Tag
                } else {
                    Token::Bracket
                }),
            );
        }
    }

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
            self.push(at, at + 1 + length, bit(Token::Phone));
        }
    }
}
