//! Encoded payloads.
//!
//! A payload in base64, hex or percent encoding is unreadable for a person, but a model decodes it. A run
//! counts only if it decodes to readable text, which excludes hashes, ids, keys and pictures. The decoded
//! text is then judged like any other text of the subject.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The shortest run to decode.
const ENCODED_MIN: usize = 24;
/// The longest part of a run to decode.
const ENCODED_MAX: usize = 64 * 1024;
/// Most runs of one text to decode.
const ENCODED_RUNS: usize = 16;

/// An encoded run that decodes to readable text.
#[derive(Debug)]
pub struct Decoded {
    /// The encoding.
    pub how: &'static str,
    /// Start of the run in the original text.
    pub start: usize,
    /// Its end.
    pub end: usize,
    /// The decoded text.
    pub text: String,
}

/// Finds runs in base64, hex or percent encoding that decode to readable text.
pub fn find(text: &str) -> Vec<Decoded> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let encoded = |byte: &u8| ENCODED[*byte as usize];
    let mut at = 0;
    // A long enough run has no gap in its first bytes. If there is one, continue after the last gap.
    while let Some(head) = bytes.get(at..at + ENCODED_MIN)
        && found.len() < ENCODED_RUNS
    {
        if let Some(gap) = head.iter().rposition(|byte| !encoded(byte)) {
            at += gap + 1;
            continue;
        }
        let rest = &bytes[at + ENCODED_MIN..];
        let length = ENCODED_MIN + rest.iter().take_while(|byte| encoded(byte)).count();
        let (start, end) = (at, at + length);
        at = end;
        let run = &text[start..end.min(start + ENCODED_MAX)];
        if let Some((how, text)) = decode(run) {
            found.push(Decoded {
                how,
                start,
                end,
                text,
            });
        }
    }
    found
}

/// The bytes that encoded runs consist of.
static ENCODED: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let c = byte as u8;
        table[byte] = c.is_ascii_alphanumeric()
            || matches!(c, b'+' | b'/' | b'=' | b'-' | b'_' | b'%' | b'\\');
        byte += 1;
    }
    table
};

fn decode(run: &str) -> Option<(&'static str, String)> {
    if run.bytes().filter(|byte| *byte == b'%').count() * 6 >= run.len() {
        return readable(percent(run)).map(|text| ("percent", text));
    }
    let escaped = run.replace("\\x", "");
    let digits = escaped.strip_prefix("0x").unwrap_or(&escaped);
    if digits.len().is_multiple_of(2) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return readable(hex(digits)).map(|text| ("hex", text));
    }
    let mixed =
        run.bytes().any(|b| b.is_ascii_uppercase()) && run.bytes().any(|b| b.is_ascii_lowercase());
    if !mixed {
        return None;
    }
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    let trimmed = run.trim_matches(|c| matches!(c, '=' | '%' | '\\'));
    let whole = &trimmed[..trimmed.len() - usize::from(trimmed.len() % 4 == 1)];
    let alphabet = if whole.contains(['-', '_']) {
        &URL_SAFE
    } else {
        &STANDARD
    };
    let bytes = GeneralPurpose::new(alphabet, config).decode(whole).ok()?;
    readable(bytes).map(|text| ("base64", text))
}

fn percent(run: &str) -> Vec<u8> {
    let bytes = run.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = (bytes[at] == b'%')
            .then(|| bytes.get(at + 1..at + 3))
            .flatten();
        match digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
        {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

fn hex(digits: &str) -> Vec<u8> {
    digits
        .as_bytes()
        .chunks_exact(2)
        .filter_map(|pair| {
            std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        })
        .collect()
}

/// The text of some bytes, if they are readable: printable, and mostly letters and blanks.
fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    if text.len() < 12
        || text
            .chars()
            .any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
    {
        return None;
    }
    let (mut letters, mut blanks, mut all) = (0usize, 0usize, 0usize);
    for c in text.chars() {
        all += 1;
        letters += usize::from(c.is_ascii_alphanumeric());
        blanks += usize::from(c == ' ' || c == '/');
    }
    (blanks > 0 && (letters + blanks) * 10 >= all * 8).then_some(text)
}
