//! A tape in memory, with requests and answers related.
//!
//! Replaying looks ahead: which answer a request had, what the client said to a request of the server. So
//! the tape is read as a whole, up to a limit. Relations are recomputed from the messages themselves,
//! because tapes also come from other programs, and from people who edited them.

use std::collections::HashMap;
use std::io::BufRead;

use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Payload};
use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_core::source::lines::TapeError;
use mcpinspect_tape::read::TapeReader;
use mcpinspect_tape::{Entry, Header};
use thiserror::Error;

/// Most bytes of messages.
const MAX_BYTES: usize = 256 << 20;

/// Most messages.
const MAX_MESSAGES: usize = 500_000;

/// A tape.
#[derive(Debug)]
pub struct Recording {
    /// Its header.
    pub header: Header,
    /// Its messages in order; the members of batches are messages of their own.
    pub messages: Vec<TapeMessage>,
    /// Messages whose text was not recorded.
    pub without_text: u64,
}

/// A message.
#[derive(Debug)]
pub struct TapeMessage {
    /// Its number on the tape, from 1; that of its batch.
    pub number: u64,
    /// When it was sent.
    pub time: Timestamp,
    /// Which way.
    pub direction: Direction,
    /// What it is.
    pub kind: TapeMessageKind,
    /// Its text.
    pub text: Box<str>,
    /// Whether secrets in it are masked.
    pub is_masked: bool,
}

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapeMessageKind {
    /// A request.
    Request {
        /// Its method.
        method: Box<str>,
        /// Its id, as JSON text.
        id: Box<str>,
        /// The index of its answer in [`Recording::messages`].
        answer: Option<usize>,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: Box<str>,
    },
    /// An answer.
    Response {
        /// The index of its request in [`Recording::messages`].
        request: Option<usize>,
    },
    /// Not a message.
    Invalid,
}

/// Why a tape cannot be replayed.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error(transparent)]
    Tape(#[from] TapeError),
    /// It is too large.
    #[error(
        "the tape is too large to replay: more than {} MiB or {MAX_MESSAGES} messages",
        MAX_BYTES >> 20
    )]
    TooLarge,
    /// Its messages were not recorded.
    #[error("the tape has no message texts: its session was recorded without them")]
    NoText,
}

impl Recording {
    /// Reads a tape.
    ///
    /// # Errors
    /// It cannot be read, or replayed.
    pub fn read<R: BufRead>(tape: TapeReader<R>) -> Result<Self, RecordingError> {
        let mut reader = RecordingReader {
            recording: Self {
                header: tape.header().clone(),
                messages: Vec::new(),
                without_text: 0,
            },
            bytes: 0,
            open: HashMap::new(),
        };
        for entry in tape {
            reader.entry(entry?)?;
        }
        let recording = reader.recording;
        if recording.messages.is_empty() && recording.without_text > 0 {
            return Err(RecordingError::NoText);
        }
        Ok(recording)
    }

    /// Requests of one side, with their indexes.
    pub fn requests(&self, direction: Direction) -> impl Iterator<Item = (usize, &TapeMessage)> {
        let messages = self.messages.iter().enumerate();
        messages.filter(move |(_, recorded)| {
            recorded.direction == direction
                && matches!(recorded.kind, TapeMessageKind::Request { .. })
        })
    }
}

impl TapeMessage {
    /// Its method, unless it is an answer.
    pub fn method(&self) -> Option<&str> {
        match &self.kind {
            TapeMessageKind::Request { method, .. } | TapeMessageKind::Notification { method } => {
                Some(method)
            }
            _ => None,
        }
    }

    /// The index of its answer.
    pub fn answer(&self) -> Option<usize> {
        match self.kind {
            TapeMessageKind::Request { answer, .. } => answer,
            _ => None,
        }
    }

