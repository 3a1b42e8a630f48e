//! The words that a message can be found by.
//!
//! A word is a run of letters and digits, in lower case and without accents; in scripts that do not
//! separate words, each character is one. Text and questions are split by the same function, so what
//! is asked for is what was kept: SQLite's own tokenizers are not used.
//!
//! Where a message belongs (server, method, tool, user) is kept as words too, which no text can
//! contain: they begin with a character of the private use area. So a search for a common word in a rare
//! server need not look at every message with that word.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::BuildHasher as _;

use foldhash::{fast, quality};
use mcpinspect_core::text::escape::printable;
use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Longer words, in bytes, are left out: keys, hashes and encoded data.
const MAX_WORD: usize = 64;

/// Most different words of one message to keep.
const MAX_WORDS: usize = 4096;

/// Bytes of one message whose words are kept.
const MAX_TEXT: usize = 256 << 10;

/// Words found in nearly every message.
const COMMON: [&str; 8] = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "arguments",
    "content",
    "type",
];

/// Begins a tag.
const TAG_PREFIX: char = '\u{e000}';

/// Where a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchTag<'a> {
    /// Its server.
    Server(&'a str),
    /// Its method.
    Method(&'a str),
    /// Its tool.
    Tool(&'a str),
    /// The user that its server runs as.
    User(Option<u32>),
    /// Tags an error.
    Error,
}

impl SearchTag<'_> {
    /// Adds the tag, as a word, to `out`.
    pub(super) fn push(self, out: &mut String) {
        out.push(TAG_PREFIX);
        match self {
            Self::Server(name) => push_name(out, 's', name),
            Self::Method(name) => push_name(out, 'm', name),
            Self::Tool(name) => push_name(out, 't', name),
            Self::User(Some(uid)) => {
                // Writing to a string cannot fail.
                let _ = write!(out, "u{uid}");
            }
            Self::User(None) => out.push('u'),
            Self::Error => out.push('e'),
        }
        out.push(' ');
    }
}

fn push_name(out: &mut String, kind: char, name: &str) {
    let digest = Sha256::digest(name);
    out.push(kind);
    for byte in &digest[..6] {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Appends the different words of a message's text to `out`, each followed by a blank. `text` may be JSON:
/// escapes in strings separate words, or are the characters that they stand for.
pub(super) fn push_words(text: &str, out: &mut String) {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    // Hashes instead of words: it is very unlikely that two words of one message share one of 64 bits, with a
    // secret of this process in it, and then only the second would not be found.
    let secret = quality::RandomState::default();
    let mut seen: HashSet<u64, fast::RandomState> = HashSet::default();
    split(text, &mut |word| {
        if seen.len() < MAX_WORDS && !is_left_out(word) && seen.insert(secret.hash_one(word)) {
            out.push_str(word);
            out.push(' ');
        }
    });
}

/// The query for the messages that contain all words of `text` and have all tags; empty if
/// there are none. FTS's own syntax is unreachable: every word is quoted.
///
/// # Errors
/// `text` has no word, and is not blank.
pub(crate) fn match_expression<'a>(
    text: &str,
    tags: impl Iterator<Item = SearchTag<'a>>,
) -> Result<String, String> {
    let wanted = words(text);
    if wanted.is_empty() && !text.trim().is_empty() {
        return Err(format!(
            "nothing to search for in `{}`: a word needs at least two letters or digits",
            printable(text, 64)
        ));
    }
    let mut all = String::new();
    for word in wanted {
        all.push('"');
        all.push_str(&word);
        all.push_str("\" ");
    }
    for tag in tags {
        tag.push(&mut all);
    }
    Ok(all)
}

/// The different words of a question.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    split(text, &mut |word| {
        if !is_left_out(word) && !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    });
    words
}

fn is_left_out(word: &str) -> bool {
    word.len() > MAX_WORD || word.len() < 2 || COMMON.contains(&word)
}

