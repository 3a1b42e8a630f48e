//! A position in JSON text, and how to move it.
//!
//! Everything that reads a message without keeping a tree of it is built on this: messages and their parts, the
//! evidence in the first bytes of a stream, the trees and the canonical texts that have budgets of their own. A
//! parser that keeps a byte for each open bracket, or a copy of each string with an escape, lets a message of 64
//! MiB cost twice that. Here nothing is copied and nothing recurses.
//!
//! There are two ways past a value. [`Cursor::check`] moves past valid JSON only. [`Cursor::skip`] counts
//! brackets: it is for text that was checked before, or that may end anywhere. Both distinguish text that
//! ends too early from text that is something else.

mod check;

use std::borrow::Cow;
use std::ops::Range;

/// Why a text is not a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It ends inside the value.
    Truncated,
    /// It is something else.
    Invalid,
}

/// A value with values in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl Container {
    /// The brackets around it.
    #[inline]
    fn brackets(self) -> (u8, u8) {
        match self {
            Self::Array => (b'[', b']'),
            Self::Object => (b'{', b'}'),
        }
    }
}

/// A string in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Where its inner text is, in bytes, without the quotes.
    pub inner: Range<usize>,
    /// Whether the inner text contains an escape.
    pub escaped: bool,
}

/// A position in JSON text.
///
/// Its small steps are always inlined: a caller that has looked at the next byte need not look again.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Bytes of the text before this position.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not blank. Moves to it.
    ///
    /// # Errors
    /// Only blanks follow.
    #[inline(always)]
    pub fn peek(&mut self) -> Result<u8, Flaw> {
        match self.text.get(self.at) {
            // Messages on the wire hardly ever have blanks.
            Some(&byte) if byte > b' ' => Ok(byte),
            _ => self.peek_after_blanks(),
        }
    }

    fn peek_after_blanks(&mut self) -> Result<u8, Flaw> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(Flaw::Truncated)
    }

    /// Moves past `wanted`, if that is the next byte.
    ///
    /// # Errors
    /// Only blanks follow.
    #[inline(always)]
    pub fn accept(&mut self, wanted: u8) -> Result<bool, Flaw> {
        let found = self.peek()? == wanted;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Moves past `wanted`.
    ///
    /// # Errors
    /// Something else is next.
    #[inline(always)]
    pub fn expect(&mut self, wanted: u8) -> Result<(), Flaw> {
        match self.accept(wanted)? {
            true => Ok(()),
            false => Err(Flaw::Invalid),
        }
    }

    /// Makes sure that only blanks follow.
    ///
    /// # Errors
    /// Something else follows.
    pub fn end(&mut self) -> Result<(), Flaw> {
        match self.peek() {
            Ok(_) => Err(Flaw::Invalid),
            Err(_) => Ok(()),
        }
    }

    /// Moves into a container. Returns whether there is something in it; if not, moves past it.
    ///
    /// # Errors
    /// Something else is next.
    #[inline(always)]
    pub fn enter(&mut self, container: Container) -> Result<bool, Flaw> {
        let (open, close) = container.brackets();
        self.expect(open)?;
        Ok(!self.accept(close)?)
    }

    /// Moves from the end of a value in a container to the next one, or to its key. Returns whether there is one;
    /// if not, moves past the container.
    ///
    /// # Errors
    /// Something else is next.
    #[inline]
    pub fn more(&mut self, container: Container) -> Result<bool, Flaw> {
        let (_, close) = container.brackets();
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(Flaw::Invalid),
        }
    }

    /// Reads an object. `member` receives each key and has to move past its value.
    ///
    /// # Errors
    /// There is no object here; or what `member` returns.
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        let mut more = self.enter(Container::Object)?;
        while more {
            let key = self.string()?;
            self.expect(b':')?;
            member(self, &key)?;
            more = self.more(Container::Object)?;
        }
        Ok(())
    }

    /// Reads an array. `element` has to move past each value.
    ///
    /// # Errors
    /// There is no array here; or what `element` returns.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), Flaw>,
    ) -> Result<(), Flaw> {
        let mut more = self.enter(Container::Array)?;
        while more {
            element(self)?;
            more = self.more(Container::Array)?;
        }
        Ok(())
    }

    /// Reads a string: borrowed, or decoded if it contains an escape.
    ///
    /// # Errors
    /// There is no string here, or it is not UTF-8.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Flaw> {
        let Quoted { inner, escaped } = self.skip_string()?;
        let read = match escaped {
            // A peer may spell any name with escapes; the parser at the other end accepts that.
            true => serde_json::from_slice(&self.text[inner.start - 1..inner.end + 1]).ok(),
            false => std::str::from_utf8(&self.text[inner])
                .ok()
                .map(Cow::Borrowed),
        };
        read.ok_or(Flaw::Invalid)
    }

    /// Moves past a string. Its contents need not be valid.
    ///
    /// # Errors
    /// There is no string here, or it does not end.
    #[inline(always)]
    pub fn skip_string(&mut self) -> Result<Quoted, Flaw> {
        self.expect(b'"')?;
        let start = self.at;
        let (end, escaped) = string_end(self.text, start).ok_or(Flaw::Truncated)?;
        self.at = end + 1;
        Ok(Quoted {
            inner: start..end,
            escaped,
        })
    }

    /// Moves past a number, `true`, `false` or `null`, or something like it. Returns where it is.
    ///
    /// # Errors
    /// Something else is next.
    #[inline]
    pub fn skip_scalar(&mut self) -> Result<Range<usize>, Flaw> {
        let first = self.peek()?;
        if !matches!(first, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') {
            return Err(Flaw::Invalid);
        }
        let start = self.at;
        let rest = self.text.get(start..).unwrap_or_default();
        let length = rest.iter().position(
            |byte| !matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E'),
        );
        self.at = length.map_or(self.text.len(), |length| start + length);
        Ok(start..self.at)
    }

    /// Moves past a value. It need not be valid: brackets are counted, whatever is in them.
    ///
    /// # Errors
    /// The text ends in the value (also in a number, which could continue), or there is none.
    pub fn skip(&mut self) -> Result<(), Flaw> {
        self.tokens(0, |_| {})
    }

    /// Moves past the rest of a value in which `depth` containers are open, and visits its tokens: brackets,
    /// commas, colons, strings with their quotes, and scalars.
    ///
    /// # Errors
    /// As for [`Self::skip`].
    #[inline]
    pub fn tokens(
        &mut self,
        mut depth: usize,
        mut visit: impl FnMut(Range<usize>),
    ) -> Result<(), Flaw> {
        loop {
            let byte = self.peek()?;
            let start = self.at;
            match byte {
                b'"' => {
                    self.skip_string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    depth += 1;
                }
                b'}' | b']' => {
                    self.at += 1;
                    depth = depth.checked_sub(1).ok_or(Flaw::Invalid)?;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => {
                    self.skip_scalar()?;
                    if self.at == self.text.len() {
                        return Err(Flaw::Truncated);
                    }
                }
            }
            visit(start..self.at);
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

/// The end of the string whose inner text starts at `start`, after the opening quote: the position of
/// the closing quote, and whether there is an escape in between. `None` if the text ends before.
///
/// Finds only the end: the contents need not be valid. Everything that reads JSON text without a
/// parser uses this, so that all of it agrees on where a string ends.
pub fn string_end(text: &[u8], start: usize) -> Option<(usize, bool)> {
    let mut at = start;
    let mut escaped = false;
    loop {
        let found = memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        at += found;
        if text[at] == b'"' {
            return Some((at, escaped));
        }
        escaped = true;
        // Whatever is escaped, it does not end the string.
        at += 2;
    }
}

#[cfg(test)]
mod tests;