    /// The message, parsed again.
    pub fn message(&self) -> Option<Message<'_>> {
        match message::parse(self.text.as_bytes()) {
            Ok(Payload::Single(parsed)) => Some(parsed.message),
            _ => None,
        }
    }
}

struct RecordingReader {
    recording: Recording,
    bytes: usize,
    /// Requests without an answer so far, by their direction and id.
    open: HashMap<(Direction, Box<str>), usize>,
}

impl RecordingReader {
    fn entry(&mut self, entry: Entry) -> Result<(), RecordingError> {
        let text = match (&entry.message, &entry.text) {
            (Some(message), _) => message.0.get(),
            (None, Some(text)) => text.as_str(),
            (None, None) => {
                self.recording.without_text += 1;
                return Ok(());
            }
        };
        let mut outcome = Ok(());
        match message::parse(text.as_bytes()) {
            Ok(Payload::Single(parsed)) => outcome = self.add(&entry, text, Some(&parsed.message)),
            Ok(Payload::Batch(batch)) => batch.for_each(|member| {
                if let (Ok(parsed), Ok(())) = (member, &outcome) {
                    let text = rewritten(&parsed.message);
                    outcome = self.add(&entry, &text, Some(&parsed.message));
                }
            }),
            Err(_) => outcome = self.add(&entry, text, None),
        }
        outcome
    }

    fn add(
        &mut self,
        entry: &Entry,
        text: &str,
        message: Option<&Message<'_>>,
    ) -> Result<(), RecordingError> {
        let messages = &mut self.recording.messages;
        self.bytes += text.len();
        if self.bytes > MAX_BYTES || messages.len() == MAX_MESSAGES {
            return Err(RecordingError::TooLarge);
        }
        let at = messages.len();
        let direction = entry.direction;
        let kind = match message {
            Some(Message::Request(request)) => {
                let id: Box<str> = request.id.0.into();
                self.open.insert((direction, id.clone()), at);
                TapeMessageKind::Request {
                    method: request.method.as_ref().into(),
                    id,
                    answer: None,
                }
            }
            Some(Message::Notification(notification)) => TapeMessageKind::Notification {
                method: notification.method.as_ref().into(),
            },
            Some(Message::Response(response)) => {
                let id = response.id.map(|id| (direction.reverse(), id.0.into()));
                let request = id.and_then(|id| self.open.remove(&id));
                if let Some(TapeMessage {
                    kind: TapeMessageKind::Request { answer, .. },
                    ..
                }) = request.and_then(|request| messages.get_mut(request))
                {
                    *answer = Some(at);
                }
                TapeMessageKind::Response { request }
            }
            None => TapeMessageKind::Invalid,
        };
        // A time that cannot be read, or goes back, becomes that of the previous message.
        let before = messages.last().map_or(0, |recorded| recorded.time.0);
        let time = Timestamp::parse(&entry.time).map_or(0, |time| time.0);
        messages.push(TapeMessage {
            number: entry.sequence,
            time: Timestamp(time.max(before)),
            direction,
            kind,
            text: text.into(),
            is_masked: entry.modified,
        });
        Ok(())
    }
}

/// A member of a batch, as a message of its own.
fn rewritten(message: &Message<'_>) -> String {
    use mcpinspect_core::mcp::message::Outcome;
    use serde_json::Value;

    let mut text = "{\"jsonrpc\":\"2.0\"".to_owned();
    let mut member = |name: &str, value: &str| {
        text.push_str(",\"");
        text.push_str(name);
        text.push_str("\":");
        text.push_str(value);
    };
    if let Some(id) = message.id() {
        member("id", id.0);
    }
    if let Some(method) = message.method() {
        member("method", &Value::from(method).to_string());
    }
    if let Some(params) = message.params() {
        member("params", params.get());
    }
    if let Message::Response(response) = message {
        match response.outcome {
            Outcome::Result(result) => member("result", result.get()),
            Outcome::Error(error) => member("error", error.get()),
        }
    }
    text.push('}');
    text
}
