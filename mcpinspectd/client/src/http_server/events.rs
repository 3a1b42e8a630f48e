//! Streams of events (`text/event-stream`), as they arrive: in pieces that end anywhere.

use std::time::Duration;

use memchr::memchr2;

/// Shortest pause before a stream is requested again, whatever the server wants.
const MIN_RETRY: Duration = Duration::from_millis(50);

/// Longest such pause.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// The pause unless the server says otherwise.
const USUAL_RETRY: Duration = Duration::from_secs(1);

/// Longest id of an event, in bytes: it goes into a header.
const MAX_ID: usize = 4096;

/// An event that has data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its type, `message` unless it has another.
    pub name: String,
    /// Its data.
    pub data: Vec<u8>,
}

/// The stream has an event that is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Assembles events.
#[derive(Debug)]
pub struct Parser {
    /// Most bytes of an event, and of a line.
    limit: usize,
    line: Vec<u8>,
    /// Whether the line feed belongs to a carriage return before it.
    after_return: bool,
    /// Whether nothing has come yet: a byte-order mark may.
    at_start: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    retry: Duration,
}

impl Parser {
    /// Reads a stream whose events have at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            name: String::new(),
            data: Vec::new(),
            has_data: false,
            id: None,
            retry: USUAL_RETRY,
        }
    }

    /// Starts over with another connection; the id and the pause stay.
    pub fn begin_again(&mut self) {
        let (id, retry) = (self.id.take(), self.retry);
        *self = Self {
            id,
            retry,
            ..Self::new(self.limit)
        };
    }

    /// The id of the last event that had one. Events without data count.
    pub fn last_id(&self) -> Option<&str> {
        self.id.as_deref().filter(|id| !id.is_empty())
    }

    /// How long to wait before requesting the stream again.
    pub fn retry(&self) -> Duration {
        self.retry
    }

    /// Takes the next bytes, and hands out the events that end in them.
    ///
    /// # Errors
    /// An event is too large; the stream can no longer be used.
    pub fn feed(&mut self, mut bytes: &[u8], mut event: impl FnMut(Event)) -> Result<(), TooLarge> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr2(b'\n', b'\r', bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.limit {
                return Err(TooLarge);
            }
            self.line.extend_from_slice(part);
            if end.is_none() {
                break;
            }
            self.after_return = rest.first() == Some(&b'\r');
            bytes = rest.get(1..).unwrap_or_default();
            let line = std::mem::take(&mut self.line);
            if let Some(complete) = self.line(&line) {
                event(complete);
            }
        }
        Ok(())
    }

    /// Takes a line; an empty one ends an event.
    fn line(&mut self, line: &[u8]) -> Option<Event> {
        let line = match std::mem::take(&mut self.at_start) {
            true => line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            let name = std::mem::take(&mut self.name);
            let data = std::mem::take(&mut self.data);
            let name = match name.is_empty() {
                true => "message".to_owned(),
                false => name,
            };
            return std::mem::take(&mut self.has_data).then_some(Event { name, data });
        }
        let at = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(at.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = text().into_owned(),
            b"id" if value.len() <= MAX_ID && !value.contains(&0) => {
                self.id = Some(text().into_owned());
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let wanted = text().parse().map_or(MAX_RETRY, Duration::from_millis);
                self.retry = wanted.clamp(MIN_RETRY, MAX_RETRY);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
    use proptest::prelude::*;

    use super::*;

    fn events(parser: &mut Parser, pieces: &[&[u8]]) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for piece in pieces {
            let take =
                |event: Event| found.push((event.name, String::from_utf8(event.data).unwrap()));
            parser.feed(piece, take).unwrap();
        }
        found
    }

    const STREAM: &str = "\u{feff}id: 1\nretry: 70\ndata:\n\n: a comment\nevent: message\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: endpoint\rdata: /x\r\rid\ndata:  {}\nnonsense\n\nid: 7\n\ndata: cut";

    #[test]
    fn events_are_told_apart() {
        let mut parser = Parser::new(1000);
        let found = events(&mut parser, &[STREAM.as_bytes()]);
        let expected = [
            ("message", ""),
            ("message", "{\"a\":\n1}"),
            ("endpoint", "/x"),
            ("message", " {}"),
        ];
        let expected = expected.map(|(name, data)| (name.to_owned(), data.to_owned()));
        assert_eq!(found, expected);
        assert_eq!(parser.last_id(), Some("7"));
        assert_eq!(parser.retry(), Duration::from_millis(70));
    }

    #[test]
    fn what_is_too_large_ends_the_stream() {
        let mut parser = Parser::new(10);
        assert_eq!(parser.feed(b"data: 1234", |_| {}), Ok(()));
        assert_eq!(parser.feed(b"5", |_| {}), Err(TooLarge));
        let mut parser = Parser::new(10);
        assert_eq!(
            parser.feed(b"data: 123\ndata: 123\n", |_| {}),
            Err(TooLarge)
        );
    }

    #[test]
    fn a_pause_has_limits() {
        let retry = |text: &str| {
            let mut parser = Parser::new(100);
            events(&mut parser, &[text.as_bytes()]);
            parser.retry()
        };
        assert_eq!(retry("retry: 0\n"), MIN_RETRY);
        assert_eq!(retry("retry: 99999999999999999999999\n"), MAX_RETRY);
        assert_eq!(retry("retry: soon\n"), USUAL_RETRY);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(cuts in prop::collection::vec(0..STREAM.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts {
                pieces.push(&STREAM.as_bytes()[start..cut]);
                start = cut;
            }
            pieces.push(&STREAM.as_bytes()[start..]);
            let whole = events(&mut Parser::new(1000), &[STREAM.as_bytes()]);
            prop_assert_eq!(events(&mut Parser::new(1000), &pieces), whole);
        }
    }
}
