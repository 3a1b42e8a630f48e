//! Reading a tape, and playing it.
//!
//! Tapes come from other machines and other people: a line has a maximum length, a line that cannot be
//! understood is an error with its number, and nothing on a tape names a process of this machine.

use std::borrow::Cow;
use std::io::BufRead;

use mcpinspect_core::model::{
    Direction, EndReason, GapReason, Input, InputSink, ServerEndpoint, ServerId, ServerIdentity,
    SessionId, SessionStart, Timestamp, Transport,
};
use mcpinspect_core::source::lines::{Lines, TapeError};
use mcpinspect_core::source::tape::MAX_LINE;
use mcpinspect_core::source::{Progress, Source};

use super::{Entry, FORMAT, Header, VERSION};

/// Entries to pass on per poll.
const PER_POLL: usize = 256;

/// Reads a tape, entry by entry. Returns nothing after an error.
#[derive(Debug)]
pub struct TapeReader<R> {
    lines: Lines<R>,
    header: Header,
}

impl<R: BufRead> TapeReader<R> {
    /// Reads a tape's header.
    ///
    /// # Errors
    /// It is not a tape, or one of another version.
    pub fn new(input: R) -> Result<Self, TapeError> {
        let mut lines = Lines::new(input, MAX_LINE);
        let header = lines.header(FORMAT, VERSION)?;
        Ok(Self { lines, header })
    }

    /// What the first line says.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

impl<R: BufRead> Iterator for TapeReader<R> {
    type Item = Result<Entry, TapeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.lines.next_value()
    }
}

/// Plays a tape as fast as the sink takes it. Times are those of the recording.
#[derive(Debug)]
pub struct TapeSource<R> {
    tape: TapeReader<R>,
    session: SessionId,
    /// By [`Direction`].
    positions: [u64; 2],
    time: Timestamp,
    has_started: bool,
    has_ended: bool,
}

impl<R: BufRead> TapeSource<R> {
    /// Plays `tape`.
    pub fn new(tape: TapeReader<R>) -> Self {
        let header = tape.header();
        Self {
            session: SessionId(header.session_id.as_str().into()),
            positions: [0; 2],
            time: Timestamp::parse(&header.started).unwrap_or_default(),
            has_started: false,
            has_ended: false,
            tape,
        }
    }

    fn start(&mut self, sink: &mut dyn InputSink) {
        let header = self.tape.header();
        let url = String::new();
        sink.input(Input::SessionStarted(SessionStart {
            id: self.session.clone(),
            server: ServerIdentity {
                server_id: ServerId(header.server_id.as_str().into()),
                fingerprint: header.fingerprint.clone(),
                name_source: header.name_source.clone(),
                former: None,
                publisher: None,
            },
            endpoint: match header.transport {
                Transport::Stdio => ServerEndpoint::Stdio,
                Transport::Http => ServerEndpoint::Http { url },
                Transport::Sse => ServerEndpoint::Sse { url },
            },
            // Their pids are another machine's, and here they may be anyone's.
            server_party: None,
            client_party: None,
            joined_midstream: header.joined_midstream,
            time: self.time,
        }));
        self.has_started = true;
    }

    fn entry(&mut self, entry: &Entry, sink: &mut dyn InputSink) {
        // A time that cannot be read, or goes back, becomes that of the previous message.
        let time = Timestamp::parse(&entry.time).unwrap_or(self.time);
        self.time = self.time.max(time);
        let session = Cow::Borrowed(&self.session);
        let (direction, time) = (entry.direction, self.time);
        let position = &mut self.positions[index(direction)];
        let text = match (&entry.message, &entry.text) {
            (Some(message), _) => Some(message.0.get()),
            (None, Some(text)) => Some(text.as_str()),
            (None, None) => None,
        };
        let lost = if text.is_none() { entry.bytes } else { 0 };
        if entry.gap_before || text.is_none() {
            sink.input(Input::Gap {
                session: session.clone(),
                direction,
                position: *position,
                bytes_lost: lost,
                reason: GapReason::PositionJump,
                time,
            });
            *position = position.saturating_add(lost);
        }
        if let Some(text) = text {
            sink.input(Input::Message {
                session,
                direction,
                position: *position,
                time,
                bytes: Cow::Borrowed(text.as_bytes()),
            });
            *position = position.saturating_add(text.len() as u64);
        }
    }

    fn end(&mut self, sink: &mut dyn InputSink) {
        if !self.has_started || self.has_ended {
            return;
        }
        self.has_ended = true;
        let header = self.tape.header();
        let ended = header.ended.as_deref().and_then(Timestamp::parse);
        sink.input(Input::SessionEnded {
            session: Cow::Borrowed(&self.session),
            reason: header.end_reason.unwrap_or(EndReason::MonitoringStopped),
            time: ended.unwrap_or(self.time).max(self.time),
        });
    }
}

impl<R: BufRead> Source for TapeSource<R> {
    type Error = TapeError;

    fn poll(&mut self, sink: &mut dyn InputSink) -> Result<Progress, TapeError> {
        if !self.has_started {
            self.start(sink);
        }
        for _ in 0..PER_POLL {
            match self.tape.next().transpose()? {
                Some(entry) => self.entry(&entry, sink),
                None => {
                    self.end(sink);
                    return Ok(Progress::Exhausted);
                }
            }
        }
        Ok(Progress::Open)
    }

    fn finish(&mut self, sink: &mut dyn InputSink) -> Result<(), TapeError> {
        self.end(sink);
        Ok(())
    }
}

fn index(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}
