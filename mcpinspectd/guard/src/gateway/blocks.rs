//! Streams of events, split into blocks that are passed on or judged as a whole.
//!
//! A block is what is between two blank lines, with the blank line that ends it. Blocks keep their bytes,
//! so that what is not changed leaves as it came. Comments pass at once: they keep connections alive.

use bytes::{Bytes, BytesMut};
use mcpinspect_core::http::sse::{Events, Item};

/// Fields of an event that a reader may look for.
const FIELDS: [&[u8]; 3] = [b"data", b"event", b"id"];

/// Splits a stream.
#[derive(Debug, Default)]
pub struct Blocks {
    raw: BytesMut,
    /// Where the current line starts.
    line: usize,
    /// Where to look for the next end of a line.
    scanned: usize,
    /// The last line ended in a carriage return, so a line feed belongs to it.
    after_return: bool,
}

impl Blocks {
    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.raw.extend_from_slice(bytes);
    }

    /// Bytes of the current block.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// The next complete item: a block, a comment, or the rest of a line's end.
    pub fn next(&mut self) -> Option<Bytes> {
        loop {
            let found = memchr::memchr2(b'\r', b'\n', self.raw.get(self.scanned..)?);
            let Some(at) = found.map(|at| self.scanned + at) else {
                self.scanned = self.raw.len();
                return None;
            };
            let is_return = self.raw.get(at) == Some(&b'\r');
            let was_return = std::mem::replace(&mut self.after_return, is_return);
            let start = std::mem::replace(&mut self.line, at + 1);
            self.scanned = at + 1;
            if was_return && !is_return && at == start {
                // The other half of a line's end.
                if start == 0 {
                    return Some(self.take(1));
                }
                continue;
            }
            let mut end = at + 1;
            if is_return && self.raw.get(end) == Some(&b'\n') {
                end += 1;
                self.after_return = false;
                self.line = end;
                self.scanned = end;
            }
            let is_comment = start == 0 && self.raw.first() == Some(&b':');
            if at == start || is_comment {
                return Some(self.take(end));
            }
        }
    }

    /// What is left at the end of the stream.
    pub fn rest(&mut self) -> Bytes {
        self.take(self.raw.len())
    }

    fn take(&mut self, end: usize) -> Bytes {
        self.line = 0;
        self.scanned = 0;
        self.raw.split_to(end).freeze()
    }
}

/// The event in a block.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's type; empty for a message.
    pub name: Vec<u8>,
    /// Whether it can be resumed from.
    pub has_id: bool,
    /// Its data, if it has any.
    pub data: Option<Vec<u8>>,
}

impl SseEvent {
    /// Reads a block.
    pub fn read(block: &[u8]) -> Self {
        let mut sse_event = Self::default();
        let mut take = |item: Item<'_>| {
            if let Item::Event { name, id, data, .. } = item {
                sse_event.name = name.to_vec();
                sse_event.has_id = id.is_some_and(|id| !id.is_empty());
                sse_event.data = data.filter(|data| !data.is_empty()).map(<[u8]>::to_vec);
            }
        };
        let mut events = Events::new(block.len());
        events.push(0, block, &mut take);
        // The last block of a stream may lack its end, and some readers accept it anyway.
        events.push(block.len() as u64, b"\n\n", &mut take);
        sse_event
    }
}

/// Why readers may see different events in a block, if they may: fields that are almost one of the standard's,
/// and characters that some take for the end of a line. `is_first` tells that nothing came before.
pub fn doubt(block: &[u8], is_first: bool) -> Option<&'static str> {
    let block = match is_first {
        true => block.strip_prefix(b"\xef\xbb\xbf").unwrap_or(block),
        false => block,
    };
    for (line, _) in lines(block) {
        let (name, value) = field(line);
        if name != b"data" && (ends_lines(name) || ends_lines(value)) {
            return Some("line_separator");
        }
        let letters: Vec<u8> = name
            .iter()
            .filter(|byte| byte.is_ascii_alphabetic())
            .map(u8::to_ascii_lowercase)
            .collect();
        if FIELDS.contains(&&*letters) && !FIELDS.contains(&name) {
            return Some("odd_field");
        }
    }
    None
}

/// Whether a reader may take something in a text for the end of a line that is not one: Python's does.
pub fn ends_lines(text: &[u8]) -> bool {
    text.iter()
        .any(|byte| matches!(byte, 0x0b | 0x0c | 0x1c..=0x1e))
        || has_separator(text)
}

fn has_separator(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"\xc2\x85").is_some()
        || memchr::memmem::find(text, b"\xe2\x80\xa8").is_some()
        || memchr::memmem::find(text, b"\xe2\x80\xa9").is_some()
}

/// JSON text with its line separators escaped, if it has any. They are in strings, or it is not JSON.
pub fn without_separators(data: &[u8]) -> Option<Vec<u8>> {
    if !has_separator(data) {
        return None;
    }
    let text = std::str::from_utf8(data).ok()?;
    let text = text
        .replace('\u{85}', "\\u0085")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    Some(text.into_bytes())
}

