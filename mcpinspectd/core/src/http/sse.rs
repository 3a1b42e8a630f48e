//! Streams of server-sent events, as HTML defines them, one byte at a time.
//!
//! An event is a few lines and a blank one. Lines end in a carriage return, a line feed, or both; the
//! data of several `data` lines is joined by line feeds; without a blank line at its end, there is no event.
//! Data goes into its buffer as it arrives, so a message of megabytes is held once. After a loss, everything up
//! to the next blank line is skipped: it belongs to a torn event.

use crate::wire::held::{BufferUsage, Held};

/// The longest name or id of an event to keep, in bytes, unless a reader wants more. The rest is dropped.
const MAX_WORD: usize = 256;

const BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// What comes out of [`Events`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An event.
    Event {
        /// Where its first line starts.
        position: u64,
        /// Its type; empty if it has none, which means `message`.
        name: &'a [u8],
        /// Its id, if it has one of its own.
        id: Option<&'a [u8]>,
        /// Its data; may be empty. `None` if it has no such field: its id counts, and nothing happened.
        data: Option<&'a [u8]>,
    },
    /// An event whose data exceeds the maximum and was not kept.
    Oversize {
        /// Where its first line starts.
        position: u64,
        /// Bytes of its data.
        bytes: u64,
    },
    /// The stream ended within an event, which therefore does not count as one.
    Unfinished {
        /// Where its first line starts.
        position: u64,
        /// Bytes of its data so far.
        bytes: u64,
    },
}

/// Splits one stream into events.
#[derive(Debug)]
pub struct Events {
    max_data: usize,
    max_word: usize,
    line: Line,
    /// How many bytes of a byte order mark came; more than its length once the start is over.
    mark: usize,
    /// The previous byte was a carriage return, so a line feed belongs to it.
    after_return: bool,
    /// After a loss: what comes belongs to a torn event.
    is_torn: bool,
    /// Where the current event starts, if it has.
    start: Option<u64>,
    name: Vec<u8>,
    id: Option<Vec<u8>>,
    /// What the last `retry` says, as written.
    asked: Vec<u8>,
    /// The last pause that the stream asked for.
    retry: Option<u64>,
    data: Held,
    /// Lines of data so far.
    lines: u64,
    /// Bytes of data so far, kept or not.
    bytes: u64,
    /// Its data is not kept.
    is_too_large: bool,
}

/// Where in a line the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Start,
    /// In a field's name: the first bytes of it, and its length.
    Name([u8; 5], usize),
    /// After the colon, where one space may follow.
    Colon(Field),
    Value(Field),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
    Id,
    Retry,
    /// A comment or an unknown field.
    Other,
}

impl Events {
    /// Splits a stream from its first byte. Event data of more than `max_data` bytes is not kept.
    pub fn new(max_data: usize) -> Self {
        Self {
            max_data,
            max_word: MAX_WORD,
            line: Line::Start,
            mark: 0,
            after_return: false,
            is_torn: false,
            start: None,
            name: Vec::new(),
            id: None,
            asked: Vec::new(),
            retry: None,
            data: Held::default(),
            lines: 0,
            bytes: 0,
            is_too_large: false,
        }
    }

    /// Keeps names and ids of up to `max` bytes.
    #[must_use]
    pub fn with_words(mut self, max: usize) -> Self {
        self.max_word = max;
        self
    }

    /// How long its reader is to wait before it requests the stream again, in milliseconds, if the stream says.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Whether the data of the current event is not kept.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// What the current event occupies.
    pub fn usage(&self) -> BufferUsage {
        self.data.usage()
    }

    /// The data of the current event so far, where kept.
    pub fn unfinished(&self) -> &Held {
        &self.data
    }

    /// The data of the current event so far, to move it to a file.
    pub fn unfinished_mut(&mut self) -> &mut Held {
        &mut self.data
    }

    /// Drops the data of the current event.
    pub fn abandon(&mut self) {
        self.data.clear();
        self.is_too_large = true;
    }

