//! The inner text of a JSON string, piece by piece.
//!
//! A string with escapes has to be decoded before it can be compared, hashed or read. It may be as
//! large as its message, so nothing here decodes more of it than requested.

/// A piece of a string's inner text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text without escapes.
    Text(&'a str),
    /// An escaped character.
    Escaped(char),
    /// An escaped surrogate without its other half.
    LoneSurrogate(u16),
}

/// Splits a string's inner text into pieces. Makes something of invalid text too, and never
/// panics.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    /// The pieces of `inner`, the text between the quotes.
    pub fn of(inner: &'a str) -> Self {
        Self { rest: inner }
    }

    /// The part not split yet.
    pub fn rest(&self) -> &'a str {
        self.rest
    }

    fn code_unit(&mut self, unit: u16) -> Piece<'a> {
        if let Some(character) = char::from_u32(u32::from(unit)) {
            return Piece::Escaped(character);
        }
        if let Some((low, rest)) = hex(self.rest)
            && let Some(Ok(character)) = char::decode_utf16([unit, low]).next()
        {
            self.rest = rest;
            return Piece::Escaped(character);
        }
        Piece::LoneSurrogate(unit)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let Some(escape) = self.rest.strip_prefix('\\') else {
            let length = memchr::memchr(b'\\', self.rest.as_bytes()).unwrap_or(self.rest.len());
            let (text, rest) = self.rest.split_at(length);
            self.rest = rest;
            return (!text.is_empty()).then_some(Piece::Text(text));
        };
        if let Some((unit, rest)) = hex(self.rest) {
            self.rest = rest;
            return Some(self.code_unit(unit));
        }
        let mut characters = escape.chars();
        let letter = characters.next();
        self.rest = characters.as_str();
        let letter = letter?;
        Some(Piece::Escaped(match letter {
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'f' => '\u{c}',
            'r' => '\r',
            other => other,
        }))
    }
}

/// The unit that `text` starts with as a `\u` escape, and what follows it.
fn hex(text: &str) -> Option<(u16, &str)> {
    let digits = text.strip_prefix("\\u")?;
    let (digits, rest) = digits.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, rest))
}

/// Decodes `inner` until `out` has at least `max` bytes, which it exceeds by less than one character.
/// A lone surrogate becomes U+FFFD. Returns what was not decoded.
pub fn decode<'a>(inner: &'a str, max: usize, out: &mut String) -> &'a str {
    let mut pieces = Pieces::of(inner);
    while out.len() < max {
        match pieces.next() {
            Some(Piece::Text(text)) => {
                let kept = text.ceil_char_boundary(max - out.len());
                out.push_str(&text[..kept]);
                if kept < text.len() {
                    return &inner[inner.len() - pieces.rest().len() - (text.len() - kept)..];
                }
            }
            Some(Piece::Escaped(character)) => out.push(character),
            Some(Piece::LoneSurrogate(_)) => out.push(char::REPLACEMENT_CHARACTER),
            None => break,
        }
    }
    pieces.rest()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(inner: &str) -> String {
        let mut out = String::new();
        assert_eq!(decode(inner, usize::MAX, &mut out), "");
        out
    }

    #[test]
    fn every_escape() {
        assert_eq!(
            decoded(r#"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00é"#),
            "a\"\\/\u{8}\u{c}\n\r\té😀é"
        );
        assert_eq!(
            decoded(r"x\ud800y\udc00\ud83d\u0061"),
            "x\u{fffd}y\u{fffd}\u{fffd}a"
        );
        // Invalid text: no escape, half an escape, no digits.
        for text in ["\\", "\\u", "\\u12", "\\uzzzz", "\\é", "\\u+123"] {
            let _ = decoded(text);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(decoded(&json[1..json.len() - 1]), text);
        }

        #[test]
        fn stops_in_time_and_loses_nothing(text in ".*", max in 0_usize..20) {
            let json = serde_json::to_string(&text).unwrap();
            let mut out = String::new();
            let rest = decode(&json[1..json.len() - 1], max, &mut out);
            prop_assert!(out.len() < max + 4);
            prop_assert!(out.len() >= max.min(text.len()));
            out.push_str(&decoded(rest));
            prop_assert_eq!(out, text);
        }
    }
}
