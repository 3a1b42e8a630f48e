//! tcpdump for MCP: messages as they cross the wire, for a person or for a program.
//!
//! A tap is one more output of the engine. It writes either JSON lines of a fixed shape ([`jsonl`]) or
//! lines for people ([`human`]). Both share this module: a filter, the frame counts for the closing
//! summary, and an output that is written in whole lines. When the reader leaves
//! (`mcpinspectd tap | head`), the tap ends without an error.

use std::collections::HashMap;
use std::io::{self, Write};

use mcpinspect_core::model::{
    CaptureTotals, Direction, Pid, ServerId, SessionId, StreamLedger, Timestamp,
};
use mcpinspect_engine::event::body::SessionStarted;
use mcpinspect_engine::event::{Body, Event};
use mcpinspect_engine::{MessageSeen, Output, OutputSink};

mod filter;
pub mod human;
pub mod jsonl;
mod preview;

pub use filter::Filter;
pub use human::Human;
pub use jsonl::Jsonl;

/// Write when this many bytes have gathered, at the latest.
const GATHERED: usize = 64 * 1024;
/// Maximum number of sessions to remember for the summary and for filtering.
const MAX_SESSIONS: usize = 65_536;

/// The format of a tap's lines. Each method appends whole lines to `out`, or nothing.
pub trait Format {
    /// The tap is attached.
    fn ready(&mut self, ready: &Ready, out: &mut Vec<u8>);
    /// A frame crossed the wire.
    fn message(&mut self, message: &MessageSeen<'_>, out: &mut Vec<u8>);
    /// Something else happened.
    fn event(&mut self, event: &Event, out: &mut Vec<u8>);
    /// The tap is over.
    fn summary(&mut self, summary: &Summary, out: &mut Vec<u8>);
}

/// The first line of a tap.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Ready {
    /// When the probes were attached.
    pub timestamp: Timestamp,
    /// The daemon's version.
    pub version: &'static str,
    /// Its process.
    pub pid: Pid,
}

impl Ready {
    /// This program, attached now.
    pub fn now(timestamp: Timestamp) -> Self {
        Self {
            timestamp,
            version: env!("CARGO_PKG_VERSION"),
            pid: Pid(std::process::id()),
        }
    }
}

/// The last line of a tap.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// When the tap ended.
    pub timestamp: Timestamp,
    /// The ledger of every stream.
    pub streams: Vec<StreamSummary>,
    /// The probes' totals over all streams of the machine.
    pub capture: CaptureTotals,
}

/// The ledger of one stream.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StreamSummary {
    /// The bytes.
    #[serde(flatten)]
    pub ledger: StreamLedger,
    /// Frames seen: messages, batches and frames that are neither.
    pub frames: u64,
    /// Its server, if it became known; not part of the JSON.
    #[serde(skip)]
    pub server: Option<ServerId>,
}

/// What a tap knows about a session.
#[derive(Clone, Debug, Default)]
struct TappedSession {
    server: Option<ServerId>,
    server_pid: Option<Pid>,
    client_pid: Option<Pid>,
    /// Per direction.
    frames: [u64; 2],
}

/// A tap that writes to `W`.
pub struct Tap<W, F> {
    out: W,
    format: F,
    filter: Filter,
    sessions: HashMap<SessionId, TappedSession>,
    gathered: Vec<u8>,
    state: State,
}

enum State {
    Open,
    /// The reader is gone.
    Closed,
    Failed(io::Error),
}

impl<W: Write, F: Format> Tap<W, F> {
    /// Creates a tap that shows what `filter` admits.
    pub fn new(out: W, format: F, filter: Filter) -> Self {
        Self {
            out,
            format,
            filter,
            sessions: HashMap::new(),
            gathered: Vec::new(),
            state: State::Open,
        }
    }

    /// Writes the first line, with the next flush.
    pub fn ready(&mut self, ready: &Ready) {
        self.format.ready(ready, &mut self.gathered);
    }

    /// Writes what has gathered. Call this after each batch of input, and on a timer.
    pub fn flush(&mut self) {
        if matches!(self.state, State::Open)
            && let Err(error) = write_whole(&mut self.out, &self.gathered)
        {
            self.state = match error.kind() {
                io::ErrorKind::BrokenPipe => State::Closed,
                _ => State::Failed(error),
            };
        }
        self.gathered.clear();
        // Do not keep the memory of one message of many megabytes.
        self.gathered.shrink_to(4 * GATHERED);
    }

