//! The client's side of a guard: what waits to be reported, and what was reported as the server's.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use mcpinspect_core::mcp::message::{Message, Payload, parse};
use mcpinspect_core::model::{Direction, GapReason, Input, SessionStart, Timestamp};

/// Nanoseconds that a message waits for its match at the back. One stream may be held back for 1.5
/// seconds longer than another to keep its messages in order.
const PATIENCE: u64 = 3_000_000_000;
/// Requests remembered for their responses, and their bytes.
const MAX_REQUESTS: usize = 256;
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A message that crossed one side.
pub(super) struct Line {
    pub(super) direction: Direction,
    pub(super) hash: u64,
    /// `None` if it was too long to keep.
    pub(super) bytes: Option<Vec<u8>>,
    pub(super) length: u64,
    pub(super) time: Timestamp,
}

/// What was reported, or left out, and no longer waits.
pub(super) enum Reported {
    /// A message: its direction, its hash, and its size in bytes.
    Line(Direction, u64, usize),
    /// The session's end.
    End,
    /// Anything else.
    Other,
}

/// See the module documentation.
pub(super) struct Front {
    start: SessionStart,
    /// Whether the session was reported.
    is_reported: bool,
    /// Its processes, if they changed before it was reported.
    parties: Option<Input<'static>>,
    /// By sequence number: see [`super::pending_index`].
    pending: BTreeMap<u64, PendingInput>,
    /// Messages reported as the server's: a reported response may answer one of them.
    requests: VecDeque<Line>,
    request_bytes: usize,
    /// Bytes of reported messages. By [`Direction`].
    positions: [u64; 2],
}

enum PendingInput {
    Line(Line),
    Happened(Box<Input<'static>>),
}

impl Line {
    fn memory(&self) -> usize {
        size_of::<PendingInput>() + self.bytes.as_ref().map_or(0, Vec::len)
    }
}

impl Front {
    pub(super) fn new(start: SessionStart) -> Self {
        Self {
            start,
            is_reported: false,
            parties: None,
            pending: BTreeMap::new(),
            requests: VecDeque::new(),
            request_bytes: 0,
            positions: [0; 2],
        }
    }

    /// Lets a message wait for its turn. Returns how many bytes it occupies.
    pub(super) fn wait(&mut self, sequence: u64, line: Line) -> usize {
        let memory = line.memory();
        self.pending.insert(sequence, PendingInput::Line(line));
        memory
    }

    /// Removes a message that was reported as the server's. Returns how many bytes it occupied.
    pub(super) fn matched(&mut self, sequence: u64) -> usize {
        match self.pending.remove(&sequence) {
            Some(PendingInput::Line(line)) => {
                let memory = line.memory();
                self.note_reported(line);
                memory
            }
            _ => 0,
        }
    }

    /// Notes a message that is reported as the server's.
    pub(super) fn note_reported(&mut self, line: Line) {
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

    /// Notes any other input at this side. Returns whether it waits for its turn.
    pub(super) fn happened(&mut self, sequence: u64, input: Input<'_>) -> bool {
        match input {
            // Lines arrive one by one, and the program is the guard.
            Input::SessionStarted(_)
            | Input::Bytes { .. }
            | Input::Message { .. }
            | Input::EndOfStream { .. }
            | Input::Program { .. } => false,
            Input::PartiesChanged { .. } if !self.is_reported => {
                self.parties = Some(input.into_owned());
                false
            }
            other => {
                let happened = Box::new(other.into_owned());
                self.pending
                    .insert(sequence, PendingInput::Happened(happened));
                true
            }
        }
    }

    /// The sequence number of the oldest input that waits.
    pub(super) fn next_sequence(&self) -> Option<u64> {
        self.pending.keys().next().copied()
    }

    /// Whether the oldest input is due: it waits for nothing, or has waited too long.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        match self.pending.values().next() {
            // A clock that was set back must not make anything wait.
            Some(PendingInput::Line(line)) => {
                let waited = now.nanos_since(line.time).max(line.time.nanos_since(now));
                waited >= PATIENCE
            }
            Some(PendingInput::Happened(_)) => true,
            None => false,
        }
    }

    /// Reports the oldest input that waits.
    pub(super) fn report_next(&mut self, on: &mut dyn FnMut(Input<'_>)) -> Option<Reported> {
        match self.pending.pop_first()?.1 {
            PendingInput::Line(line) => {
                self.report_start(on);
                if let Some(request) = self.request_of(&line) {
                    self.report(&request, on);
                }
                self.report(&line, on);
                Some(Reported::Line(line.direction, line.hash, line.memory()))
            }
            PendingInput::Happened(input) => {
                let ended = matches!(*input, Input::SessionEnded { .. });
                match *input {
                    // The end of a session that was not reported is not reported either.
                    Input::SessionEnded { .. } | Input::PartiesChanged { .. }
                        if !self.is_reported => {}
                    Input::Gap {
                        session,
                        direction,
                        bytes_lost,
                        reason,
                        time,
                        ..
                    } => {
                        self.report_start(on);
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
                        self.report_start(on);
                        on(other);
                    }
                }
                Some(if ended {
                    Reported::End
                } else {
                    Reported::Other
                })
            }
        }
    }

    fn report_start(&mut self, on: &mut dyn FnMut(Input<'_>)) {
        if !std::mem::replace(&mut self.is_reported, true) {
            on(Input::SessionStarted(self.start.clone()));
            if let Some(parties) = self.parties.take() {
                on(parties);
            }
        }
    }

    fn report(&mut self, line: &Line, on: &mut dyn FnMut(Input<'_>)) {
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

    /// Counts reported bytes. Returns their position.
    fn advance(&mut self, direction: Direction, bytes: u64) -> u64 {
        let position = &mut self.positions[direction as usize];
        let at = *position;
        *position += bytes;
        at
    }

    /// The request that a response answers, if it was reported as the server's.
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
