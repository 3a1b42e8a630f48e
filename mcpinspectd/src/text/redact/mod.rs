//! Secrets, found and taken out.
//!
//! Tool calls, results and command lines carry credentials. Before any of it leaves the daemon in an
//! event it goes through here, and what looks like a secret becomes `«redacted:KIND»`; nothing of the
//! secret itself is kept, no first or last letters either.
//!
//! Two kinds of evidence count: the vendors' key *formats* (see `formats`), and values *assigned* to
//! a name that says what it is, `password=…`, `"api_key": "…"`, `Authorization: …` (see
//! `assignment`). PEM private keys, JWTs, bearer and basic credentials and passwords in URLs are
//! formats with a grammar of their own, and stand here.
//!
//! Cost: one Aho-Corasick pass over rare anchors; what stands around an anchor is checked by hand.
//! Each check looks at a bounded window, or at a run of letters whose end is remembered, so that no
//! input (repeated prefixes, unclosed quotes or PEM blocks) makes the whole more than linear.

mod assignment;
mod formats;

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use memchr::memmem;

use formats::{Body, FORMATS, Format};

pub use assignment::secret_name;

/// A secret in a text: bytes `start..end`, always at character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretHit {
    /// What it is, such as `github_token`, `private_key` or `password`.
    pub kind: &'static str,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset behind its last byte.
    pub end: usize,
}

impl SecretHit {
    /// Whether the text itself has the form of a key or token; otherwise only the name that it was
    /// assigned to says so, which is a weaker sign.
    pub fn has_known_format(&self) -> bool {
        !matches!(
            self.kind,
            "password" | "secret" | "token" | "api_key" | "credential" | "cookie" | "opaque"
        )
    }
}

/// `text` with every secret replaced by `«redacted:KIND»`; borrowed where there is none. Applying it
/// twice changes nothing more.
pub fn secrets(text: &str) -> Cow<'_, str> {
    let hits = find(text);
    if hits.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for SecretHit { kind, start, end } in hits {
        out.push_str(&text[done..start]);
        out.push_str(&placeholder(kind));
        done = end;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// What stands in the place of a secret.
pub fn placeholder(kind: &str) -> String {
    format!("{OPEN}{kind}»")
}

/// How every placeholder begins; a value that begins so has been redacted already.
const OPEN: &str = "«redacted:";

/// The secrets in `text`, in order and without overlaps.
pub fn find(text: &str) -> Vec<SecretHit> {
    Scanner {
        text,
        bytes: text.as_bytes(),
        runs: [(0, 0); Body::COUNT],
        no_pem_end_from: usize::MAX,
    }
    .scan()
}

/// A command line with its secrets masked. Beyond what [`secrets`] finds in each argument, the value
/// of an option whose name says that it is secret goes (`--api-key X`, `--token=X`), an environment
/// assignment or header given as one argument (`-e API_KEY=X`, `-H "X-Api-Key: X"`), the password in
/// `-u user:password`, and a long argument of random letters. Arguments stay in their places.
pub fn command_line(args: &[String]) -> Vec<String> {
    let mut previous = "";
    let mut out = Vec::with_capacity(args.len());
    for arg in args {
        out.push(argument(previous, arg));
        previous = arg;
    }
    out
}

fn argument(previous: &str, arg: &str) -> String {
    if previous.starts_with('-')
        && !previous.contains('=')
        && !arg.starts_with('-')
        && let Some(kind) = secret_name(previous)
    {
        return whole(arg, kind);
    }
    if let Some(at) = arg.find(['=', ':']) {
        let (name, value) = (&arg[..at], &arg[at + 1..]);
        // A shell's script is a text and is treated as one, even where it begins with `A=b`.
        let script = previous.starts_with('-') && previous.ends_with('c');
        if !script
            && !name.contains(char::is_whitespace)
            && !value.starts_with("//")
            && let Some(kind) = secret_name(name)
        {
            let value = value.trim_start();
            return format!("{}{}", &arg[..arg.len() - value.len()], whole(value, kind));
        }
        if matches!(previous, "-u" | "--user" | "--proxy-user")
            && arg.as_bytes()[at] == b':'
            && !value.is_empty()
            && !value.bytes().all(|b| b.is_ascii_digit())
        {
            return format!("{name}:{}", whole(value, "password"));
        }
    }
    if assignment::is_random(arg) {
        return placeholder("opaque");
    }
    secrets(arg).into_owned()
}

/// The value of something secret: gone whole, unless it only says where the secret comes from.
fn whole(value: &str, kind: &'static str) -> String {
    if value.is_empty() || assignment::is_placeholder(value) {
        value.to_owned()
    } else {
        placeholder(kind)
    }
}

/// What an anchor's pattern number stands for: formats come first, then these.
const PEM: usize = FORMATS.len();
const JWT: usize = PEM + 1;
const BEARER: usize = PEM + 2;
const BASIC: usize = PEM + 3;
const URL: usize = PEM + 4;

/// Anchors that have a grammar instead of a prefix and a body. Behind them stand the endings of
/// secret names.
const GRAMMARS: [&str; 5] = ["-----BEGIN ", "eyJ", "bearer", "basic", "://"];

static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let patterns = FORMATS
        .iter()
        .map(|format| format.prefix)
        .chain(GRAMMARS)
        .chain(assignment::NAME_ENDINGS);
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .kind(Some(AhoCorasickKind::DFA))
        .build(patterns)
        .ok()
});

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// Per class of letters, the last run that was measured: `from..end`.
    runs: [(usize, usize); Body::COUNT],
    /// From here on there is no footer: remembered, so that it is searched in vain once.
    no_pem_end_from: usize,
}

