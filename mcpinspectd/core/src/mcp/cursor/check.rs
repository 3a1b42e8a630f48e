//! Moves a cursor past valid JSON only.
//!
//! It may nest as deeply as it likes: an open container costs one bit.

use super::{Container, Cursor, Flaw, Quoted};

/// The open containers, as bits: whether each is an object. The innermost 64 are in `top`.
#[derive(Default)]
struct Open {
    depth: usize,
    top: u64,
    below: Vec<u64>,
}

impl Open {
    #[inline]
    fn push(&mut self, container: Container) {
        if self.depth.is_multiple_of(64) && self.depth > 0 {
            self.below.push(self.top);
        }
        self.depth += 1;
        self.top = self.top << 1 | u64::from(container == Container::Object);
    }

    #[inline]
    fn pop(&mut self) {
        self.depth -= 1;
        self.top >>= 1;
        if self.depth.is_multiple_of(64) {
            self.top = self.below.pop().unwrap_or_default();
        }
    }

    /// The innermost one.
    #[inline]
    fn innermost(&self) -> Option<Container> {
        (self.depth > 0).then_some(match self.top & 1 {
            1 => Container::Object,
            _ => Container::Array,
        })
    }
}

impl Cursor<'_> {
    /// Moves past a valid value.
    ///
    /// # Errors
    /// There is none.
    pub fn check(&mut self) -> Result<(), Flaw> {
        let mut open = Open::default();
        loop {
            match self.peek()? {
                b'{' => {
                    if self.enter(Container::Object)? {
                        open.push(Container::Object);
                        self.check_key()?;
                        continue;
                    }
                }
                b'[' => {
                    if self.enter(Container::Array)? {
                        open.push(Container::Array);
                        continue;
                    }
                }
                b'"' => {
                    self.check_string()?;
                }
                _ => self.check_scalar()?,
            }
            loop {
                let Some(container) = open.innermost() else {
                    return Ok(());
                };
                if self.more(container)? {
                    if container == Container::Object {
                        self.check_key()?;
                    }
                    break;
                }
                open.pop();
            }
        }
    }

    /// Moves past a valid key and its colon.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn check_key(&mut self) -> Result<Quoted, Flaw> {
        let key = self.check_string()?;
        self.expect(b':')?;
        Ok(key)
    }

    /// Moves past a valid string.
    ///
    /// # Errors
    /// There is none.
    #[inline]
    pub fn check_string(&mut self) -> Result<Quoted, Flaw> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.string_rest()?;
        Ok(Quoted {
            inner: start..self.at - 1,
            escaped,
        })
    }

    /// Moves past the rest of a string. Returns whether it contains an escape.
    fn string_rest(&mut self) -> Result<bool, Flaw> {
        let mut escaped = false;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            self.at += special(rest).ok_or(Flaw::Truncated)?;
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(Flaw::Invalid),
            }
            escaped = true;
        }
    }

    /// Moves past a valid number, `true`, `false` or `null`.
    ///
    /// # Errors
    /// There is none.
    pub fn check_scalar(&mut self) -> Result<(), Flaw> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => Err(Flaw::Invalid),
        }
    }

    /// Moves past an escape.
    fn escape(&mut self) -> Result<(), Flaw> {
        let letter = self.text.get(self.at + 1).ok_or(Flaw::Truncated)?;
        self.at += 2;
        match letter {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4);
                let digits = digits.ok_or(Flaw::Truncated)?;
                self.at += 4;
                match digits.iter().all(u8::is_ascii_hexdigit) {
                    true => Ok(()),
                    false => Err(Flaw::Invalid),
                }
            }
            _ => Err(Flaw::Invalid),
        }
    }

    /// Moves past a number.
    fn number(&mut self) -> Result<(), Flaw> {
        self.at += usize::from(self.text.get(self.at) == Some(&b'-'));
        match self.digits() {
            0 => return Err(Flaw::Invalid),
            // Zero is never the first of several digits.
            length if length > 1 && self.text.get(self.at - length) == Some(&b'0') => {
                return Err(Flaw::Invalid);
            }
            _ => {}
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            if self.digits() == 0 {
                return Err(Flaw::Invalid);
            }
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.text.get(self.at), Some(b'+' | b'-')));
            if self.digits() == 0 {
                return Err(Flaw::Invalid);
            }
        }
        Ok(())
    }

    /// Moves past digits. Returns how many there were.
    fn digits(&mut self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += length;
        length
    }

    /// Moves past `word`: `true`, `false` or `null`.
    fn word(&mut self, word: &[u8]) -> Result<(), Flaw> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        match word.starts_with(rest) {
            true => Err(Flaw::Truncated),
            false => Err(Flaw::Invalid),
        }
    }
}

