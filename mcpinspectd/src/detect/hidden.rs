//! What a text hides from the eye: characters without a glyph, control sequences, encoded payloads.
//!
//! This looks at the original text, before folding. Each kind has an honest use, and that use is
//! what is exempted, not a list of products: emoji are joined by zero-width joiners and coloured by
//! variation selectors, flags of Scotland and Wales are spelled in TAG characters, Persian and Indic
//! scripts need joiners between letters, and a byte-order mark may stand first.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::pack::Probe;

/// Shortest encoded run that is decoded.
const ENCODED_MIN: usize = 24;
/// Longest part of an encoded run that is decoded.
const ENCODED_MAX: usize = 64 * 1024;
/// Most encoded runs of one text that are decoded.
const ENCODED_RUNS: usize = 16;

/// Something hidden at a place of the original text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// What kind.
    pub probe: Probe,
    /// Start in bytes.
    pub start: usize,
    /// End in bytes.
    pub end: usize,
}

/// Looks at one original text. `found` gets at most one entry per kind.
pub fn characters(text: &str, found: &mut Vec<Hidden>) {
    // Plain printable ASCII is nearly everything; one quick pass says so.
    if text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t'))
    {
        return;
    }
    let mut seen = Seen::default();
    let mut before = '\0';
    let mut flag = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '\u{e0000}'..='\u{e007f}' => {
                if flag == 0 {
                    seen.note(Probe::TagCharacters, at, c);
                }
                flag = flag.saturating_sub(1);
            }
            '\u{1f3f4}' => flag = flag_at(&text[at + c.len_utf8()..]),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => seen.direction(at, c),
            '\u{200b}'
            | '\u{2060}'
            | '\u{2061}'..='\u{2064}'
            | '\u{180e}'
            | '\u{115f}'
            | '\u{1160}'
            | '\u{3164}'
            | '\u{ffa0}'
            | '\u{034f}' => {
                seen.note(Probe::InvisibleCharacters, at, c);
            }
            '\u{feff}' if at > 0 => seen.note(Probe::InvisibleCharacters, at, c),
            '\u{200c}' | '\u{200d}' if before.is_ascii_alphanumeric() => {
                seen.note(Probe::InvisibleCharacters, at, c)
            }
            '\u{fe00}'..='\u{fe0e}' | '\u{e0100}'..='\u{e01ef}' => seen.selector(at, c),
            '\u{fe0f}' if before == c => seen.selector(at, c),
            '\u{1b}'
            | '\0'..='\u{8}'
            | '\u{e}'..='\u{1a}'
            | '\u{1c}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}' => {
                seen.note(Probe::TerminalControl, at, c);
            }
            _ => {}
        }
        if !matches!(c, '\u{e0000}'..='\u{e007f}' | '\u{1f3f4}' | '\u{fe0f}') {
            flag = 0;
        }
        before = c;
    }
    found.append(&mut seen.found);
    if seen.selectors >= 4 {
        found.push(Hidden {
            probe: Probe::VariationSelectors,
            start: seen.selector_start,
            end: seen.selector_end,
        });
    }
    // Isolated right-to-left text embeds itself with a balanced pair; an override reorders.
    if seen.overrides > 0 || seen.embeddings != 0 {
        found.push(Hidden {
            probe: Probe::BidiOverride,
            start: seen.direction_at,
            end: seen.direction_end,
        });
    }
}

/// How many TAG characters after a black flag spell one of the three flags that exist.
fn flag_at(rest: &str) -> usize {
    const REGIONS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
    let tags = rest.strip_prefix('\u{fe0f}').unwrap_or(rest);
    let spelled: String = tags
        .chars()
        .take(6)
        .filter_map(|c| char::from_u32((c as u32).checked_sub(0xe0000)?))
        .collect();
    let known = REGIONS
        .iter()
        .any(|region| spelled.strip_prefix(region) == Some("\u{7f}"));
    if known { 6 } else { 0 }
}

#[derive(Default)]
struct Seen {
    found: Vec<Hidden>,
    selectors: usize,
    selector_start: usize,
    selector_end: usize,
    overrides: usize,
    embeddings: isize,
    direction_at: usize,
    direction_end: usize,
}

impl Seen {
    fn note(&mut self, probe: Probe, at: usize, c: char) {
        let end = at + c.len_utf8();
        match self.found.iter_mut().find(|hidden| hidden.probe == probe) {
            Some(hidden) => hidden.end = end,
            None => self.found.push(Hidden {
                probe,
                start: at,
                end,
            }),
        }
    }

    fn selector(&mut self, at: usize, c: char) {
        if self.selectors == 0 || at > self.selector_end {
            self.selectors = 0;
            self.selector_start = at;
        }
        self.selectors += 1;
        self.selector_end = at + c.len_utf8();
    }

    fn direction(&mut self, at: usize, c: char) {
        if self.overrides == 0 && self.embeddings == 0 {
            self.direction_at = at;
        }
        self.direction_end = at + c.len_utf8();
        match c {
            '\u{202d}' | '\u{202e}' => self.overrides += 1,
            '\u{202a}' | '\u{202b}' | '\u{2066}'..='\u{2068}' => self.embeddings += 1,
            _ => self.embeddings -= 1,
        }
    }
}

/// TAG characters and byte-carrying selectors spell ASCII; returns what they spell.
pub fn spelled(text: &str) -> Option<String> {
    let spelled: String = text
        .chars()
        .filter_map(|c| match c {
            '\u{e0020}'..='\u{e007e}' => char::from_u32(c as u32 - 0xe0000),
            '\u{e0100}'..='\u{e01ef}' => {
                char::from_u32(c as u32 - 0xe0100 + 16).filter(char::is_ascii_graphic)
            }
            _ => None,
        })
        .take(ENCODED_MAX)
        .collect();
    (spelled.len() >= 4).then_some(spelled)
}

/// A payload that decoded to readable text.
#[derive(Debug)]
pub struct Decoded {
    /// How it was encoded.
    pub how: &'static str,
    /// Start of the encoded run in the original text.
    pub start: usize,
    /// Its end.
    pub end: usize,
    /// What it says.
    pub text: String,
}

/// Finds base64, hex and percent-encoded runs that decode to readable text.
pub fn payloads(text: &str) -> Vec<Decoded> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let encoded = |byte: &u8| ENCODED[*byte as usize];
    let mut at = 0;
    // A run that is long enough has no gap in its first bytes: the last one there is where to go on.
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

/// The text, when it is one: printable, mostly letters and blanks.
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
