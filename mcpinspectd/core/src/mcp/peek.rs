//! Walks the upper levels of JSON text that may end anywhere.
//!
//! A JSON parser reports nothing about `{"jsonrpc":"2.0","method":"tools/call","params":{"data":"…`
//! until eight mebibytes later. To judge a stream by its start takes the members that are already
//! there. This walker visits the members of an object one by one, skips unwanted values without
//! looking into them, and reports whether it stopped at the end of the text or at something that is
//! not JSON. It is lenient: text that passes need not be valid. It does not recurse: skipping counts
//! brackets.

use std::borrow::Cow;

use super::json;

/// Why the walk ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text ends here, inside the value.
    End,
    /// This is not JSON.
    Invalid,
}

/// A position in JSON text.
pub(super) struct Peek<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Peek<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte of the next value; blanks are skipped.
    pub(super) fn next_byte(&mut self) -> Result<u8, Stop> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Stop::End)
    }

    /// Whether only blanks follow.
    pub(super) fn at_end(&mut self) -> bool {
        self.next_byte().is_err()
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Stop> {
        if self.next_byte()? == wanted {
            self.at += 1;
            Ok(())
        } else {
            Err(Stop::Invalid)
        }
    }

    /// Walks the object that starts here. `member` receives each key and must consume its value.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'{')?;
        if self.next_byte()? == b'}' {
            self.at += 1;
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, &key)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Stop::Invalid),
            }
        }
    }

    /// Walks the array that starts here. `element` must consume each value.
    pub(super) fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        self.expect(b'[')?;
        if self.next_byte()? == b']' {
            self.at += 1;
            return Ok(());
        }
        loop {
            element(self)?;
            match self.next_byte()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(Stop::Invalid),
            }
        }
    }

    /// Reads the string that starts here.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, Stop> {
        self.expect(b'"')?;
        let start = self.at;
        let escaped = self.skip_string_rest()?;
        let quoted = self.text.get(start - 1..self.at).ok_or(Stop::Invalid)?;
        if escaped {
            // A peer may spell any name with escapes; the parser at the other end accepts that.
            serde_json::from_slice(quoted)
                .map(Cow::Owned)
                .map_err(|_| Stop::Invalid)
        } else {
            let inner = quoted.get(1..quoted.len() - 1).ok_or(Stop::Invalid)?;
            std::str::from_utf8(inner)
                .map(Cow::Borrowed)
                .map_err(|_| Stop::Invalid)
        }
    }

    /// Skips past the closing quote. Returns whether there was an escape.
    fn skip_string_rest(&mut self) -> Result<bool, Stop> {
        match json::string_end(self.text, self.at) {
            Some((end, escaped)) => {
                self.at = end + 1;
                Ok(escaped)
            }
            None => {
                self.at = self.text.len();
                Err(Stop::End)
            }
        }
    }

    /// Skips the value that starts here.
    pub(super) fn skip(&mut self) -> Result<(), Stop> {
        let mut depth = 0_usize;
        loop {
            match self.next_byte()? {
                b'"' => {
                    self.at += 1;
                    self.skip_string_rest()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                    continue;
                }
                b'}' | b']' => {
                    self.at += 1;
                    depth = depth.checked_sub(1).ok_or(Stop::Invalid)?;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => self.skip_word()?,
                _ => return Err(Stop::Invalid),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Skips a number, `true`, `false` or `null`.
    fn skip_word(&mut self) -> Result<(), Stop> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(
            |byte| !matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E'),
        );
        self.at += length.ok_or(Stop::End)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
    use super::*;

    fn keys(text: &[u8]) -> (Vec<String>, Result<(), Stop>) {
        let mut keys = Vec::new();
        let end = Peek::new(text).object(|peek, key| {
            keys.push(key.to_owned());
            peek.skip()
        });
        (keys, end)
    }

    #[test]
    fn visits_members_and_skips_their_values() {
        let (found, end) =
            keys(br#" { "a" : {"x":[1,{"y":"}]\""}]} , "b":-1.5e3,"c":null,"d":"\\" } "#);
        assert_eq!(found, ["a", "b", "c", "d"]);
        assert_eq!(end, Ok(()));
        assert_eq!(keys(b"{}"), (vec![], Ok(())));
    }

    #[test]
    fn text_cut_anywhere_ends_and_is_never_invalid() {
        let text = br#"{"a":{"x":[1,"\u00e9\\"]},"\u0062":true,"c":"z"}"#;
        for cut in 0..text.len() {
            let (found, end) = keys(&text[..cut]);
            assert_eq!(end, Err(Stop::End), "cut at {cut}");
            assert!(found.len() <= 3);
        }
        assert_eq!(keys(text).0, ["a", "b", "c"]);
    }

    #[test]
    fn text_that_is_not_json_is_invalid() {
        for text in [
            &b"[1]"[..],
            b"{a:1}",
            b"{\"a\" 1}",
            b"{\"a\":}",
            b"{\"a\":1 2}",
            b"{\"a\":?}",
        ] {
            assert_eq!(
                keys(text).1,
                Err(Stop::Invalid),
                "{}",
                String::from_utf8_lossy(text)
            );
        }
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = [vec![b'['; 1 << 20], vec![b']'; 1 << 20]].concat();
        let mut peek = Peek::new(&deep);
        assert_eq!(peek.skip(), Ok(()));
        assert!(peek.at_end());
    }

    #[test]
    fn walks_arrays() {
        let mut strings = Vec::new();
        let mut peek = Peek::new(br#"["a", "\u0041"]"#);
        peek.array(|peek| {
            strings.push(peek.string()?.into_owned());
            Ok(())
        })
        .unwrap();
        assert_eq!(strings, ["a", "A"]);
        assert_eq!(Peek::new(b"[]").array(|_| Err(Stop::Invalid)), Ok(()));
    }
}
