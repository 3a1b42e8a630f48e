//! Values that are secret because of the name they are assigned to.
//!
//! `password=x`, `DB_PASSWORD: x`, `"apiKey": "x"`, the same inside a JSON string (`\"apiKey\":\"x\"`),
//! `<token>x</token>`, `--token x`, `Authorization: Basic x`. Masking too much is as bad as masking too
//! little: descriptions of tools are full of sentences such as *token: the token to use*. So an unquoted
//! value after a colon or a blank counts only if it does not look like a word, and names that merely sound
//! secret (`progressToken`, `max_tokens`) do not count at all.

use super::hit::{OPEN, SecretHit};

/// Endings of secret names, as anchors for the search.
pub(super) const NAME_ENDINGS: [&str; 12] = [
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "key",
    "credential",
    "credentials",
    "authorization",
    "cookie",
];

/// Endings of names without separators, in lower case, and the kind of secret that they name.
const KINDS: [(&str, &str); 21] = [
    ("password", "password"),
    ("passwd", "password"),
    ("pwd", "password"),
    ("passphrase", "password"),
    ("passcode", "password"),
    ("secret", "secret"),
    ("secretkey", "secret"),
    ("accesskey", "secret"),
    ("privatekey", "secret"),
    ("signingkey", "secret"),
    ("encryptionkey", "secret"),
    ("masterkey", "secret"),
    ("accountkey", "secret"),
    ("sharedkey", "secret"),
    ("sessionkey", "secret"),
    ("authkey", "api_key"),
    ("apikey", "api_key"),
    ("token", "token"),
    ("credential", "credential"),
    ("credentials", "credential"),
    ("authorization", "credential"),
];

/// Names that end like a secret name and are harmless.
const HARMLESS: [&str; 9] = [
    "progresstoken",
    "pagetoken",
    "nexttoken",
    "continuationtoken",
    "cancellationtoken",
    "synctoken",
    "maxtoken",
    "skiptoken",
    "stoptoken",
];

/// The longest name that is examined, in bytes.
const NAME_MAX: usize = 64;

/// The kind of secret that a name stands for, if it is a secret name: `--api-key`, `DB_PASSWORD`,
/// `clientSecret`. Case, separators and trailing digits do not matter.
pub fn secret_name(name: &str) -> Option<&'static str> {
    if name.len() > NAME_MAX {
        return None;
    }
    let mut word: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    word.truncate(word.trim_end_matches(|c: char| c.is_ascii_digit()).len());
    if HARMLESS.iter().any(|harmless| word.ends_with(harmless)) {
        return None;
    }
    if word == "cookie" || word == "setcookie" {
        return Some("cookie");
    }
    KINDS
        .iter()
        .find(|(ending, _)| word.ends_with(ending))
        .map(|&(_, kind)| kind)
}

/// Whether a value only stands for a secret: a variable, a template, a mask, a type.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 20] = [
        "string",
        "str",
        "integer",
        "int",
        "number",
        "boolean",
        "bool",
        "object",
        "array",
        "any",
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "required",
        "optional",
        "redacted",
        "secret",
    ];
    if value.starts_with(OPEN) {
        return true;
    }
    if value.len() > NAME_MAX {
        return false;
    }
    let inner = value
        .strip_prefix("${")
        .and_then(|v| v.strip_suffix('}'))
        .or_else(|| value.strip_prefix("{{").and_then(|v| v.strip_suffix("}}")))
        .or_else(|| value.strip_prefix('<').and_then(|v| v.strip_suffix('>')))
        .or_else(|| value.strip_prefix("%(").and_then(|v| v.strip_suffix(')')))
        .or_else(|| value.strip_prefix('$'));
    if let Some(inner) = inner {
        return inner
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b' '));
    }
    let masked = |c: char| matches!(c, '*' | '•' | '.' | '…' | 'x' | 'X' | '?');
    value.chars().all(masked) || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether an argument is a long run of random letters, and not a path, a name or a hash.
pub(super) fn is_random(value: &str) -> bool {
    let has = |test: fn(&u8) -> bool| value.bytes().any(|b| test(&b));
    (32..=512).contains(&value.len())
        && value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'='))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && value.bytes().filter(u8::is_ascii_digit).count() >= 3
}

