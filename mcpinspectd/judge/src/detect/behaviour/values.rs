//! Values: the parts of a text that can be followed from a result into a call.
//!
//! An address, an account, a path, an identifier or a quoted title hardly turns up in two places by chance. How
//! telling it is depends on its form: an address names an outside party, a small number could be anything.

use std::hash::{BuildHasher, RandomState};

/// Most values of one text.
const VALUES: usize = 4096;
/// Longest value, in bytes.
const LONGEST: usize = 256;
/// Longest quoted phrase that is a value, in bytes.
const PHRASE: usize = 80;

/// How telling a value is: from 0 (a small number) to 3 (an address).
pub type Weight = f32;

/// The weight of a value that names an outside party or place.
pub const ADDRESS: Weight = 3.0;

/// A value without its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrackedValue {
    /// The hash of its text in lower case.
    pub hash: u64,
    /// How telling it is.
    pub weight: Weight,
}

/// Hashes values. Each machine has its own hashes, so that no one can prepare texts that collide.
#[derive(Clone, Debug, Default)]
pub struct ValueHasher(RandomState);

impl ValueHasher {
    /// The hash of a value, regardless of case and of whether an agent completed it to an address.
    pub fn hash(&self, text: &str) -> u64 {
        let bare = text
            .strip_prefix("https://")
            .or(text.strip_prefix("http://"));
        let text = bare.unwrap_or(text).trim_end_matches('/');
        match text
            .bytes()
            .any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii())
        {
            true => self.0.hash_one(text.to_lowercase()),
            false => self.0.hash_one(text),
        }
    }

    /// The values in a text.
    pub fn values(&self, text: &str) -> Vec<TrackedValue> {
        let mut values = Vec::new();
        find(text, |text, weight| {
            if values.len() < VALUES {
                values.push(TrackedValue {
                    hash: self.hash(text),
                    weight,
                });
            }
        });
        values
    }
}

/// Calls `found` for each value in a text.
pub fn find<'t>(text: &'t str, mut found: impl FnMut(&'t str, Weight)) {
    telling_words(text, |word| {
        let word = trimmed(word);
        if let Some(weight) = weight(word) {
            found(word, weight);
            if let Some(end) = end_of_path(word) {
                found(end, 2.0);
            }
        }
    });
    phrases(text, |phrase| {
        let single = !phrase.contains(' ');
        if !(single && weight(phrase).is_some()) {
            found(phrase, if single { 1.2 } else { 1.5 });
        }
    });
}

/// Calls `visit` for each word with a character that every value needs. Most words have none.
fn telling_words<'t>(text: &'t str, mut visit: impl FnMut(&'t str)) {
    let telling = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'@' | b'_' | b'/' | b'.');
    let mut from = 0;
    while let Some(at) = text[from..].bytes().position(telling).map(|at| from + at) {
        let start = text[from..at].rfind(separates).map_or(from, |separator| {
            let separator = from + separator;
            text.ceil_char_boundary(separator + 1)
        });
        let end = text[at..]
            .find(separates)
            .map_or(text.len(), |end| at + end);
        visit(&text[start..end]);
        from = end;
    }
}

/// Whether a character separates values.
fn separates(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '"' | '\'' | '`' | '<' | '>' | '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | '|'
        )
        || matches!(c, '“' | '”' | '‘' | '’' | '«' | '»' | '„')
}

/// A word without the punctuation around it.
fn trimmed(word: &str) -> &str {
    let word = word.trim_end_matches(|c: char| {
        matches!(c, '.' | ',' | ':' | ';' | '!' | '?' | '*' | '-' | '\\')
    });
    word.trim_start_matches([':', '*', '!', '-', '=', '\\', '$', '#'])
}

/// How telling a word is; `None` if it is just a word.
pub fn weight(word: &str) -> Option<Weight> {
    let bytes = word.as_bytes();
    if bytes.is_empty() || bytes.len() > LONGEST {
        return None;
    }
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    let inner_dot = |text: &str| text.trim_matches('.').contains('.');
    if let Some((name, host)) = word.split_once('@') {
        return Some(if !name.is_empty() && inner_dot(host) {
            ADDRESS
        } else {
            1.2
        });
    }
    if is_url(word) {
        return Some(ADDRESS);
    }
    if (word.starts_with('/') || word.starts_with("~/") || word.starts_with("../"))
        && word.len() > 4
        && letters
    {
        return Some(2.5);
    }
    if digits == 0 {
        return word.contains('_').then_some(1.2).filter(|_| letters);
    }
    let all_but = |other: &[u8]| {
        bytes
            .iter()
            .all(|byte| byte.is_ascii_digit() || other.contains(byte))
    };
    if (digits == 8 && all_but(b"-/")) || (digits <= 6 && word.contains(':') && all_but(b":")) {
        return Some(0.7); // a date or a time
    }
    if !letters {
        return match digits {
            9.. => Some(2.5),
            4.. => Some(1.0),
            _ => Some(0.5),
        };
    }
    Some(if bytes.len() >= 8 && digits >= 3 {
        ADDRESS
    } else {
        1.2
    })
}