    /// Takes in the stream's next bytes, the first of which is at `position`.
    pub fn push(&mut self, position: u64, bytes: &[u8], emit: &mut dyn FnMut(Item<'_>)) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.mark < BOM.len() {
                if byte == BOM[self.mark] {
                    self.mark += 1;
                    at += 1;
                    continue;
                }
                // Half a mark is the start of an unknown field.
                if self.mark > 0 {
                    self.line = Line::Value(Field::Other);
                }
                self.mark = BOM.len();
            }
            let here = position + at as u64;
            let after_return = std::mem::take(&mut self.after_return);
            match byte {
                b'\n' if after_return => at += 1,
                b'\n' | b'\r' => {
                    self.after_return = byte == b'\r';
                    self.end_of_line(emit);
                    at += 1;
                }
                _ => at += self.within_line(here, &bytes[at..]),
            }
        }
    }

    /// Notes that bytes were lost.
    pub fn hole(&mut self) {
        self.is_torn = true;
        self.mark = BOM.len();
        self.after_return = false;
        // The next line end belongs to a line whose start is unknown.
        self.line = Line::Value(Field::Other);
        self.forget();
    }

    /// Whether the stream is within an event, or within a loss.
    pub fn is_within(&self) -> bool {
        self.start.is_some() || self.is_torn
    }

    /// Ends the stream.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Item<'_>)) {
        if let Some(position) = self.start
            && self.bytes > 0
        {
            emit(Item::Unfinished {
                position,
                bytes: self.bytes,
            });
        }
        self.forget();
    }

    /// Takes in bytes of a line, the first of which does not end it. Returns how many.
    fn within_line(&mut self, position: u64, bytes: &[u8]) -> usize {
        let byte = bytes[0];
        match self.line {
            Line::Start => {
                self.start.get_or_insert(position);
                self.line = Line::Name([0; 5], 0);
                0
            }
            Line::Name(name, length) if byte == b':' => {
                self.line = Line::Colon(field(name, length));
                self.begin_value();
                1
            }
            Line::Name(mut name, length) => {
                if let Some(slot) = name.get_mut(length) {
                    *slot = byte;
                }
                self.line = Line::Name(name, length.saturating_add(1));
                1
            }
            Line::Colon(field) => {
                self.line = Line::Value(field);
                usize::from(byte == b' ')
            }
            Line::Value(field) => {
                let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
                self.value(field, &bytes[..end]);
                end
            }
        }
    }

    /// Makes room for the value of the field whose name just ended.
    fn begin_value(&mut self) {
        match self.line {
            Line::Colon(Field::Data) if !self.is_torn => {
                if self.lines > 0 {
                    self.add_data(b"\n");
                }
                self.lines += 1;
            }
            Line::Colon(Field::Event) => self.name.clear(),
            Line::Colon(Field::Id) => self.id = Some(Vec::new()),
            Line::Colon(Field::Retry) => self.asked.clear(),
            _ => {}
        }
    }

    fn value(&mut self, field: Field, bytes: &[u8]) {
        if self.is_torn {
            return;
        }
        match field {
            Field::Data => self.add_data(bytes),
            Field::Event => add_word(&mut self.name, bytes, self.max_word),
            Field::Id => add_word(self.id.get_or_insert_default(), bytes, self.max_word),
            Field::Retry => add_word(&mut self.asked, bytes, MAX_WORD),
            Field::Other => {}
        }
    }

    /// Adds to the data.
    fn add_data(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.is_too_large |= self.bytes > self.max_data as u64;
        if self.is_too_large || self.data.extend(bytes, self.max_data).is_err() {
            self.abandon();
        }
    }

    fn end_of_line(&mut self, emit: &mut dyn FnMut(Item<'_>)) {
        match std::mem::replace(&mut self.line, Line::Start) {
            Line::Start => self.end_of_event(emit),
            Line::Name(name, length) => {
                // A name alone is a field with an empty value.
                self.line = Line::Colon(field(name, length));
                self.begin_value();
                self.line = Line::Start;
            }
            Line::Value(Field::Retry) => self.end_of_retry(),
            Line::Colon(_) | Line::Value(_) => {}
        }
    }

    /// The pause counts at the end of its line, and only if it is a number.
    fn end_of_retry(&mut self) {
        if self.asked.iter().all(u8::is_ascii_digit)
            && let Ok(digits) = str::from_utf8(&self.asked)
            && !digits.is_empty()
        {
            self.retry = Some(digits.parse().unwrap_or(u64::MAX));
        }
    }

    /// A blank line.
    fn end_of_event(&mut self, emit: &mut dyn FnMut(Item<'_>)) {
        if std::mem::take(&mut self.is_torn) {
            self.forget();
            return;
        }
        let position = self.start.unwrap_or(0);
        let is_event = self.lines > 0 || self.id.is_some();
        if self.is_too_large || (is_event && !self.tell(position, emit)) {
            emit(Item::Oversize {
                position,
                bytes: self.bytes,
            });
        }
        self.forget();
    }

    /// Tells the event that ends. Returns whether its data could be read.
    fn tell(&self, position: u64, emit: &mut dyn FnMut(Item<'_>)) -> bool {
        // An id that contains a zero does not count.
        let id = self.id.as_deref().filter(|id| !id.contains(&0));
        let told = self.data.read(|data| {
            emit(Item::Event {
                position,
                name: &self.name,
                id,
                data: (self.lines > 0).then_some(data),
            });
        });
        told.is_ok()
    }

    fn forget(&mut self) {
        self.start = None;
        self.name.clear();
        self.id = None;
        self.data.clear();
        self.lines = 0;
        self.bytes = 0;
        self.is_too_large = false;
    }
}

fn field(name: [u8; 5], length: usize) -> Field {
    match name.get(..length) {
        Some(b"data") => Field::Data,
        Some(b"event") => Field::Event,
        Some(b"id") => Field::Id,
        Some(b"retry") => Field::Retry,
        _ => Field::Other,
    }
}

fn add_word(word: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let room = max.saturating_sub(word.len());
    word.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
}

#[cfg(test)]
mod tests;
