//! What goes on the page: messages and events in order, within bounds.
//!
//! A recording may have gigabytes, and a browser has to open the page. So the start of a session is shown,
//! and texts up to a size; everything is counted, and the page says what it leaves out.

use mcpinspect_core::mcp::json::cut;
use mcpinspect_core::model::{Direction, Timestamp};

use super::definitions::Definitions;
use super::indent::indented;
use super::latency::Latencies;
use crate::{Counting, Entry, Header, Totals};

/// Messages to show.
const MESSAGES: usize = 4000;
/// Bytes of a message's text to show.
const TEXT: usize = 16 << 10;
/// Bytes of all texts together.
const TEXTS: usize = 24 << 20;
/// Events to show.
const EVENTS: usize = 2000;
/// Bytes of a name to keep.
const NAME: usize = 256;

/// A session to report.
#[derive(Debug)]
pub struct Report {
    pub(super) header: Header,
    pub(super) messages: Vec<ReportMessage>,
    pub(super) events: Vec<SessionEvent>,
    pub(super) definitions: Definitions,
    pub(super) latencies: Latencies,
    /// Events that are not among those shown.
    pub(super) more_events: u64,
    started: Timestamp,
    counting: Counting,
    texts: usize,
}

/// A message to show.
#[derive(Debug)]
pub(super) struct ReportMessage {
    pub(super) sequence: u64,
    /// Nanoseconds since the session's start.
    pub(super) offset: u64,
    pub(super) direction: Direction,
    pub(super) kind: String,
    pub(super) method: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) id: Option<String>,
    pub(super) answers: Option<u64>,
    pub(super) correlation: Option<String>,
    pub(super) latency: Option<u64>,
    pub(super) is_error: bool,
    pub(super) gap_before: bool,
    pub(super) is_modified: bool,
    pub(super) bytes: u64,
    pub(super) text: Body,
}

/// The text of a message.
#[derive(Debug)]
pub(super) enum Body {
    /// It was not recorded.
    Missing,
    /// There is no more room on the page.
    NoRoom,
    /// All of it.
    Full(String),
    /// Its beginning.
    Cut(String),
}

/// An event about the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvent {
    /// When it happened.
    pub time: Timestamp,
    /// Its type, such as `mcp_detection`.
    pub kind: String,
    /// How bad it is.
    pub severity: Option<String>,
    /// What happened, in a line.
    pub title: String,
    /// The event, as JSON.
    pub json: String,
}

impl Report {
    /// A report on the session that `header` describes.
    pub fn new(header: Header) -> Self {
        Self {
            started: Timestamp::parse(&header.started).unwrap_or_default(),
            header,
            messages: Vec::new(),
            events: Vec::new(),
            definitions: Definitions::default(),
            latencies: Latencies::default(),
            more_events: 0,
            counting: Counting::default(),
            texts: 0,
        }
    }

    /// Adds the next message.
    pub fn message(&mut self, entry: &Entry) {
        self.counting.add(entry);
        self.latencies.add(entry);
        if let Some(message) = &entry.message {
            self.definitions.read(entry, message.0.get());
        }
        if self.messages.len() < MESSAGES {
            let shown = self.shown(entry);
            self.messages.push(shown);
        }
    }

    /// Adds an event. Their order does not matter.
    pub fn event(&mut self, event: SessionEvent) {
        if self.events.len() < EVENTS {
            self.events.push(event);
        } else {
            self.more_events += 1;
        }
    }

    /// Totals of all messages, shown or not.
    pub(super) fn totals(&self) -> &Totals {
        &self.counting.totals
    }

    /// Nanoseconds from the session's start to a time.
    pub(super) fn offset(&self, time: Timestamp) -> u64 {
        time.nanos_since(self.started)
    }

    fn shown(&mut self, entry: &Entry) -> ReportMessage {
        let name = |text: &Option<String>| text.as_deref().map(|text| cut(text, NAME).to_owned());
        let time = Timestamp::parse(&entry.time).unwrap_or(self.started);
        ReportMessage {
            sequence: entry.sequence,
            offset: self.offset(time),
            direction: entry.direction,
            kind: cut(&entry.kind, NAME).to_owned(),
            method: name(&entry.method),
            tool: name(&entry.tool),
            id: name(&entry.id),
            answers: entry.answers,
            correlation: name(&entry.correlation),
            latency: entry.latency_ns,
            is_error: entry.is_error,
            gap_before: entry.gap_before,
            is_modified: entry.modified,
            bytes: entry.bytes,
            text: self.body(entry),
        }
    }

    fn body(&mut self, entry: &Entry) -> Body {
        let text = match (&entry.message, &entry.text) {
            (Some(message), _) => indented(message.0.get(), TEXT + 1),
            (None, Some(text)) => cut(text, TEXT + 1).to_owned(),
            (None, None) => return Body::Missing,
        };
        let kept = cut(&text, TEXT);
        if self.texts + kept.len() > TEXTS {
            return Body::NoRoom;
        }
        self.texts += kept.len();
        match kept.len() == text.len() {
            true => Body::Full(text),
            false => Body::Cut(kept.to_owned()),
        }
    }
}