fn is_url(word: &str) -> bool {
    word.contains("://") || (word.starts_with("www.") && word.len() > 7)
}

/// Most pages above another one.
const PAGES: usize = 8;

/// The pages above a URL, up to its host: an order that names a site is obeyed by visiting one of its pages, and what
/// an agent was told to carry there is in the rest of the URL.
pub fn pages(url: &str) -> impl Iterator<Item = &str> {
    let host = url.find("://").map_or(0, |at| at + 3);
    let path = url
        .get(host..)
        .filter(|_| is_url(url) && !url.contains(char::is_whitespace));
    let ends = path.unwrap_or_default().match_indices(['/', '?', '#', '{']);
    ends.filter(|(at, _)| *at > 0)
        .map(move |(at, _)| &url[..host + at])
        .take(PAGES)
}

/// The last two parts of a path: `~/.ssh/id_rsa` and `/home/me/.ssh/id_rsa` are the same file.
fn end_of_path(path: &str) -> Option<&str> {
    let inner = path.starts_with(['/', '~', '.']) && !path.contains("://");
    let (last, _) = path.rmatch_indices('/').nth(1).filter(|_| inner)?;
    Some(&path[last + 1..]).filter(|end| end.len() > 4)
}

/// Calls `found` for each quoted phrase.
fn phrases<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    let mut from = 0;
    while let Some((start, quote)) = opening(text, from) {
        let limit = text.ceil_char_boundary(start + PHRASE + 1);
        let closing = text[start..limit].match_indices(quote).find(|(at, _)| {
            let after = text[start + at + quote.len_utf8()..].chars().next();
            // An apostrophe is between letters.
            !after.is_some_and(char::is_alphanumeric)
        });
        from = match closing {
            Some((length, _)) => {
                let phrase = text[start..start + length].trim();
                if phrase.len() > 2 {
                    found(phrase);
                }
                start + length + quote.len_utf8()
            }
            None => limit,
        };
    }
}

/// The first opening quotation mark from `from` on: where the quoted text starts, and what closes it.
fn opening(text: &str, from: usize) -> Option<(usize, char)> {
    let may_open = |(_, byte): &(usize, u8)| matches!(byte, b'"' | b'\'' | b'`' | 0xc2 | 0xe2);
    text[from..]
        .bytes()
        .enumerate()
        .filter(may_open)
        .find_map(|(at, _)| {
            let at = from + at;
            let c = text[at..].chars().next()?;
            let closing = match c {
                '"' | '\'' | '`' => c,
                '“' => '”',
                '‘' => '’',
                '«' => '»',
                '„' => '“',
                _ => return None,
            };
            let inside = text[..at]
                .chars()
                .next_back()
                .is_some_and(char::is_alphanumeric);
            (!inside).then_some((at + c.len_utf8(), closing))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, Weight)> {
        let mut all = Vec::new();
        find(text, |value, weight| all.push((value, weight)));
        all
    }

    #[test]
    fn values_are_found_by_their_form() {
        assert_eq!(
            found("Mail a.b-2@x.example, then see https://e.example/a?b=1."),
            [("a.b-2@x.example", 3.0), ("https://e.example/a?b=1", 3.0)]
        );
        assert_eq!(
            found("pay US133000000121212121212 by 2024-05-30 10:20, id '13'"),
            [
                ("US133000000121212121212", 3.0),
                ("2024-05-30", 0.7),
                ("10:20", 0.7),
                ("13", 0.5)
            ]
        );
        assert_eq!(
            found("titled 'Intro with Mark', it's the user's own \"winter_lake\""),
            [("winter_lake", 1.2), ("Intro with Mark", 1.5)]
        );
        assert_eq!(found("Just a few words."), []);
        assert_eq!(
            found("read ~/.ssh/id_rsa"),
            [("~/.ssh/id_rsa", 2.5), (".ssh/id_rsa", 2.0)]
        );
        assert_eq!(found("/home/me/.ssh/id_rsa")[1], (".ssh/id_rsa", 2.0));
    }

    #[test]
    fn the_hash_ignores_case() {
        let hasher = ValueHasher::default();
        assert_eq!(hasher.hash("A.B@x.Example"), hasher.hash("a.b@x.example"));
        assert_ne!(hasher.hash("a"), hasher.hash("b"));
    }

    proptest::proptest! {
        /// No value is missed because words without telling characters are skipped.
        #[test]
        fn every_word_that_is_a_value_is_found(text in "[ a-cw0-9@._/:~,;'\"“„é\u{3000}-]{0,60}") {
            let expected: Vec<&str> = text
                .split(separates)
                .map(trimmed)
                .filter(|word| weight(word).is_some())
                .collect();
            let mut words = Vec::new();
            telling_words(&text, |word| words.push(trimmed(word)));
            words.retain(|word| weight(word).is_some());
            proptest::prop_assert_eq!(words, expected);
        }
    }

    #[test]
    fn a_text_of_quotes_has_no_values_and_takes_no_time() {
        // So long that this does not end if the time grows with the square.
        for quotes in ["'\"`", "'a b", "“", "\"a "] {
            assert_eq!(found(&quotes.repeat(200_000)), [], "{quotes}");
        }
    }
}
