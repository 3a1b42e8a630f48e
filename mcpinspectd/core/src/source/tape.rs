//! Tapes: files of inputs.
//!
//! A tape is JSON lines. The first line is a header with the format's version. Every other line is
//! one [`Input`], exactly as it entered the pipeline, so that replaying a tape has the same results
//! as the run that it was recorded from.
//!
//! ```text
//! {"format":"mcpinspect-inputs","version":1}
//! {"session_started":{"id":"s","server":{"server_id":"files",…},…}}
//! {"bytes":{"session":"s","direction":"client_to_server","position":0,"time":"…","bytes":"{…}\n"}}
//! {"gap":{"session":"s","direction":"client_to_server","position":99,"bytes_lost":12,…}}
//! ```
//!
//! Tapes come from other machines and other people. So lines have a maximum length, and a line that
//! cannot be understood is an error with its number, never skipped.

use std::io::{BufRead, Write};

use super::lines::Lines;
pub use super::lines::{TapeError, TapeFault};
use super::{Progress, Source};
use crate::model::{Input, InputSink};
use crate::wire::framing::DEFAULT_MAX_FRAME;
use serde::Serialize;
use serde::de::IgnoredAny;

/// The format's name.
pub const FORMAT: &str = "mcpinspect-inputs";
/// The format's version.
pub const VERSION: u32 = 1;
/// The longest line, without its newline. An input of the largest message fits: as JSON it is at
/// most about twice as long.
pub const MAX_LINE: usize = 2 * DEFAULT_MAX_FRAME + (1 << 20);
/// Inputs to pass on per poll.
const PER_POLL: usize = 256;
/// A line buffer of up to this capacity is kept for the next line to write.
const KEPT_CAPACITY: usize = 1 << 20;

/// The first line.
#[derive(Debug, Serialize)]
struct Header {
    format: String,
    version: u32,
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
    /// It cannot be written, or is too long for a line. The tape then holds none of it, unless
    /// writing was interrupted.
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
        // Verbatim JSON text may contain line breaks, but only as white space.
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

/// Reads a tape, input by input. Returns nothing after an error.
#[derive(Debug)]
pub struct TapeReader<R> {
    lines: Lines<R>,
}

impl<R: BufRead> TapeReader<R> {
    /// Reads a tape's header.
    ///
    /// # Errors
    /// It is not a tape, or one of another version.
    pub fn new(input: R) -> Result<Self, TapeError> {
        Self::with_max_line(input, MAX_LINE)
    }

    /// Reads a tape with lines of up to `max_line` bytes.
    ///
    /// # Errors
    /// It is not a tape, or one of another version.
    pub fn with_max_line(input: R, max_line: usize) -> Result<Self, TapeError> {
        let mut lines = Lines::new(input, max_line);
        let IgnoredAny = lines.header(FORMAT, VERSION)?;
        Ok(Self { lines })
    }
}

impl<R: BufRead> Iterator for TapeReader<R> {
    type Item = Result<Input<'static>, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next_value()
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

    /// A tape holds nothing beyond what was polled: the end of a session is on the tape, or
    /// was not recorded.
    fn finish(&mut self, _sink: &mut dyn InputSink) -> Result<(), TapeError> {
        Ok(())
    }
}
