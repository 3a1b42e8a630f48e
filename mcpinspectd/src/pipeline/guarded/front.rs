//! The client's side of a guard: what waits to be told, and what was told as the server's.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::mcp::message::{Message, Payload, parse};
use crate::model::{Direction, GapReason, Input, SessionStart, Timestamp};

/// Requests that are remembered for their responses, and their bytes.
const MAX_REQUESTS: usize = 256;
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A message that crossed one side.
pub(super) struct Line {
    pub(super) direction: Direction,
    pub(super) hash: u64,
    /// `None` if it was too long to be kept.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) length: u64,
    pub(super) time: Timestamp,
}

/// What was told, or left out.
pub(super) struct Told {
    /// Bytes that wait no longer.
    pub(super) bytes: usize,
    /// Whether it was the session's end.
    pub(super) ended: bool,
}

/// See the module's text.
pub(super) struct Front {
    start: SessionStart,
    /// Whether the session was told.
    is_told: bool,
    /// Its processes, where they changed before it was told.
    parties: Option<Input<'static>>,
    waiting: VecDeque<Waiting>,
    /// Messages that were told as the server's: what a response that is told answers may be among them.
    requests: VecDeque<Line>,
    request_bytes: usize,
    /// Bytes of messages that were told. By [`Direction`].
    positions: [u64; 2],
}

enum Waiting {
    Line(Line),
    Happened(Box<Input<'static>>),
}

impl Line {
    fn memory(&self) -> usize {
        size_of::<Waiting>() + self.bytes.as_ref().map_or(0, Vec::len)
    }
}

impl Front {
    pub(super) fn new(start: SessionStart) -> Self {
        Self {
            start,
            is_told: false,
            parties: None,
            waiting: VecDeque::new(),
            requests: VecDeque::new(),
            request_bytes: 0,
            positions: [0; 2],
        }
    }

    /// Lets a message wait. Gives the bytes that it takes.
    pub(super) fn wait(&mut self, line: Line) -> usize {
        let memory = line.memory();
        self.waiting.push_back(Waiting::Line(line));
        memory
    }

    /// Takes out the message that waits for this one. Gives the bytes that it took.
    pub(super) fn matched(&mut self, line: &Line) -> Option<usize> {
        let is_same = |waiting: &Waiting| {
            matches!(waiting, Waiting::Line(other)
                if other.direction == line.direction && other.hash == line.hash)
        };
        let at = self.waiting.iter().position(is_same)?;
        match self.waiting.remove(at)? {
            Waiting::Line(line) => {
                let memory = line.memory();
                self.note_told(line);
                Some(memory)
            }
            Waiting::Happened(_) => None,
        }
    }

    /// Takes note of a message that is told as the server's.
    pub(super) fn note_told(&mut self, line: Line) {
        let memory = line.memory();
        if memory > MAX_REQUEST_BYTES / 4 {
            return;
        }
        self.request_bytes += memory;
        self.requests.push_back(line);
        while self.requests.len() > MAX_REQUESTS || self.request_bytes > MAX_REQUEST_BYTES {
            let Some(oldest) = self.requests.pop_front() else {
                return;
            };
            self.request_bytes -= oldest.memory();
        }
    }

    /// Takes note of what else happened at this side.
    pub(super) fn happened(&mut self, input: Input<'_>) {
        match input {
            // Lines come one by one, and the program is the guard.
            Input::SessionStarted(_)
            | Input::Bytes { .. }
            | Input::Message { .. }
            | Input::EndOfStream { .. }
            | Input::Program { .. } => {}
            Input::PartiesChanged { .. } if !self.is_told => {
                self.parties = Some(input.into_owned())
            }
            other => {
                let happened = Box::new(other.into_owned());
                self.waiting.push_back(Waiting::Happened(happened));
            }
        }
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When the message crossed that waits for longest.
    pub(super) fn oldest(&self) -> Option<Timestamp> {
        match self.waiting.front()? {
            Waiting::Line(line) => Some(line.time),
            Waiting::Happened(input) => input.time(),
        }
    }

    /// Whether what is next waits for nothing.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.waiting.front(), Some(Waiting::Happened(_)))
    }

    /// Tells what waits for longest.
    pub(super) fn tell_next(&mut self, on: &mut dyn FnMut(Input<'_>)) -> Option<Told> {
        let mut told = Told {
            bytes: 0,
            ended: false,
        };
        match self.waiting.pop_front()? {
            Waiting::Line(line) => {
                told.bytes = line.memory();
                self.tell_start(on);
                if let Some(request) = self.request_of(&line) {
                    self.tell(&request, on);
                }
                self.tell(&line, on);
            }
            Waiting::Happened(input) => {
                told.ended = matches!(*input, Input::SessionEnded { .. });
                match *input {
                    // The end of what was not told is nothing to tell.
                    Input::SessionEnded { .. } | Input::PartiesChanged { .. } if !self.is_told => {}
                    Input::Gap {
                        session,
                        direction,
                        bytes_lost,
                        reason,
                        time,
                        ..
                    } => {
                        self.tell_start(on);
                        let position = self.advance(direction, bytes_lost);
                        on(Input::Gap {
                            session,
                            direction,
                            position,
                            bytes_lost,
                            reason,
                            time,
                        });
                    }
                    other => {
                        self.tell_start(on);
                        on(other);
                    }
                }
            }
        }
        Some(told)
    }

    fn tell_start(&mut self, on: &mut dyn FnMut(Input<'_>)) {
        if !std::mem::replace(&mut self.is_told, true) {
            on(Input::SessionStarted(self.start.clone()));
            if let Some(parties) = self.parties.take() {
                on(parties);
            }
        }
    }

    fn tell(&mut self, line: &Line, on: &mut dyn FnMut(Input<'_>)) {
        let position = self.advance(line.direction, line.length);
        let session = Cow::Borrowed(&self.start.id);
        on(match &line.bytes {
            Some(bytes) => Input::Message {
                session,
                direction: line.direction,
                position,
                time: line.time,
                bytes: Cow::Borrowed(bytes),
            },
            None => Input::Gap {
                session,
                direction: line.direction,
                position,
                bytes_lost: line.length,
                reason: GapReason::FrameTooLarge,
                time: line.time,
            },
        });
    }

    /// Counts bytes that are told. Gives where they are.
    fn advance(&mut self, direction: Direction, bytes: u64) -> u64 {
        let position = &mut self.positions[direction as usize];
        let at = *position;
        *position += bytes;
        at
    }

    /// The request that a response answers, if it was told as the server's.
    fn request_of(&mut self, line: &Line) -> Option<Line> {
        let Ok(Payload::Single(parsed)) = parse(line.bytes.as_deref()?) else {
            return None;
        };
        let Message::Response(response) = parsed.message else {
            return None;
        };
        let id = response.id?;
        let asks = |other: &Line| {
            let payload = parse(other.bytes.as_deref().unwrap_or_default());
            matches!(payload, Ok(Payload::Single(parsed)) if matches!(
                &parsed.message, Message::Request(request) if request.id == id))
        };
        let mut earlier = self.requests.iter();
        let at = earlier.rposition(|other| other.direction != line.direction && asks(other))?;
        let request = self.requests.remove(at)?;
        self.request_bytes -= request.memory();
        Some(request)
    }
}