/// The position of the first byte that is not an ordinary part of a string: a quote, a backslash, or a
/// control character.
#[inline]
fn special(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut at = 0;
    // Eight bytes at once: a byte below `n` borrows from its own highest bit when `n` is subtracted.
    while let Some(eight) = text.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
        let bytes = u64::from_le_bytes(eight);
        let control = bytes.wrapping_sub(ONES * 0x20) & !bytes;
        let quote = bytes ^ (ONES * u64::from(b'"'));
        let quote = quote.wrapping_sub(ONES) & !quote;
        let backslash = bytes ^ (ONES * u64::from(b'\\'));
        let backslash = backslash.wrapping_sub(ONES) & !backslash;
        let found = (control | quote | backslash) & HIGH;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = text.get(at..)?;
    let found = rest
        .iter()
        .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')?;
    Some(at + found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn check(text: &str) -> Result<(), Flaw> {
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.check()?;
        cursor.end()
    }

    fn parser(text: &str) -> Result<(), Flaw> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Ok(()),
            Err(error) if error.is_eof() => Err(Flaw::Truncated),
            Err(_) => Err(Flaw::Invalid),
        }
    }

    #[test]
    fn agrees_with_a_parser_on_every_beginning_and_every_wrong_byte() {
        let text = r#" { "a" : [ -0.5e+3 , "x\"\u00e9\\" , true,false,null, {} , [] ],"b\n":"é😀 long enough for two steps" } "#;
        assert_eq!(check(text), Ok(()));
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let text = &text[..cut];
            assert_eq!(check(text), parser(text), "{text}");
        }
        for at in 0..text.len() {
            for byte in (0..0x80_u8).map(char::from) {
                if let (Some(before), Some(after)) = (text.get(..at), text.get(at + 1..)) {
                    let text = format!("{before}{byte}{after}");
                    assert_eq!(check(&text), parser(&text), "{text:?}");
                }
            }
        }
        for text in [
            "01",
            "-",
            "1.",
            "1e",
            "+1",
            "1 2",
            "[1,]",
            "{,}",
            "nul",
            "nulx",
            "\"\\x\"",
            "\"\\u12g4\"",
        ] {
            assert_eq!(check(text), parser(text), "{text}");
        }
    }

    #[test]
    fn depth_costs_a_bit_a_level() {
        let deep = "[{\"a\":".repeat(1 << 20) + "0" + &"}]".repeat(1 << 20);
        assert_eq!(check(&deep), Ok(()));
        assert_eq!(check(&deep[..deep.len() - 1]), Err(Flaw::Truncated));
        assert_eq!(check(&deep.replacen("}]", "]}", 1)), Err(Flaw::Invalid));
        let mut open = Open::default();
        let container = |level: usize| match level.is_multiple_of(3) {
            true => Container::Object,
            false => Container::Array,
        };
        (0..1000).for_each(|level| open.push(container(level)));
        for level in (0..1000).rev() {
            assert_eq!(open.innermost(), Some(container(level)));
            open.pop();
        }
        assert_eq!(open.innermost(), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_parser_on_any_text(text in r#"[\[\]{}":,\\ u0-9eE+.tfn\x01-]{0,24}"#) {
            prop_assert_eq!(check(&text), parser(&text));
        }

        #[test]
        fn finds_the_first_special_byte(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let found = text.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
            prop_assert_eq!(special(&text), found);
        }
    }
}