/// Splits text into words.
fn split(text: &str, word: &mut dyn FnMut(&str)) {
    let mut current = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character.is_ascii_alphanumeric() {
            current.push(character.to_ascii_lowercase());
        } else if character == '\\' {
            match escaped(&mut characters) {
                Some(character) => take(character, &mut current, word),
                None => end(&mut current, word),
            }
        } else {
            take(character, &mut current, word);
        }
    }
    end(&mut current, word);
}

/// The character that an escape stands for, after its backslash; `None` for one that separates.
fn escaped(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let rest = characters.as_str();
    if let Some(digits) = rest.strip_prefix('u').and_then(|rest| rest.get(..4)) {
        let character = u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32)?;
        *characters = rest[5..].chars();
        return Some(character);
    }
    // The escaped character is a control character or a sign: it separates.
    if rest.starts_with(['n', 't', 'r', 'b', 'f', '"', '\\', '/']) {
        characters.next();
    }
    None
}

fn take(character: char, current: &mut String, word: &mut dyn FnMut(&str)) {
    if !character.is_alphanumeric() {
        if !is_combining_mark(character) {
            end(current, word);
        }
    } else if stands_alone(character) {
        end(current, word);
        word(character.encode_utf8(&mut [0; 4]));
    } else {
        let plain = character.nfd().filter(|part| !is_combining_mark(*part));
        current.extend(plain.flat_map(char::to_lowercase));
    }
}

fn end(current: &mut String, word: &mut dyn FnMut(&str)) {
    if !current.is_empty() {
        word(current);
        current.clear();
    }
}

/// Whether a character is a word of its own, as in scripts that do not separate words.
fn stands_alone(character: char) -> bool {
    matches!(
        u32::from(character),
        0x0e00..=0x0eff | 0x1000..=0x109f | 0x3040..=0x30ff | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x2_0000..=0x3_ffff
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut out = String::new();
        push_words(text, &mut out);
        out.split_terminator(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_of_a_message() {
        let text = r#"{"jsonrpc":"2.0","id":7,"params":{"name":"read_file","path":"/home/Anna/Größe.txt","note":"one\ntwo \u00e9t\u00e9","zh":"文件夹"}}"#;
        assert_eq!(
            of(text),
            [
                "name", "read", "file", "path", "home", "anna", "große", "txt", "note", "one",
                "two", "ete", "zh", "文", "件", "夹"
            ]
        );
        assert_eq!(words("Été  FILE.txt été id"), ["ete", "file", "txt"]);
        // A Windows path in JSON.
        assert_eq!(of(r#""C:\\new\\table""#), ["new", "table"]);
    }

    #[test]
    fn what_is_too_much_is_left_out() {
        assert!(of(&"x".repeat(65)).is_empty());
        let many: String = (0..10_000).map(|number| format!("w{number} ")).collect();
        assert_eq!(of(&many).len(), 4096);
        assert!(of(&format!("{} late", ". ".repeat(200_000))).is_empty());
    }

    #[test]
    fn tags_differ_and_no_text_contains_one() {
        let tag = |tag: SearchTag<'_>| {
            let mut out = String::new();
            tag.push(&mut out);
            out
        };
        let tags = [
            tag(SearchTag::Server("a")),
            tag(SearchTag::Method("a")),
            tag(SearchTag::Tool("a")),
            tag(SearchTag::Tool("b")),
            tag(SearchTag::User(None)),
            tag(SearchTag::User(Some(7))),
            tag(SearchTag::Error),
        ];
        for (index, one) in tags.iter().enumerate() {
            assert!(!tags[index + 1..].contains(one));
            assert!(of(one).iter().all(|word| !word.contains(TAG_PREFIX)));
        }
    }

    proptest! {
        #[test]
        fn what_was_said_is_found(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap_or_default();
            let kept = of(&json);
            // Each word of the text itself is among those of its JSON.
            for word in words(&text.replace('\\', " ")) {
                prop_assert!(kept.contains(&word), "{word} {kept:?}");
            }
        }
    }
}
