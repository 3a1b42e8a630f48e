//! Lines of a tape. Tapes come from elsewhere, so lines are bounded, and counted for error messages.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// A line buffer of up to this capacity is kept for the next line.
const KEPT_CAPACITY: usize = 1 << 20;

/// What is wrong with a tape, and where.
#[derive(Debug, Error)]
#[error("line {line} of the tape {fault}")]
pub struct TapeError {
    /// The line's number, from 1.
    pub line: u64,
    /// What is wrong with it.
    #[source]
    pub fault: TapeFault,
}

/// What is wrong with a line.
#[derive(Debug, Error)]
pub enum TapeFault {
    /// It cannot be read or written.
    #[error("cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// It is longer than a line may be.
    #[error("is longer than {0} bytes")]
    TooLong(usize),
    /// It is the first line, but not a header.
    #[error("is not the header of a tape")]
    NotATape,
    /// It is a header of another version.
    #[error("has format version {0}, which this program does not support")]
    Version(u32),
    /// It is not something a tape holds.
    #[error("is invalid: {0}")]
    Malformed(serde_json::Error),
    /// It is the last one, and its end is missing.
    #[error("is truncated")]
    CutOff,
}

/// What the first line of every tape contains, in every version.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: u32,
}

/// Reads lines of at most a given length. Returns nothing after an error.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    failed: bool,
    /// Number of the current line.
    number: u64,
    max_line: usize,
    buffer: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// Reads lines of up to `max_line` bytes.
    pub fn new(input: R, max_line: usize) -> Self {
        Self {
            input,
            failed: false,
            number: 0,
            max_line,
            buffer: Vec::new(),
        }
    }

    /// Reads the first line: a header of this format and version.
    ///
    /// # Errors
    /// It is not a tape of this format, or one of another version.
    pub fn header<H: DeserializeOwned>(
        &mut self,
        format: &str,
        version: u32,
    ) -> Result<H, TapeError> {
        self.advance()?;
        let kind: Kind =
            serde_json::from_slice(&self.buffer).map_err(|_| self.fault(TapeFault::NotATape))?;
        if kind.format != format {
            return Err(self.fault(TapeFault::NotATape));
        }
        if kind.version != version {
            return Err(self.fault(TapeFault::Version(kind.version)));
        }
        serde_json::from_slice(&self.buffer).map_err(|error| self.malformed(error))
    }

    /// Reads the next line as a `T`; `None` at the end and after an error.
    pub fn next_value<T: DeserializeOwned>(&mut self) -> Option<Result<T, TapeError>> {
        if self.failed {
            return None;
        }
        let read = self.read();
        self.failed = !matches!(read, Ok(Some(_)));
        read.transpose()
    }

    fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, TapeError> {
        if !self.advance()? {
            return Ok(None);
        }
        serde_json::from_slice(&self.buffer)
            .map(Some)
            .map_err(|error| self.malformed(error))
    }

    /// Reads the next line. Returns false at the end.
    fn advance(&mut self) -> Result<bool, TapeError> {
        self.number += 1;
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
        let limit = self.max_line as u64 + 1;
        (&mut self.input)
            .take(limit)
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| self.fault(error))?;
        if self.buffer.len() as u64 == limit && !self.buffer.ends_with(b"\n") {
            return Err(self.fault(TapeFault::TooLong(self.max_line)));
        }
        Ok(!self.buffer.is_empty())
    }

    /// The error for a current line that is not the expected JSON: cut off if the tape ends in the middle of it.
    fn malformed(&self, error: serde_json::Error) -> TapeError {
        // A recording that was interrupted ends in the middle of a line.
        if error.is_eof() && !self.buffer.ends_with(b"\n") {
            return self.fault(TapeFault::CutOff);
        }
        self.fault(TapeFault::Malformed(error))
    }

    /// The error for `fault` in the current line.
    fn fault(&self, fault: impl Into<TapeFault>) -> TapeError {
        TapeError {
            line: self.number,
            fault: fault.into(),
        }
    }
}
