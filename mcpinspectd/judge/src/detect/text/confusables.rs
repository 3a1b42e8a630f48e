//! Letters that look like other letters, and invisible characters.
//!
//! An attacker can spell a word with Cyrillic letters, with accents or with zero-width characters
//! between its letters; a model still reads the word. Unicode's tables say what a letter is based on
//! and what it looks like. Looking up a letter there is slow, so the answers for the scripts most often
//! mixed with Latin are kept in a table.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What remains of a letter when it is folded.
pub(super) enum Base {
    /// A Latin letter or digit, with or without marks.
    Latin(char),
    /// A letter of another script that looks like this one.
    LookAlike(char),
    /// A letter with no ASCII counterpart.
    Other,
}

/// The ASCII letter that `c` is a variant of or looks like.
pub(super) fn base_letter(c: char) -> Base {
    static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0x80..0x600)
            .map(|c| char::from_u32(c).map_or(0, look_up))
            .collect()
    });
    let entry = match (c as u32)
        .checked_sub(0x80)
        .and_then(|index| TABLE.get(index as usize))
    {
        Some(entry) => *entry,
        None => look_up(c),
    };
    match entry {
        0 => Base::Other,
        letter if letter >= 0x80 => Base::LookAlike((letter & 0x7f) as char),
        letter => Base::Latin(letter as char),
    }
}

/// The table's entry for `c`: 0 for none, the base letter, or with the high bit set the letter that it
/// looks like.
fn look_up(c: char) -> u8 {
    let mut decomposed = std::iter::once(c)
        .nfkd()
        .filter(|part| !is_combining_mark(*part));
    let base = decomposed.next();
    if let (Some(base), None) = (base, decomposed.next()) {
        if base.is_ascii_alphanumeric() {
            return base.to_ascii_lowercase() as u8;
        }
        let mut buffer = [0; 4];
        let mut looks =
            unicode_security::confusable_detection::skeleton(base.encode_utf8(&mut buffer));
        if let (Some(look), None) = (looks.next(), looks.next())
            && look.is_ascii_alphanumeric()
        {
            // The Turkish dotless i and similar letters are Latin letters, not a disguise.
            let disguise = if c < '\u{250}' { 0 } else { 0x80 };
            return look.to_ascii_lowercase() as u8 | disguise;
        }
    }
    0
}

/// Whether `c` is invisible: a model reads it but a person does not see it.
pub fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}