/// The block with other data; everything else in it stays.
pub fn with_data(block: &[u8], data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + 64);
    let mut is_done = false;
    for (line, end) in lines(block) {
        let start = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if field(start).0 != b"data" {
            out.extend_from_slice(line);
            out.extend_from_slice(end);
        } else if !std::mem::replace(&mut is_done, true) {
            let end = if end.is_empty() { b"\n" } else { end };
            for line in data.split(|byte| *byte == b'\n') {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(line);
                out.extend_from_slice(end);
            }
        }
    }
    out
}

/// A message as an event.
pub fn event(message: &str) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}

/// The lines of a block, each with what ends it.
fn lines(mut block: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        if block.is_empty() {
            return None;
        }
        let at = memchr::memchr2(b'\r', b'\n', block).unwrap_or(block.len());
        let (line, rest) = block.split_at(at);
        let length = if rest.starts_with(b"\r\n") { 2 } else { 1 };
        let (end, rest) = rest.split_at(length.min(rest.len()));
        block = rest;
        Some((line, end))
    })
}

/// The name and the value of a line's field.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    let at = memchr::memchr(b':', line).unwrap_or(line.len());
    let (name, value) = line.split_at(at);
    (name, value.strip_prefix(b":").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = "\u{feff}event: endpoint\ndata: /x\n\n: alive\ndata: {\"a\":\r\ndata: 1}\r\nid: 7\r\n\r\nevent: a\rdata: b\r\r\n\nretry: 5\n: inside\ndata: c\n\ndata: cut";

    fn cut(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut blocks, mut found) = (Blocks::default(), Vec::new());
        for piece in pieces {
            blocks.push(piece);
            while let Some(block) = blocks.next() {
                found.push(block.to_vec());
            }
        }
        found.push(blocks.rest().to_vec());
        found
    }

    fn read_all(blocks: &[Vec<u8>]) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let events = blocks.iter().map(|block| SseEvent::read(block));
        events
            .filter_map(|event| Some((text(&event.name), text(&event.data?))))
            .collect()
    }

    #[test]
    fn blocks_are_told_apart() {
        let expected = [
            ("endpoint", "/x"),
            ("", "{\"a\":\n1}"),
            ("a", "b"),
            ("", "c"),
            ("", "cut"),
        ];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(read_all(&cut(&[STREAM.as_bytes()])), expected);
        assert!(SseEvent::read(b"id: 3\ndata: x\n\n").has_id);
    }

    #[test]
    fn no_byte_is_lost_and_no_event_torn_at_any_cut() {
        let whole = read_all(&cut(&[STREAM.as_bytes()]));
        for at in 0..=STREAM.len() {
            let (one, other) = STREAM.as_bytes().split_at(at);
            let found = cut(&[one, other]);
            assert_eq!(found.concat(), STREAM.as_bytes(), "{at}");
            assert_eq!(read_all(&found), whole, "{at}");
        }
        let bytes: Vec<&[u8]> = STREAM.as_bytes().chunks(1).collect();
        assert_eq!(cut(&bytes).concat(), STREAM.as_bytes());
        assert_eq!(read_all(&cut(&bytes)), whole);
    }

    #[test]
    fn only_data_is_replaced() {
        for (block, data, expected) in [
            (
                "id: 1\r\ndata: a\r\ndata: b\r\nevent: x\r\n\r\n",
                "new",
                "id: 1\r\ndata: new\r\nevent: x\r\n\r\n",
            ),
            ("data:a\n\n", "b\nc", "data: b\ndata: c\n\n"),
            ("data: cut", "new", "data: new\n"),
        ] {
            assert_eq!(
                with_data(block.as_bytes(), data.as_bytes()),
                expected.as_bytes()
            );
        }
    }

    #[test]
    fn what_readers_may_see_differently_is_doubtful() {
        for (block, is_first, why) in [
            (
                "data: x\nevent: message\nid: 1\nretry: 3\n: DATA: y\nfoo: bar\n\n",
                true,
                None,
            ),
            ("\u{feff}data: x\n\n", true, None),
            ("\u{feff}data: x\n\n", false, Some("odd_field")),
            ("Data: x\n\n", true, Some("odd_field")),
            ("data : x\n\n", true, Some("odd_field")),
            (" data: x\n\n", true, Some("odd_field")),
            ("id: 1\u{2028}data: y\n\n", true, Some("line_separator")),
            (": \u{85}data: y\n\n", true, Some("line_separator")),
            ("event: a\u{b}data: y\n\n", true, Some("line_separator")),
        ] {
            assert_eq!(doubt(block.as_bytes(), is_first), why, "{block:?}");
        }
        assert_eq!(
            without_separators("{\"a\":\"b\u{2028}c\"}".as_bytes()).as_deref(),
            Some(&br#"{"a":"b\u2028c"}"#[..])
        );
        assert_eq!(without_separators(b"{}"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_come_out_again(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..10),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.sort_unstable();
            let (mut pieces, mut start) = (Vec::new(), 0);
            for at in cuts {
                pieces.push(&text[start..at]);
                start = at;
            }
            pieces.push(&text[start..]);
            let found = cut(&pieces);
            prop_assert_eq!(found.concat(), &text[..]);
            prop_assert_eq!(read_all(&found), read_all(&cut(&[&text])));
        }
    }
}
