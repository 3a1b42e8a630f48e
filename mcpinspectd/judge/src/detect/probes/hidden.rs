//! Characters that a text hides from the eye but a model reads.
//!
//! This examines the original text, before folding. Every kind of hidden character has an honest use, and
//! the exemption is for that use, not for a list of products: emoji are joined by zero-width joiners and
//! coloured by variation selectors, the flags of Scotland and Wales are spelled in TAG characters, Persian
//! and Indic scripts need joiners between letters, and a byte-order mark may come first.

use crate::detect::rules::Probe;

/// Most hidden characters to spell out.
const SPELLED_MAX: usize = 64 * 1024;

/// Something hidden in the original text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenText {
    /// What it is.
    pub probe: Probe,
    /// Start, in bytes.
    pub start: usize,
    /// End, in bytes.
    pub end: usize,
}

/// Finds hidden characters in an original text. `found` receives at most one entry per kind.
pub fn find(text: &str, found: &mut Vec<HiddenText>) {
    // Nearly all text is printable ASCII, which one quick pass can tell.
    if text
        .bytes()
        .all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\n' | b'\r' | b'\t'))
    {
        return;
    }
    let mut seen = HiddenCharacters::default();
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
        found.push(HiddenText {
            probe: Probe::VariationSelectors,
            start: seen.selector_start,
            end: seen.selector_end,
        });
    }
    // Right-to-left text is embedded with a balanced pair; an override reorders what follows.
    if seen.overrides > 0 || seen.embeddings != 0 {
        found.push(HiddenText {
            probe: Probe::BidiOverride,
            start: seen.direction_at,
            end: seen.direction_end,
        });
    }
}

/// The number of TAG characters after a black flag that spell one of the three existing flags.
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

/// What one pass over the characters has seen.
#[derive(Default)]
struct HiddenCharacters {
    found: Vec<HiddenText>,
    selectors: usize,
    selector_start: usize,
    selector_end: usize,
    overrides: usize,
    embeddings: isize,
    direction_at: usize,
    direction_end: usize,
}

impl HiddenCharacters {
    fn note(&mut self, probe: Probe, at: usize, c: char) {
        let end = at + c.len_utf8();
        match self.found.iter_mut().find(|hidden| hidden.probe == probe) {
            Some(hidden) => hidden.end = end,
            None => self.found.push(HiddenText {
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

/// What TAG characters and byte-carrying selectors spell, which is ASCII.
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
        .take(SPELLED_MAX)
        .collect();
    (spelled.len() >= 4).then_some(spelled)
}