/// Whether an unquoted value is unlikely to be a word of a sentence.
fn looks_secret(value: &str) -> bool {
    let inner_capital = value
        .bytes()
        .zip(value.bytes().skip(1))
        .any(|(a, b)| a.is_ascii_lowercase() && b.is_ascii_uppercase());
    value.len() >= 4
        && (inner_capital
            || value.len() >= 40
            || value.bytes().any(|b| {
                b.is_ascii_digit() || matches!(b, b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'+')
            }))
}

/// How a name and its value are connected, from tight to loose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tie {
    /// `name=value`, `<name>value</name>`
    Tight,
    /// `name: value`, `name = value`
    Loose,
    /// `--name value`
    Option,
}

/// The value assigned to the secret name whose last word is `text[at..after]`, if there is one.
pub(super) fn value_after(text: &str, at: usize, after: usize) -> Option<SecretHit> {
    let bytes = text.as_bytes();
    let cursor = Cursor { bytes };
    // Trailing digits belong to the name (`password2=`); any other letter makes it another name.
    let name_end = cursor.skip(after, 4, |b| b.is_ascii_digit());
    if bytes.get(name_end).is_some_and(|&b| is_name_letter(b)) {
        return None;
    }
    let closed = cursor.quote(name_end);
    let quoted_name = closed != name_end;
    let name_start = (at.saturating_sub(NAME_MAX)..at)
        .rev()
        .find(|&i| !is_name_letter(bytes[i]))
        .map_or(at.saturating_sub(NAME_MAX), |i| i + 1);
    let blank_end = cursor.skip(closed, 8, |b| matches!(b, b' ' | b'\t'));
    let (tie, mut start) = match bytes.get(blank_end..)? {
        [b'=', b'=' | b'~', ..] | [b':', b':' | b'/', ..] => return None,
        [b':', b'=', ..] | [b'=', b'>', ..] => (Tie::Loose, blank_end + 2),
        [b'=', ..] if blank_end == closed => (Tie::Tight, blank_end + 1),
        [b'=' | b':', ..] => (Tie::Loose, blank_end + 1),
        [b'>', ..] if name_start > 0 && bytes[name_start - 1] == b'<' => {
            (Tie::Tight, blank_end + 1)
        }
        _ if blank_end > closed && !quoted_name && bytes[name_start..].starts_with(b"--") => {
            (Tie::Option, blank_end)
        }
        _ => return None,
    };
    // The window may start inside a character. Names are ASCII, so there is no name before `at` then.
    let kind = secret_name(text.get(name_start..name_end)?)?;
    if tie != Tie::Option {
        let blank =
            |b: u8| matches!(b, b' ' | b'\t') || (quoted_name && matches!(b, b'\r' | b'\n'));
        start = cursor.skip(start, 64, blank);
    }
    let header = matches!(kind, "cookie") || text[at..after].eq_ignore_ascii_case("authorization");

    let value_start = cursor.quote(start);
    let quoted = value_start != start;
    // Checked before the value is measured: a check that fails has to be cheap, because it may happen often.
    if bytes[value_start..].starts_with(OPEN.as_bytes()) {
        return None;
    }
    let (start, end) = if quoted {
        (value_start, cursor.closing(start, value_start))
    } else if header {
        let stops = |b| matches!(b, b'\r' | b'\n' | b'"' | b'\'' | b'\\');
        (start, cursor.run_end(start, stops))
    } else {
        (start, cursor.run_end(start, is_delimiter))
    };
    let start = if header {
        skip_scheme(text, start, end)
    } else {
        start
    };
    let value = text.get(start..end)?.trim_end();
    let end = start + value.len();
    if value.is_empty() || is_placeholder(value) {
        return None;
    }
    let counts = if quoted || header {
        true
    } else {
        match tie {
            Tie::Tight => value.len() >= 3 && !is_path_of_directory(kind, value),
            Tie::Loose | Tie::Option => looks_secret(value) && !is_code(value),
        }
    };
    let small_number = !quoted
        && kind != "password"
        && value.len() < 9
        && value.bytes().all(|b| b.is_ascii_digit());
    (counts && !small_number).then_some(SecretHit { kind, start, end })
}

