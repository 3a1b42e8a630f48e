//! Letters that look like others, and characters that show nothing.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// What a letter comes down to.
pub(super) enum Base {
    /// A Latin letter or digit, with or without marks.
    Latin(char),
    /// A letter of another script that looks like this one.
    LookAlike(char),
    /// Neither.
    Other,
}

/// The ASCII letter that `c` is a variant of, or that it looks like.
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

/// 0: none; below 0x80: the base letter; with the high bit: the letter that it looks like.
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
            // The dotless i of Turkish and its kin are Latin letters and no disguise.
            let disguise = if c < '\u{250}' { 0 } else { 0x80 };
            return look.to_ascii_lowercase() as u8 | disguise;
        }
    }
    0
}

/// Characters that show nothing: what a model reads and a person does not see.
pub fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}')
}