impl Scanner<'_> {
    fn scan(mut self) -> Vec<SecretHit> {
        let mut hits = Vec::new();
        // A few dozen constant patterns always build; a test says so.
        let Some(anchors) = &*ANCHORS else {
            return hits;
        };
        let mut free_from = 0;
        for anchor in anchors.find_iter(self.text) {
            let (at, after) = (anchor.start(), anchor.end());
            if at < free_from {
                continue;
            }
            let hit = match anchor.pattern().as_usize() {
                PEM => self.pem(at, after),
                JWT => self.jwt(at),
                BEARER => self.bearer(at, after),
                BASIC => self.basic(at, after),
                URL => self.url_password(at, after),
                n => match FORMATS.get(n) {
                    Some(format) => self.format(format, at),
                    None => self.assigned(at, after),
                },
            };
            if let Some(hit) = hit
                && hit.start >= free_from
                && hit.start < hit.end
            {
                free_from = hit.end;
                hits.push(hit);
            }
        }
        hits
    }

    /// Where the run of `body` letters that begins at `from` ends.
    fn run_end(&mut self, body: Body, from: usize) -> usize {
        let known = &mut self.runs[body as usize];
        if !(known.0..known.1).contains(&from) {
            let length = self.bytes[from..]
                .iter()
                .position(|&b| !body.has(b))
                .unwrap_or(self.bytes.len() - from);
            *known = (from, from + length);
        }
        known.1
    }

    /// Whether something may begin at `at`: no letter or digit stands before it, except the letter
    /// of a JSON escape such as `\n`.
    fn begins_word(&self, at: usize) -> bool {
        match self.bytes[..at] {
            [] => true,
            [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
            [.., last] => !last.is_ascii_alphanumeric(),
        }
    }

    fn format(&mut self, format: &Format, at: usize) -> Option<SecretHit> {
        let body = at + format.prefix.len();
        if !self.bytes[at..].starts_with(format.prefix.as_bytes()) || !self.begins_word(at) {
            return None;
        }
        let end = self.run_end(format.body, body);
        let length = end - body;
        if length < format.min || length > format.max {
            return None;
        }
        // A window is enough: a key without a digit among so many letters is no key.
        let window = &self.bytes[body..end.min(body + 256)];
        if format.digit && !window.iter().any(u8::is_ascii_digit) {
            return None;
        }
        // The alphabet of the body may be narrower than a word (`AKIA` and sixteen capitals).
        if format.max != usize::MAX && self.bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            return None;
        }
        Some(SecretHit {
            kind: format.kind,
            start: at,
            end,
        })
    }

    fn pem(&mut self, at: usize, after: usize) -> Option<SecretHit> {
        const DASHES: &[u8] = b"-----";
        let label = &self.bytes[after..self.bytes.len().min(after + 64)];
        let label = &label[..memmem::find(label, DASHES)?];
        memmem::find(label, b"PRIVATE KEY")?;
        let body = after + label.len() + DASHES.len();
        let footer = if body < self.no_pem_end_from {
            memmem::find(&self.bytes[body..], b"-----END ").map(|n| body + n + b"-----END ".len())
        } else {
            None
        };
        let end = match footer {
            Some(footer) => {
                let line = &self.bytes[footer..self.bytes.len().min(footer + 64)];
                memmem::find(line, DASHES).map_or(footer, |n| footer + n + DASHES.len())
            }
            // Cut short: everything that can be part of it, JSON's escaped line ends included.
            None => {
                self.no_pem_end_from = self.no_pem_end_from.min(body);
                body + self.bytes[body..]
                    .iter()
                    .position(|&b| !(Body::Token68.has(b) || b.is_ascii_whitespace() || b == b'\\'))
                    .unwrap_or(self.bytes.len() - body)
            }
        };
        Some(SecretHit {
            kind: "private_key",
            start: at,
            end,
        })
    }

    /// `header.payload.signature`, where header and payload are JSON objects in base64 (`eyJ` is
    /// `{"`), or the five parts of an encrypted token.
    fn jwt(&mut self, at: usize) -> Option<SecretHit> {
        if !self.bytes[at..].starts_with(b"eyJ") || !self.begins_word(at) {
            return None;
        }
        if at > 0 && Body::Dotted.has(self.bytes[at - 1]) && self.bytes[at - 1] != b'n' {
            return None;
        }
        let end = self.run_end(Body::Dotted, at);
        let mut parts = self.text[at..end].splitn(6, '.');
        let (header, payload) = (parts.next()?, parts.next()?);
        let encrypted = parts.count() == 3;
        (header.len() >= 10 && (encrypted || (payload.starts_with("eyJ") && payload.len() >= 6)))
            .then_some(SecretHit {
                kind: "jwt",
                start: at,
                end,
            })
    }

    /// `Bearer TOKEN` outside of a header: only what cannot be a word of a sentence.
    fn bearer(&mut self, at: usize, after: usize) -> Option<SecretHit> {
        let (start, end) = self.after_scheme(at, after)?;
        let token = &self.bytes[start..end];
        let random =
            token[..token.len().min(256)].iter().any(u8::is_ascii_digit) || token.len() >= 32;
        (token.len() >= 8 && random).then_some(SecretHit {
            kind: "bearer_token",
            start,
            end,
        })
    }

    /// `Basic BASE64`: only what decodes to `user:password`.
    fn basic(&mut self, at: usize, after: usize) -> Option<SecretHit> {
        let (start, end) = self.after_scheme(at, after)?;
        let encoded = self.text[start..end].trim_end_matches('=');
        if !(4..=1024).contains(&encoded.len()) {
            return None;
        }
        let pair = base64::engine::general_purpose::STANDARD_NO_PAD
            .decode(encoded)
            .ok()?;
        (pair.contains(&b':') && std::str::from_utf8(&pair).is_ok()).then_some(SecretHit {
            kind: "basic_credentials",
            start,
            end,
        })
    }

    fn after_scheme(&mut self, at: usize, after: usize) -> Option<(usize, usize)> {
        if !self.begins_word(at) {
            return None;
        }
        let blanks = self.bytes[after..]
            .iter()
            .take(4)
            .take_while(|&&b| matches!(b, b' ' | b'\t'))
            .count();
        let start = after + blanks;
        if blanks == 0 || start >= self.bytes.len() {
            return None;
        }
        Some((start, self.run_end(Body::Token68, start)))
    }

    /// The password in `scheme://user:password@host`, or a long user name that is a token itself.
    fn url_password(&mut self, at: usize, after: usize) -> Option<SecretHit> {
        if at == 0 || !self.bytes[at - 1].is_ascii_alphanumeric() {
            return None;
        }
        let authority = &self.bytes[after..self.bytes.len().min(after + 1024)];
        let length = authority
            .iter()
            .position(|&b| {
                b.is_ascii_whitespace()
                    || matches!(
                        b,
                        b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`'
                    )
            })
            .unwrap_or(authority.len());
        let end = after + memchr::memrchr(b'@', &authority[..length])?;
        if self.text[after..].starts_with(OPEN) {
            return None;
        }
        let start = match memchr::memchr(b':', &self.bytes[after..end]) {
            Some(n) => after + n + 1,
            None => {
                let user = &self.bytes[after..end];
                if user.len() < 20 || !user.iter().any(u8::is_ascii_digit) {
                    return None;
                }
                after
            }
        };
        if assignment::is_placeholder(&self.text[start..end]) {
            return None;
        }
        Some(SecretHit {
            kind: "url_password",
            start,
            end,
        })
    }

    /// A value assigned to a secret name; where the value is a key of a known format, its kind says so.
    fn assigned(&mut self, at: usize, after: usize) -> Option<SecretHit> {
        let value = assignment::value_after(self.text, at, after)?;
        let kind = FORMATS
            .iter()
            .filter(|format| self.bytes[value.start..].starts_with(format.prefix.as_bytes()))
            .find_map(|format| self.format(format, value.start))
            .filter(|inner| inner.end == value.end)
            .map_or(value.kind, |inner| inner.kind);
        Some(SecretHit { kind, ..value })
    }
}

#[cfg(test)]
mod tests;
