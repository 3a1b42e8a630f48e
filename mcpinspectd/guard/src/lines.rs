//! Lines of bounded length, with their newlines.

use std::io::{self, BufRead, BufReader, Read};

/// Bytes to read at a time.
const CHUNK: usize = 64 * 1024;
/// Memory of a long line to keep for the next one.
const RETAINED_CAPACITY: usize = 1 << 20;

/// Reads lines.
pub struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    max: usize,
}

/// What was read.
pub enum Line<'a> {
    /// A line, with its newline unless it is the last one.
    Whole(&'a mut Vec<u8>),
    /// The first bytes of a line that is too long; [`Lines::rest`] returns the rest.
    TooLong(&'a mut Vec<u8>),
    /// There is nothing more.
    End,
}

impl<R: Read> Lines<R> {
    /// Lines of at most `max` bytes.
    pub fn new(from: R, max: usize) -> Self {
        Self {
            from: BufReader::with_capacity(CHUNK, from),
            line: Vec::new(),
            max,
        }
    }

    /// The next line.
    pub fn next(&mut self) -> io::Result<Line<'_>> {
        self.line.clear();
        if self.line.capacity() > RETAINED_CAPACITY {
            self.line = Vec::new();
        }
        // One more for the newline.
        let limit = self.max as u64 + 1;
        let read = (&mut self.from)
            .take(limit)
            .read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(Line::End);
        }
        match self.line.ends_with(b"\n") || read as u64 <= self.max as u64 {
            true => Ok(Line::Whole(&mut self.line)),
            false => Ok(Line::TooLong(&mut self.line)),
        }
    }

    /// Calls `take` with the rest of a line that is too long, piece by piece.
    pub fn rest(&mut self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        loop {
            let bytes = match self.from.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', bytes);
            let length = end.map_or(bytes.len(), |end| end + 1);
            let taken = take(&bytes[..length]);
            self.from.consume(length);
            taken?;
            if end.is_some() || length == 0 {
                return Ok(());
            }
        }
    }

    /// Reads whatever comes, without splitting it into lines.
    pub fn chunk(&mut self, take: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        let bytes = match self.from.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let length = bytes.len();
        let taken = take(bytes);
        self.from.consume(length);
        taken.map(|()| length > 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out bytes in pieces of given sizes.
    struct Pieces(Vec<u8>, Vec<usize>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.pop().unwrap_or(1).clamp(1, into.len());
            let size = size.min(self.0.len());
            into[..size].copy_from_slice(&self.0[..size]);
            self.0.drain(..size);
            Ok(size)
        }
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_however_it_comes(
            text in prop::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..200),
            sizes in prop::collection::vec(1_usize..20, 0..100),
            max in 1_usize..40,
        ) {
            let mut lines = Lines::new(Pieces(text.clone(), sizes), max);
            let mut all = Vec::new();
            loop {
                match lines.next().unwrap() {
                    Line::Whole(line) => {
                        prop_assert!(line.strip_suffix(b"\n").unwrap_or(line).len() <= max);
                        prop_assert!(!line[..line.len() - 1].contains(&b'\n'));
                        all.extend_from_slice(line);
                    }
                    Line::TooLong(line) => {
                        prop_assert!(line.len() > max && !line.contains(&b'\n'));
                        all.extend_from_slice(line);
                        lines.rest(|piece| { all.extend_from_slice(piece); Ok(()) }).unwrap();
                    }
                    Line::End => break,
                }
            }
            prop_assert_eq!(all, text);
        }
    }
}
