//! A pipe to the client or the server, to which both threads write: one passes messages on, the other
//! answers in the other side's place. Messages are never mixed.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Up to this many bytes, parts of a message are joined and written at once.
const JOINED: usize = 64 * 1024;

/// A pipe.
pub struct Sink(Mutex<Pipe>);

/// A pipe that one thread has exclusively.
pub struct Pipe {
    /// `None` once it is closed.
    file: Option<File>,
    /// Whether the last byte was not a newline.
    is_inside: bool,
}

impl Sink {
    /// A pipe that is open, or never was.
    pub fn new(file: Option<File>) -> Self {
        Self(Mutex::new(Pipe {
            file,
            is_inside: false,
        }))
    }

    /// The pipe, for several consecutive writes.
    pub fn lock(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a message for a thread that passes messages on.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.lock().write(bytes)
    }

    /// Writes the parts of a message consecutively.
    pub fn write_parts(&self, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length <= JOINED {
            return self.write(&parts.concat());
        }
        let mut pipe = self.lock();
        parts.iter().try_for_each(|part| pipe.write(part))
    }

    /// Writes a line of the guard's own, on a line of its own.
    pub fn reply(&self, line: &str) -> io::Result<()> {
        let mut pipe = self.lock();
        let start = if pipe.is_inside { "\n" } else { "" };
        pipe.write(format!("{start}{line}\n").as_bytes())
    }

    /// Closes it.
    pub fn close(&self) {
        self.lock().file = None;
    }
}

impl Pipe {
    /// Writes, in the middle of a message or not.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        if let Some(last) = bytes.last() {
            self.is_inside = *last != b'\n';
        }
        file.write_all(bytes)
    }
}
