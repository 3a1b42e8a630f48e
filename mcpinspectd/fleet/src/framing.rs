//! Splits an input into chunks of whole entries.
//!
//! One thread reads an input and looks only for the ends of entries; several others parse the
//! chunks. An entry without an end costs no more memory than a chunk.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use super::fields::{Field, Fields};

/// Longest entry to read, in bytes; the daemon's own are smaller than a tenth of it.
pub const ENTRY_MAX: usize = 1 << 20;

/// Whole entries.
#[derive(Debug, Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// Where entries end, in Journal Export Format; `None` if each is a line of JSON.
    ends: Option<Vec<usize>>,
    /// Entries that were too long.
    too_long: u64,
    /// Who sent it, if that is known for certain.
    origin: Option<Arc<str>>,
}

impl Chunk {
    /// Who sent it, if that is known for certain.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Sets who sent it.
    pub fn set_origin(&mut self, origin: Option<Arc<str>>) {
        self.origin = origin;
    }

    /// Calls `each` with each entry; with `None` for anything that is not one.
    pub fn entries(&self, each: &mut impl FnMut(Option<&Fields<'_>>)) {
        for _ in 0..self.too_long {
            each(None);
        }
        let Some(ends) = &self.ends else {
            let mut rest = self.bytes.as_slice();
            while !rest.is_empty() {
                let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                let (line, more) = rest.split_at(end);
                rest = more.get(1..).unwrap_or_default();
                if line.len() > ENTRY_MAX {
                    each(None);
                } else if !line.is_empty() {
                    each(Fields::of_json(line).as_ref());
                }
            }
            return;
        };
        let mut begin = 0;
        for &end in ends {
            let entry = self.bytes.get(begin..end).unwrap_or_default();
            each(Fields::of_export(entry).as_ref());
            begin = end;
        }
    }

    /// The cursor of the last entry, if each is a line.
    pub fn last_cursor(&self) -> Option<String> {
        let lines = self.bytes.strip_suffix(b"\n").unwrap_or(&self.bytes);
        let begin = memchr::memrchr(b'\n', lines).map_or(0, |at| at + 1);
        let fields = Fields::of_json(lines.get(begin..)?)?;
        fields.get(Field::Cursor).map(str::to_owned)
    }
}

/// What to do with a last line without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// Nothing will follow, so it cannot be read: it is counted.
    Counted,
    /// It is still being written, and is left for the next time.
    Left,
}