/// Whether a value is a directory: `PWD=/home/me` is a shell's, not a password.
fn is_path_of_directory(kind: &str, value: &str) -> bool {
    kind == "password" && value.len() <= 256 && value.starts_with(['/', '~'])
}

/// Whether a value is code that reads the secret, such as `process.env.TOKEN1`.
fn is_code(value: &str) -> bool {
    value.len() <= 256
        && (value.starts_with("process.env")
            || value.starts_with("os.environ")
            || value.starts_with("self.")
            || value.starts_with("args."))
}

/// The position after `Bearer`, `Basic`, `token` or the like in a header's value.
fn skip_scheme(text: &str, start: usize, end: usize) -> usize {
    let value = &text[start..end];
    match value.split_once(' ') {
        Some((scheme, rest))
            if scheme.len() <= 16
                && scheme.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') =>
        {
            end - rest.trim_start().len()
        }
        _ => start,
    }
}

fn is_name_letter(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`')
}

fn is_delimiter(b: u8) -> bool {
    b.is_ascii_whitespace()
        || b.is_ascii_control()
        || matches!(
            b,
            b'"' | b'\''
                | b'`'
                | b','
                | b';'
                | b'&'
                | b'<'
                | b'>'
                | b'('
                | b')'
                | b'['
                | b']'
                | b'{'
                | b'}'
                | b'|'
                | b'\\'
        )
}

/// Steps over the bytes of a text.
struct Cursor<'t> {
    bytes: &'t [u8],
}

impl Cursor<'_> {
    /// The position after the bytes from `from` on that pass `test`, at most `max` of them.
    fn skip(&self, from: usize, max: usize, test: impl Fn(u8) -> bool) -> usize {
        let count = self.bytes[from..]
            .iter()
            .take(max)
            .take_while(|&&b| test(b))
            .count();
        from + count
    }

    /// The end of a value without quotation marks: before a byte that `stops` it, or before a placeholder.
    fn run_end(&self, from: usize, stops: impl Fn(u8) -> bool) -> usize {
        const GUILLEMET: &[u8] = "«".as_bytes();
        let rest = &self.bytes[from..];
        let length = (0..rest.len())
            .find(|&at| stops(rest[at]) || rest[at..].starts_with(GUILLEMET))
            .unwrap_or(rest.len());
        from + length
    }

    /// The position after a quotation mark at `from` and the backslashes before it, which occur in JSON inside
    /// JSON; `from` itself if there is none.
    fn quote(&self, from: usize) -> usize {
        let slashes = self.skip(from, 7, |b| b == b'\\');
        match self.bytes.get(slashes) {
            Some(&b) if is_quote(b) => slashes + 1,
            _ => from,
        }
    }

    /// The end of the value that was opened by the quotation mark in `open..from`: before its counterpart with
    /// as many backslashes, or at the end of the line or the text.
    ///
    /// With `d` backslashes before the mark, the next deeper level of quoting takes `2d + 1` of them, and a
    /// backslash that ends the value takes `2(d + 1)` more.
    ///
    /// `mcp::json::string_end` cannot do this: it knows one level of JSON and double quotes, whereas this text
    /// may be a shell command, a log line or JSON at any depth of quoting.
    fn closing(&self, open: usize, from: usize) -> usize {
        let depth = from - 1 - open;
        let mark = self.bytes[from - 1];
        let mut at = from;
        loop {
            let Some(found) = memchr::memchr3(mark, b'\n', b'\r', &self.bytes[at..]) else {
                return self.bytes.len();
            };
            let found = at + found;
            let slashes = self.bytes[from..found]
                .iter()
                .rev()
                .take_while(|&&b| b == b'\\')
                .count();
            if self.bytes[found] != mark {
                return found;
            }
            if slashes <= depth || (slashes - depth).is_multiple_of(2 * (depth + 1)) {
                return found - slashes.min(depth);
            }
            at = found + 1;
        }
    }
}
