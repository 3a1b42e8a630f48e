//! Makes text harmless for whatever shows it.
//!
//! A terminal obeys escape sequences, a bidi override shows a file name backwards, TAG characters hide a
//! sentence that a model reads and a person does not, and a notification daemon interprets markup. Instead
//! of listing attacks, this spells out everything that has *no glyph of its own* as `\u{..}`: controls,
//! format characters, default-ignorable code points, line and paragraph separators, blank fillers, private
//! use and noncharacters. What remains is what the eye sees.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Marks a cut.
const MORE: char = '…';

/// `text` with everything invisible or active spelled out (`\n`, `\t`, `\r`, else `\u{1b}`), cut to at most
/// `max_chars` characters of output. After a cut the last character is `…`; an escape is never cut in half.
/// The result has no line break.
pub fn printable(text: &str, max_chars: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max_chars.saturating_mul(2)));
    let mut used = 0;
    // The length up to which the output has room for the ellipsis.
    let mut fallback = 0;
    let mut spelled = String::new();
    for c in text.chars() {
        spelled.clear();
        spell(c, &mut spelled);
        // Escapes are ASCII, so their bytes are characters; a plain character counts as one.
        let width = if spelled.len() == c.len_utf8() {
            1
        } else {
            spelled.len()
        };
        if used + width > max_chars {
            out.truncate(fallback);
            if max_chars > 0 {
                out.push(MORE);
            }
            return out;
        }
        out.push_str(&spelled);
        used += width;
        if used < max_chars {
            fallback = out.len();
        }
    }
    out
}

/// `text` for a reader that interprets markup (notification bodies, XML): like [`printable`] without a
/// bound, and with `& < > " '` as entities. Line breaks are spelled out too, so that text cannot add a
/// paragraph that looks like the program's own words.
pub fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => spell(c, &mut out),
        }
    }
    out
}

/// `text` as one line with nothing hidden and without a bound; borrowed if it already is that.
pub fn plain(text: &str) -> Cow<'_, str> {
    // Most text is plain ASCII, which is quick to check.
    let harmless = text.bytes().all(|b| matches!(b, b' '..=b'~'));
    if harmless || !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        spell(c, &mut out);
    }
    Cow::Owned(out)
}

fn spell(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_hidden(c) => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Whether `c` is invisible on its own, or affects whatever shows it.
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    matches!(u32::from(c),
        0x80..=0x9f                     // C1 controls
        | 0xad                          // soft hyphen
        | 0x34f                         // combining grapheme joiner
        | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 // Arabic and Syriac format
        | 0x115f..=0x1160               // Hangul fillers
        | 0x17b4..=0x17b5               // Khmer inherent vowels
        | 0x180b..=0x180f               // Mongolian selectors and vowel separator
        | 0x200b..=0x200f               // zero-width space and joiners, direction marks
        | 0x2028..=0x202e               // line and paragraph separators, bidi embeddings
        | 0x2060..=0x206f               // word joiner, invisible operators, bidi isolates
        | 0x2800                        // blank Braille pattern
        | 0x3164                        // Hangul filler
        | 0xe000..=0xf8ff               // private use
        | 0xfdd0..=0xfdef               // noncharacters
        | 0xfe00..=0xfe0f               // variation selectors
        | 0xfeff                        // byte order mark
        | 0xffa0                        // half-width Hangul filler
        | 0xfff0..=0xfffb               // unassigned ignorables, interlinear annotation
        | 0x110bd | 0x110cd             // Kaithi number signs
        | 0x13430..=0x1343f             // hieroglyph format controls
        | 0x1bca0..=0x1bca3             // shorthand format controls
        | 0x1d173..=0x1d17a             // musical format controls
        | 0xe0000..=0x10ffff            // TAG characters, selectors, private use planes
    ) || (u32::from(c) & 0xfffe) == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_text_is_spelled_out() {
        assert_eq!(printable("a\x1b[31mb", 99), "a\\u{1b}[31mb");
        assert_eq!(printable("a\nb\tc\r", 99), "a\\nb\\tc\\r");
        assert_eq!(
            printable("x\u{202e}y\u{200b}z", 99),
            "x\\u{202e}y\\u{200b}z"
        );
        assert_eq!(printable("\u{e0041}", 99), "\\u{e0041}");
        assert_eq!(printable("naïve 漢字 🙂 \\", 99), "naïve 漢字 🙂 \\");
    }

    #[test]
    fn the_bound_counts_output_characters() {
        assert_eq!(printable("abc", 0), "");
        assert_eq!(printable("abc", 1), "…");
        assert_eq!(printable("abc", 2), "a…");
        assert_eq!(printable("abc", 3), "abc");
        assert_eq!(printable("abc", 4), "abc");
        // The escape takes six characters. It does not fit next to the ellipsis, so all of it is cut.
        assert_eq!(printable("a\x1bb", 6), "a…");
        assert_eq!(printable("a\x1bb", 8), "a\\u{1b}b");
        assert_eq!(printable("é\x1b", 7), "é\\u{1b}");
    }

    #[test]
    fn markup_has_no_power() {
        assert_eq!(
            markup("<b>&\"'\u{1b}</b>\n"),
            "&lt;b&gt;&amp;&quot;&#39;\\u{1b}&lt;/b&gt;\\n"
        );
    }

    /// Compares the table above with the Unicode tables of the `regex` crate.
    #[test]
    fn no_invisible_character_of_unicode_is_missed() {
        let invisible = regex::Regex::new(
            r"^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Default_Ignorable_Code_Point}]$",
        )
        .unwrap();
        let visible = regex::Regex::new(r"^[\p{L}\p{N}\p{P}\p{Sm}\p{Sc}\p{Sk}\p{Zs}]$").unwrap();
        let fillers = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];
        let mut buffer = [0u8; 4];
        for c in '\0'..=char::MAX {
            let s = &*c.encode_utf8(&mut buffer);
            if invisible.is_match(s) {
                assert!(is_hidden(c), "U+{:04X} is invisible", u32::from(c));
            } else if visible.is_match(s) && !fillers.contains(&c) {
                assert!(!is_hidden(c), "U+{:04X} is visible", u32::from(c));
            }
        }
    }

    proptest! {
        #[test]
        fn output_is_harmless_bounded_and_stable(text in "\\PC*|.*|(?s:.*)", max in 0usize..80) {
            let shown = printable(&text, max);
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert!(shown.chars().count() <= max);
            prop_assert_eq!(&printable(&shown, max), &shown);
            let marked = markup(&text);
            prop_assert!(!marked.chars().any(|c| is_hidden(c) || matches!(c, '<' | '>' | '"' | '\'')));
            let spelled = plain(&text);
            prop_assert!(!spelled.chars().any(is_hidden));
            prop_assert_eq!(plain(&spelled), spelled.as_ref());
        }

        #[test]
        fn any_unicode_is_harmless(text in any::<String>()) {
            prop_assert!(!printable(&text, 1000).chars().any(is_hidden));
        }
    }
}
