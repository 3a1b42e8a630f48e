//! Reads a part of a file piece by piece, and never more of one file than a budget allows.

use std::cell::Cell;
use std::fs::File;
use std::io;

use super::image::Part;

/// Bytes to read at a time.
const WINDOW: usize = 64 << 10;

/// Something that can be read at any offset.
pub trait ReadAt {
    /// Reads some bytes at `offset`. Returns how many; 0 at the end.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, into, offset)
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.get(offset..))
            .unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// Bytes that may still be read.
pub(super) struct Budget(Cell<u64>);

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Cell::new(bytes))
    }

    fn take(&self, bytes: u64) -> Option<()> {
        self.0.set(self.0.get().checked_sub(bytes)?);
        Some(())
    }
}

/// A part, some of whose bytes are in memory.
pub(super) struct FilePart<'a, R: ?Sized> {
    file: &'a R,
    part: Part,
    budget: &'a Budget,
    window: Vec<u8>,
    /// Where the window begins in the part.
    at: u64,
}

impl<'a, R: ReadAt + ?Sized> FilePart<'a, R> {
    pub(super) fn new(file: &'a R, part: Part, budget: &'a Budget) -> Self {
        Self {
            file,
            part,
            budget,
            window: Vec::new(),
            at: 0,
        }
    }

    /// The same part, for reading elsewhere at the same time.
    pub(super) fn again(&self) -> Self {
        Self::new(self.file, self.part, self.budget)
    }

    pub(super) fn length(&self) -> u64 {
        self.part.length
    }

    /// This many bytes at `offset`; fewer at the part's end.
    pub(super) fn bytes(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let length = length.min(WINDOW);
        let wanted = self.part.length.checked_sub(offset)?;
        let length = usize::try_from(wanted).map_or(length, |wanted| wanted.min(length));
        let is_here = |from: u64, have: usize| {
            let from = usize::try_from(offset.checked_sub(from)?).ok()?;
            (from.checked_add(length)? <= have).then_some(from)
        };
        let from = match is_here(self.at, self.window.len()) {
            Some(from) => from,
            None => {
                self.load(offset)?;
                is_here(self.at, self.window.len())?
            }
        };
        self.window.get(from..from + length)
    }

    fn load(&mut self, offset: u64) -> Option<()> {
        let rest = self.part.length.checked_sub(offset)?;
        let length = usize::try_from(rest).map_or(WINDOW, |rest| rest.min(WINDOW));
        self.budget.take(length as u64)?;
        self.window.resize(length, 0);
        self.at = offset;
        let start = self.part.offset.checked_add(offset)?;
        let mut have = 0;
        while have < length {
            let at = start.checked_add(have as u64)?;
            match self.file.read_at(&mut self.window[have..], at) {
                Ok(0) | Err(_) => break,
                Ok(more) => have += more,
            }
        }
        self.window.truncate(have);
        Some(())
    }

    fn array<const N: usize>(&mut self, offset: u64) -> Option<[u8; N]> {
        self.bytes(offset, N)?.try_into().ok()
    }

    pub(super) fn u32(&mut self, offset: u64) -> Option<u32> {
        self.array(offset).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, offset: u64) -> Option<u64> {
        self.array(offset).map(u64::from_le_bytes)
    }

    /// All of it, unless it has more than `max` bytes.
    pub(super) fn all(mut self, max: u64) -> Option<Vec<u8>> {
        if self.part.length > max {
            return None;
        }
        self.prefix(max)
    }

    /// Its first bytes, at most `max`.
    pub(super) fn prefix(&mut self, max: u64) -> Option<Vec<u8>> {
        let length = self.part.length.min(max);
        let mut all = Vec::new();
        while (all.len() as u64) < length {
            let at = all.len() as u64;
            let wanted = usize::try_from(length - at).map_or(WINDOW, |rest| rest.min(WINDOW));
            all.extend_from_slice(self.bytes(at, wanted)?);
        }
        Some(all)
    }
}