    /// Whether the output still has a reader.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Writes the summary and ends the tap. `ledger` holds all streams that the tap has seen.
    ///
    /// # Errors
    /// The first failure to write. A reader that has left is not an error.
    pub fn finish(
        mut self,
        now: Timestamp,
        ledger: &[StreamLedger],
        capture: CaptureTotals,
    ) -> io::Result<()> {
        let mut streams: Vec<StreamSummary> = ledger
            .iter()
            .filter_map(|ledger| {
                let known = self.sessions.get(&ledger.session_id);
                if !self.filter.is_empty() && !known.is_some_and(|known| self.admits(known)) {
                    return None;
                }
                let frames = known.map_or(0, |known| known.frames[side(ledger.direction)]);
                Some(StreamSummary {
                    ledger: ledger.clone(),
                    frames,
                    server: known.and_then(|known| known.server.clone()),
                })
            })
            .collect();
        streams.sort_by(|a, b| {
            (&a.ledger.session_id, a.ledger.direction)
                .cmp(&(&b.ledger.session_id, b.ledger.direction))
        });
        let summary = Summary {
            timestamp: now,
            streams,
            capture,
        };
        self.format.summary(&summary, &mut self.gathered);
        self.flush();
        match self.state {
            State::Open | State::Closed => Ok(()),
            State::Failed(error) => Err(error),
        }
    }

    fn admits(&self, known: &TappedSession) -> bool {
        self.filter
            .admits(known.server.as_ref(), [known.server_pid, known.client_pid])
    }

    fn session(&mut self, session: &SessionId) -> Option<&mut TappedSession> {
        if self.sessions.len() >= MAX_SESSIONS && !self.sessions.contains_key(session) {
            return None;
        }
        Some(self.sessions.entry(session.clone()).or_default())
    }

    fn learn(&mut self, event: &Event) {
        if let (Some(subject), Body::SessionStarted(SessionStarted { server, client, .. })) =
            (&event.subject, &event.body)
            && let Some(known) = self.session(&subject.session_id)
        {
            known.server = Some(subject.server_id.clone());
            known.server_pid = server
                .as_ref()
                .map(|party| party.pid)
                .or(subject.server_pid);
            known.client_pid = client.as_ref().map(|party| party.pid);
        }
    }
}

impl<W: Write, F: Format> OutputSink for Tap<W, F> {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => self.message(message),
            Output::Event(event) => self.event(event),
            _ => {}
        }
    }
}

impl<W: Write, F: Format> Tap<W, F> {
    fn message(&mut self, message: &MessageSeen<'_>) {
        if let Some(known) = self.session(&message.session.id) {
            known.frames[side(message.frame.direction)] += 1;
            if known.server.as_ref() != Some(&message.session.server_id) {
                known.server = Some(message.session.server_id.clone());
            }
            // A process that takes over does not remove the former one from the session.
            known.server_pid = message.session.server_pid.or(known.server_pid);
            known.client_pid = message.session.client_pid.or(known.client_pid);
        }
        let parties = [message.session.server_pid, message.session.client_pid];
        if self.is_open()
            && self
                .filter
                .admits(Some(&message.session.server_id), parties)
        {
            self.format.message(message, &mut self.gathered);
            if self.gathered.len() >= GATHERED {
                self.flush();
            }
        }
    }

    fn event(&mut self, event: &Event) {
        self.learn(event);
        let admitted = self.filter.is_empty()
            || match &event.subject {
                Some(subject) => match self.sessions.get(&subject.session_id) {
                    Some(known) => self.admits(known),
                    None => self
                        .filter
                        .admits(Some(&subject.server_id), [subject.server_pid, None]),
                },
                None => true,
            };
        if self.is_open() && admitted {
            self.format.event(event, &mut self.gathered);
        }
    }
}

fn side(direction: Direction) -> usize {
    match direction {
        Direction::ClientToServer => 0,
        Direction::ServerToClient => 1,
    }
}

/// Writes all bytes, waiting for the output if necessary: a terminal that another program has switched to
/// non-blocking mode does not wait on its own.
fn write_whole(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match again(|| out.write(bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => bytes = &bytes[n..],
        }
    }
    again(|| out.flush())
}

/// Repeats an attempt while it is interrupted or would block.
fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
