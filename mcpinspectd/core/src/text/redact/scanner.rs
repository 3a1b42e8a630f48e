//! Finds secrets by anchors.
//!
//! One Aho-Corasick pass finds rare anchors; what surrounds an anchor is then checked by hand. Each check
//! looks at a bounded window, or at a run of letters whose end is remembered, so that no input (repeated
//! prefixes, unclosed quotes or PEM blocks) makes the whole slower than linear.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use memchr::memmem;

use super::assignment;
use super::formats::{Body, FORMATS, Format};
use super::hit::{OPEN, SecretHit};

/// Numbers of the anchors: formats come first, then these.
const PEM: usize = FORMATS.len();
const JWT: usize = PEM + 1;
const BEARER: usize = PEM + 2;
const BASIC: usize = PEM + 3;
const URL: usize = PEM + 4;

/// Anchors of formats with a grammar of their own. The endings of secret names come after them.
const GRAMMARS: [&str; 5] = ["-----BEGIN ", "eyJ", "bearer", "basic", "://"];

pub(super) static ANCHORS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
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

pub(super) struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// For each class of letters, the last run that was measured: `from..end`.
    runs: [(usize, usize); Body::COUNT],
    /// From here on there is no footer. Remembered, so that a futile search is not repeated.
    no_pem_end_from: usize,
}

impl<'t> Scanner<'t> {
    /// A scanner of `text`.
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            runs: [(0, 0); Body::COUNT],
            no_pem_end_from: usize::MAX,
        }
    }

    /// Finds the secrets, in order and without overlaps.
    pub(super) fn scan(mut self) -> Vec<SecretHit> {
        let mut hits = Vec::new();
        // A few dozen constant patterns always build; a test checks that.
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

    /// The end of the run of `body` letters that starts at `from`.
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

    /// Whether a secret may start at `at`: the preceding character is not a letter or digit, unless it is the
    /// letter of a JSON escape such as `\n`.
    fn begins_word(&self, at: usize) -> bool {
        match self.bytes[..at] {
            [] => true,
            [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
            [.., last] => !last.is_ascii_alphanumeric(),
        }
    }

    /// A key of a known format whose prefix is at `at`.
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
        // A window is enough: a key has a digit among that many letters.
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

    /// A private key in PEM, whose header starts at `at`.
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
            // Cut short: take everything that can be part of it, including JSON's escaped line ends.
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

    /// `Bearer TOKEN` outside a header, if the token cannot be a word of a sentence.
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

    /// `Basic BASE64`, if it decodes to `user:password`.
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

    /// The run of letters after an authentication scheme and blanks.
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

    /// The password in `scheme://user:password@host`, or a long user name that is itself a token.
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
        // Already masked: the colon may belong to the placeholder.
        if self.text[after..end].contains(OPEN) {
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

    /// A value that is assigned to a secret name. If the value is a key of a known format, that is its kind.
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
