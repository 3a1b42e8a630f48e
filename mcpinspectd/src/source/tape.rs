//! Tapes: files of inputs.
//!
//! A tape is JSON lines. The first line is a header with the format's version. Every other line is
//! one [`Input`], exactly as it went into the pipeline, so that replaying a tape has the same results
//! as the run that it was recorded from.
//!
//! ```text
//! {"format":"mcpinspect-inputs","version":1}
//! {"session_started":{"id":"s","server":{"server_id":"files",…},…}}
//! {"bytes":{"session":"s","direction":"client_to_server","position":0,"time":"…","bytes":"{…}\n"}}
//! {"gap":{"session":"s","direction":"client_to_server","position":99,"bytes_lost":12,…}}
//! ```
//!
//! Tapes come from other machines and other people. So a line has a maximum length, and a line that
//! cannot be understood is an error with its number, never skipped.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Progress, Source};
use crate::model::{Input, InputSink};
use crate::wire::framing::DEFAULT_MAX_FRAME;

/// The format's name.
const FORMAT: &str = "mcpinspect-inputs";
/// The format's version.
pub const VERSION: u32 = 1;
/// The longest line, without its newline. An input of the largest message fits: as JSON it is at
/// most about twice as long.
pub const MAX_LINE: usize = 2 * DEFAULT_MAX_FRAME + (1 << 20);
/// Inputs that one poll passes on.
const PER_POLL: usize = 256;
/// A line buffer of up to this capacity is kept for the next line.
const KEPT_CAPACITY: usize = 1 << 20;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    format: String,
    version: u32,
}

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
    /// It is the first, and not a header.
    #[error("is not the header of a tape")]
    NotATape,
    /// It is a header of another version.
    #[error("has format version {0}; this program reads version {VERSION}")]
    Version(u32),
    /// It is not an input.
    #[error("is not an input: {0}")]
    Malformed(serde_json::Error),
    /// It is the last one, and its end is missing.
    #[error("is cut off")]
    CutOff,
}

/// Writes a tape.
#[derive(Debug)]
pub struct TapeWriter<W> {
    out: W,
    /// Lines written.
    lines: u64,
    buffer: Vec<u8>,
}

impl<W: Write> TapeWriter<W> {
    /// Starts a tape with its header.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: W) -> Result<Self, TapeError> {
        let mut writer = Self {
            out,
            lines: 0,
            buffer: Vec::new(),
        };
        writer.line(&Header {
            format: FORMAT.to_owned(),
            version: VERSION,
        })?;
        Ok(writer)
    }

    /// Writes an input.
    ///
    /// # Errors
    /// It cannot be written, or is too long for a line. Nothing of it is on the tape then, unless
    /// writing broke off.
    pub fn write(&mut self, input: &Input<'_>) -> Result<(), TapeError> {
        self.line(input)
    }

    /// Hands everything written so far to the operating system.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn flush(&mut self) -> Result<(), TapeError> {
        self.out.flush().map_err(|error| self.fault(error))
    }

    /// Ends the tape.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> Result<W, TapeError> {
        self.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), TapeError> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_CAPACITY);
        serde_json::to_writer(&mut self.buffer, value)
            .map_err(|error| self.fault(TapeFault::Malformed(error)))?;
        // JSON text that is passed on as it is may have line breaks, but only as white space.
        for byte in &mut self.buffer {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        if self.buffer.len() > MAX_LINE {
            return Err(self.fault(TapeFault::TooLong(MAX_LINE)));
        }
        self.buffer.push(b'\n');
        self.out
            .write_all(&self.buffer)
            .map_err(|error| self.fault(error))?;
        self.lines += 1;
        Ok(())
    }

    fn fault(&self, fault: impl Into<TapeFault>) -> TapeError {
        TapeError {
            line: self.lines + 1,
            fault: fault.into(),
        }
    }
}

/// Reads a tape, input by input. Nothing comes after an error.
#[derive(Debug)]
pub struct TapeReader<R> {
    input: R,
    /// Number of the current line.
    line: u64,
    max_line: usize,
    buffer: Vec<u8>,
    failed: bool,
}

impl<R: BufRead> TapeReader<R> {
    /// Reads a tape's header.
    ///
    /// # Errors
    /// It is not a tape, or one of another version.
    pub fn new(input: R) -> Result<Self, TapeError> {
        Self::with_max_line(input, MAX_LINE)
    }

    /// Reads a tape whose lines may be up to `max_line` bytes long.
    ///
    /// # Errors
    /// It is not a tape, or one of another version.
    pub fn with_max_line(input: R, max_line: usize) -> Result<Self, TapeError> {
        let mut reader = Self {
            input,
            line: 0,
            max_line,
            buffer: Vec::new(),
            failed: false,
        };
        reader.next_line()?;
        let header: Header = serde_json::from_slice(&reader.buffer)
            .map_err(|_| reader.fault(TapeFault::NotATape))?;
        if header.format != FORMAT {
            return Err(reader.fault(TapeFault::NotATape));
        }
        if header.version != VERSION {
            return Err(reader.fault(TapeFault::Version(header.version)));
        }
        Ok(reader)
    }

    /// Reads the next line into the buffer. Returns false at the end.
    fn next_line(&mut self) -> Result<bool, TapeError> {
        self.line += 1;
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

    fn next_input(&mut self) -> Result<Option<Input<'static>>, TapeError> {
        if !self.next_line()? {
            return Ok(None);
        }
        match serde_json::from_slice(&self.buffer) {
            Ok(input) => Ok(Some(input)),
            // A recording that broke off ends in the middle of a line.
            Err(error) if error.is_eof() && !self.buffer.ends_with(b"\n") => {
                Err(self.fault(TapeFault::CutOff))
            }
            Err(error) => Err(self.fault(TapeFault::Malformed(error))),
        }
    }

    fn fault(&self, fault: impl Into<TapeFault>) -> TapeError {
        TapeError {
            line: self.line,
            fault: fault.into(),
        }
    }
}

impl<R: BufRead> Iterator for TapeReader<R> {
    type Item = Result<Input<'static>, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_input();
        self.failed = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// Replays a tape as fast as the sink takes it. Times are those of the recording.
impl<R: BufRead> Source for TapeReader<R> {
    type Error = TapeError;

    fn poll(&mut self, sink: &mut dyn InputSink) -> Result<Progress, TapeError> {
        for _ in 0..PER_POLL {
            match self.next().transpose()? {
                Some(input) => sink.input(input),
                None => return Ok(Progress::Exhausted),
            }
        }
        Ok(Progress::Open)
    }

    /// A tape has nothing left beyond what was asked for: the end of a session is on the tape, or
    /// was not recorded.
    fn finish(&mut self, _sink: &mut dyn InputSink) -> Result<(), TapeError> {
        Ok(())
    }
}