/// Passes on the entries of `input`, the output of `journalctl -o json` or `-o export`, distinguished
/// by its first byte. `consumed` is moved past the last entry passed on.
///
/// # Errors
/// The input breaks, or `send` fails.
pub fn chunks(
    input: impl Read,
    unfinished: Unfinished,
    consumed: &mut u64,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> io::Result<()> {
    let mut input = BufReader::with_capacity(256 << 10, input);
    if first_byte(&mut input)? == Some(b'{') {
        lines(input, unfinished, consumed, send)
    } else {
        export(input, unfinished, consumed, send)
    }
}

fn first_byte(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        match input.fill_buf() {
            Ok(bytes) => return Ok(bytes.first().copied()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Passes on lines of JSON.
///
/// # Errors
/// The input breaks, or `send` fails.
pub fn lines(
    mut input: impl BufRead,
    unfinished: Unfinished,
    consumed: &mut u64,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> io::Result<()> {
    let mut rest = Vec::new();
    let mut too_long = 0;
    loop {
        let mut bytes = std::mem::take(&mut rest);
        bytes.reserve_exact((ENTRY_MAX + 1).saturating_sub(bytes.len()));
        let wanted = (ENTRY_MAX + 1).saturating_sub(bytes.len()) as u64;
        let read = input.by_ref().take(wanted).read_to_end(&mut bytes);
        let at_end = matches!(read, Ok(read) if (read as u64) < wanted);
        match memchr::memrchr(b'\n', &bytes) {
            Some(end) => rest = bytes.split_off(end + 1),
            None if at_end || read.is_err() => rest = std::mem::take(&mut bytes),
            None => {
                *consumed += bytes.len() as u64 + skip_line(&mut input)?;
                too_long += 1;
                continue;
            }
        }
        let whole = bytes.len() as u64;
        let mut chunk = Chunk {
            bytes,
            ends: None,
            too_long: std::mem::take(&mut too_long),
            origin: None,
        };
        let mut more = 0;
        if at_end && !rest.is_empty() {
            let is_entry = Fields::of_json(&rest).is_some();
            if is_entry || unfinished == Unfinished::Counted {
                more = rest.len() as u64;
                chunk.bytes.append(&mut rest);
            }
        }
        if !chunk.bytes.is_empty() || chunk.too_long > 0 {
            send(chunk)?;
        }
        *consumed += whole + more;
        read?;
        if at_end {
            return Ok(());
        }
    }
}

/// Skips the rest of a line, and returns its length including the line end.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let bytes = match input.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = memchr::memchr(b'\n', bytes);
        let used = end.map_or(bytes.len(), |end| end + 1);
        input.consume(used);
        skipped += used as u64;
        if end.is_some() || used == 0 {
            return Ok(skipped);
        }
    }
}

/// Passes on entries in Journal Export Format: FIELD=value, or FIELD, its length in eight bytes, and
/// the value; an empty line ends an entry. Fields that are not needed are left out.
fn export(
    mut input: impl BufRead,
    unfinished: Unfinished,
    consumed: &mut u64,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    let mut chunk = Chunk::default();
    let mut ends = Vec::new();
    // Where the entry begins in the chunk; how many bytes of the input it takes; whether it is one.
    let (mut begin, mut taken, mut any) = (0, 0, false);
    loop {
        let read = match read_line(&mut input, &mut line) {
            Ok(read) => read,
            Err(error) => {
                flush(&mut chunk, begin, &mut ends, send)?;
                return Err(error);
            }
        };
        taken += read.length;
        let at_end = !read.is_ended;
        if at_end && unfinished == Unfinished::Left && (any || read.length > 0) {
            return flush(&mut chunk, begin, &mut ends, send);
        }
        if line.is_empty() && !read.is_cut {
            if any {
                let size = chunk.bytes.len() - begin;
                if size > ENTRY_MAX || size == 0 {
                    chunk.bytes.truncate(begin);
                    chunk.too_long += 1;
                } else {
                    ends.push(chunk.bytes.len());
                }
            }
            *consumed += taken;
            (begin, taken, any) = (chunk.bytes.len(), 0, false);
            if chunk.bytes.len() >= ENTRY_MAX || at_end {
                flush(&mut chunk, begin, &mut ends, send)?;
                begin = 0;
            }
            if at_end {
                return Ok(());
            }
            continue;
        }
        any = true;
        let room = chunk.bytes.len() - begin <= ENTRY_MAX;
        if let Some(at) = memchr::memchr(b'=', &line) {
            let name = line.get(..at).unwrap_or_default();
            if room && !read.is_cut && Field::of(name).is_some() {
                chunk.bytes.extend_from_slice(&line);
                chunk.bytes.push(b'\n');
            }
        } else if read.is_cut {
            return Err(not_a_journal());
        } else {
            let value = read_binary(&mut input, &mut taken)?;
            if let Some(value) = value.filter(|_| room && Field::of(&line).is_some()) {
                chunk.bytes.append(&mut line);
                chunk.bytes.push(b'\n');
                let length = value.len() as u64;
                chunk.bytes.extend_from_slice(&length.to_le_bytes());
                chunk.bytes.extend_from_slice(&value);
                chunk.bytes.push(b'\n');
            }
        }
    }
}

fn flush(
    chunk: &mut Chunk,
    end: usize,
    ends: &mut Vec<usize>,
    send: &mut impl FnMut(Chunk) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = std::mem::take(chunk);
    chunk.bytes.truncate(end);
    chunk.ends = Some(std::mem::take(ends));
    if chunk.bytes.is_empty() && chunk.too_long == 0 {
        return Ok(());
    }
    send(chunk)
}

struct LineRead {
    /// Bytes of the input.
    length: u64,
    /// Whether the line has an end.
    is_ended: bool,
    /// Whether it was too long, and only its start is there.
    is_cut: bool,
}

/// Reads a line without its end.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<LineRead> {
    line.clear();
    let limit = ENTRY_MAX as u64 + 1;
    let mut length = input.by_ref().take(limit).read_until(b'\n', line)? as u64;
    let mut is_ended = line.pop_if(|byte| *byte == b'\n').is_some();
    let is_cut = !is_ended && length == limit;
    if is_cut {
        let more = skip_line(input)?;
        length += more;
        is_ended = more > 0;
        line.truncate(256);
    }
    Ok(LineRead {
        length,
        is_ended,
        is_cut,
    })
}

/// A value preceded by its length; `None` if it is too long to keep.
fn read_binary(input: &mut impl BufRead, taken: &mut u64) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    input.read_exact(&mut length).map_err(cut_short)?;
    let length = u64::from_le_bytes(length);
    let fits = usize::try_from(length).is_ok_and(|length| length <= ENTRY_MAX);
    let mut value = Vec::new();
    let mut rest = input.by_ref().take(length);
    let read = if fits {
        io::copy(&mut rest, &mut value)?
    } else {
        io::copy(&mut rest, &mut io::sink())?
    };
    let mut end = [0];
    input.read_exact(&mut end).map_err(cut_short)?;
    if read != length || end != *b"\n" {
        return Err(not_a_journal());
    }
    *taken += 8 + length + 1;
    Ok(fits.then_some(value))
}

/// An input that ends within a value is truncated, or not a journal.
fn cut_short(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        not_a_journal()
    } else {
        error
    }
}

fn not_a_journal() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "neither `journalctl -o json` nor `journalctl -o export` output, or truncated",
    )
}
