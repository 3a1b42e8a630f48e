//! Streams of events (`text/event-stream`) as a client follows them: over several connections, each of which
//! continues after the last event that came whole.

use std::time::Duration;

use mcpinspect_core::http::sse::{Events, Item};

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

/// Follows a stream.
#[derive(Debug)]
pub struct Parser {
    /// Most bytes of an event's data.
    limit: usize,
    events: Events,
    id: Option<String>,
    retry: Duration,
}

impl Parser {
    /// Reads a stream whose events have at most `limit` bytes of data.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            events: events(limit),
            id: None,
            retry: USUAL_RETRY,
        }
    }

    /// Starts over with another connection; the id and the pause stay.
    pub fn begin_again(&mut self) {
        self.events = events(self.limit);
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
    pub fn feed(&mut self, bytes: &[u8], mut event: impl FnMut(Event)) -> Result<(), TooLarge> {
        let mut is_too_large = false;
        let last = &mut self.id;
        // Positions are for reports, and nothing is reported here.
        self.events.push(0, bytes, &mut |item| match item {
            Item::Event { name, id, data, .. } => {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                if let Some(id) = id.filter(|id| id.len() <= MAX_ID) {
                    *last = Some(text(id));
                }
                let name = match name.is_empty() {
                    true => &b"message"[..],
                    false => name,
                };
                if let Some(data) = data {
                    let (name, data) = (text(name), data.to_vec());
                    event(Event { name, data });
                }
            }
            Item::Oversize { .. } => is_too_large = true,
            Item::Unfinished { .. } => {}
        });
        if let Some(wanted) = self.events.retry() {
            self.retry = Duration::from_millis(wanted).clamp(MIN_RETRY, MAX_RETRY);
        }
        match is_too_large || self.events.is_too_large() {
            true => Err(TooLarge),
            false => Ok(()),
        }
    }
}

/// The events of one connection. An id that exceeds its maximum is kept long enough to tell.
fn events(limit: usize) -> Events {
    Events::new(limit).with_words(MAX_ID + 1)
}

#[cfg(test)]
mod tests {
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
        let mut parser = Parser::new(4);
        assert_eq!(parser.feed(b"data: 1234", |_| {}), Ok(()));
        assert_eq!(parser.feed(b"5", |_| {}), Err(TooLarge));
        for text in ["data: 12\ndata: 34\n", "data: 12345\n\ndata: 1"] {
            let mut parser = Parser::new(4);
            assert_eq!(parser.feed(text.as_bytes(), |_| {}), Err(TooLarge));
        }
    }

    #[test]
    fn an_event_that_breaks_off_is_requested_again() {
        let mut parser = Parser::new(100);
        events(&mut parser, &[b"id: 1\ndata: a\n\nid: 2\ndata: b"]);
        assert_eq!(parser.last_id(), Some("1"));
        parser.begin_again();
        let found = events(&mut parser, &[b"id: 2\ndata: b\n\n"]);
        assert_eq!(found, [("message".to_owned(), "b".to_owned())]);
        assert_eq!(parser.last_id(), Some("2"));
    }

    #[test]
    fn an_id_that_does_not_fit_into_a_header_does_not_count() {
        let mut parser = Parser::new(100);
        for (length, last) in [(MAX_ID, MAX_ID), (MAX_ID + 1, MAX_ID)] {
            let id = format!("id: {}\n\n", "x".repeat(length));
            events(&mut parser, &[id.as_bytes()]);
            assert_eq!(parser.last_id().map(str::len), Some(last));
        }
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
