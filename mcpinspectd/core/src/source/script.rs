//! Makes the inputs of a session by hand.
//!
//! Tests, benchmarks, fuzz targets and demonstrations need sessions without a kernel. A [`Script`]
//! keeps what inputs have to agree on: the session's name, the position in each direction, the time
//! and the request ids. It returns inputs instead of collecting them, so that the caller decides where
//! they go: into an engine, a sink or a tape.
//!
//! ```
//! use mcpinspect_core::model::{Direction, EndReason};
//! use mcpinspect_core::source::script::Script;
//!
//! let mut script = Script::new("files");
//! let mut inputs = vec![script.start()];
//! inputs.extend(script.exchange("tools/list", "{}", r#"{"tools":[]}"#));
//! inputs.push(script.gap(Direction::ServerToClient, 17));
//! inputs.push(script.end(EndReason::ServerExited));
//! ```

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::value::RawValue;

use crate::model::{
    BlindMechanism, Direction, EndReason, GapReason, Input, Party, Pid, ServerEndpoint, ServerId,
    ServerIdentity, ServerSide, SessionId, SessionStart, Timestamp,
};

/// One handmade session.
#[derive(Clone, Debug)]
pub struct Script {
    start: SessionStart,
    /// By [`Direction`].
    positions: [u64; 2],
    time: Timestamp,
    /// Nanoseconds between two messages.
    pace: u64,
    next_id: u64,
}

impl Script {
    /// A session with a server called `server`, which also names the session. It starts at time 0,
    /// with one message per nanosecond.
    pub fn new(server: &str) -> Self {
        let start = SessionStart {
            id: SessionId(server.into()),
            server: ServerIdentity {
                server_id: ServerId(server.into()),
                fingerprint: String::new(),
                name_source: String::new(),
                publisher: None,
                former: None,
            },
            endpoint: ServerEndpoint::Stdio,
            server_party: None,
            client_party: None,
            joined_midstream: false,
            time: Timestamp(0),
        };
        Self {
            start,
            positions: [0; 2],
            time: Timestamp(0),
            pace: 1,
            next_id: 0,
        }
    }

    /// Names the session.
    #[must_use]
    pub fn session(mut self, id: &str) -> Self {
        self.start.id = SessionId(id.into());
        self
    }

    /// Sets the server's identity.
    #[must_use]
    pub fn identity(mut self, identity: ServerIdentity) -> Self {
        self.start.server = identity;
        self
    }

    /// Sets where the server is reached.
    #[must_use]
    pub fn endpoint(mut self, endpoint: ServerEndpoint) -> Self {
        self.start.endpoint = endpoint;
        self
    }

    /// Sets the server's and the client's process.
    #[must_use]
    pub fn processes(mut self, server: Option<Party>, client: Option<Party>) -> Self {
        self.start.server_party = server;
        self.start.client_party = client;
        self
    }

    /// Makes it a session that was already open when first seen.
    #[must_use]
    pub fn joined_midstream(mut self) -> Self {
        self.start.joined_midstream = true;
        self
    }

    /// Sets when it starts, and the nanoseconds between two messages.
    #[must_use]
    pub fn paced(mut self, start: Timestamp, pace: u64) -> Self {
        self.time = start;
        self.pace = pace;
        self
    }

    /// The session.
    pub fn id(&self) -> &SessionId {
        &self.start.id
    }

    /// The time of the last input.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Lets time pass.
    pub fn wait(&mut self, nanos: u64) {
        self.time.0 += nanos;
    }

    /// Bytes of a direction so far, lost ones included.
    pub fn position(&self, direction: Direction) -> u64 {
        self.positions[direction as usize]
    }

    /// The session starts.
    pub fn start(&self) -> Input<'static> {
        Input::SessionStarted(SessionStart {
            time: self.time,
            ..self.start.clone()
        })
    }

    /// Bytes cross one of its streams, at the time of the previous input.
    pub fn bytes<'a>(&'a mut self, direction: Direction, bytes: &'a [u8]) -> Input<'a> {
        let position = self.advance(direction, bytes.len());
        Input::Bytes {
            session: self.id().into(),
            direction,
            position,
            time: self.time,
            bytes: bytes.into(),
        }
    }

    /// A line crosses one of its streams: `text` and a newline.
    pub fn line(&mut self, direction: Direction, text: impl Display) -> Input<'static> {
        self.wait(self.pace);
        let line = format!("{text}\n").into_bytes();
        let position = self.advance(direction, line.len());
        Input::Bytes {
            session: self.owned_id(),
            direction,
            position,
            time: self.time,
            bytes: line.into(),
        }
    }

    /// A whole message crosses a transport that frames messages itself.
    pub fn message(&mut self, direction: Direction, text: impl Display) -> Input<'static> {
        self.wait(self.pace);
        let message = text.to_string().into_bytes();
        let position = self.advance(direction, message.len());
        Input::Message {
            session: self.owned_id(),
            direction,
            position,
            time: self.time,
            bytes: message.into(),
        }
    }

    /// The client asks and the server answers, one line each. Ids count from 0.
    pub fn exchange(
        &mut self,
        method: &str,
        params: impl Display,
        result: impl Display,
    ) -> [Input<'static>; 2] {
        let id = self.next_id;
        self.next_id += 1;
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let response = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        [
            self.line(Direction::ClientToServer, request),
            self.line(Direction::ServerToClient, response),
        ]
    }

    /// A direction jumps `bytes` ahead without a report of what was in between.
    pub fn jump(&mut self, direction: Direction, bytes: u64) {
        self.positions[direction as usize] += bytes;
    }

    /// Bytes of one of its streams are lost because the ring was full.
    pub fn gap(&mut self, direction: Direction, bytes_lost: u64) -> Input<'static> {
        let position = self.positions[direction as usize];
        self.positions[direction as usize] += bytes_lost;
        Input::Gap {
            session: self.owned_id(),
            direction,
            position,
            bytes_lost,
            reason: GapReason::RingFull,
            time: self.time,
        }
    }

    /// The two ends disagree about the next bytes.
    pub fn difference(
        &mut self,
        direction: Direction,
        read: &[u8],
        written: &[u8],
    ) -> Input<'static> {
        Input::EndsDisagree {
            session: self.owned_id(),
            direction,
            position: self.positions[direction as usize],
            bytes: read.len() as u64,
            read: read.to_vec().into(),
            written: written.to_vec().into(),
            time: self.time,
        }
    }

    /// A process moves bytes in a way that cannot be copied.
    pub fn blind_spot(&self, mechanism: BlindMechanism, pid: Pid) -> Input<'static> {
        Input::BlindSpot {
            session: self.owned_id(),
            mechanism,
            pid,
            uid: None,
            found: None,
            time: self.time,
        }
    }

    /// Its processes change or become known.
    pub fn parties(&self, server_pid: Option<Pid>, client_pid: Option<Pid>) -> Input<'static> {
        Input::PartiesChanged {
            session: self.owned_id(),
            server_pid,
            client_pid,
            server_side: ServerSide::default(),
        }
    }

    /// The program behind its server becomes known.
    pub fn program(&mut self, definition: Box<RawValue>) -> Input<'static> {
        self.wait(self.pace);
        Input::Program {
            session: self.owned_id(),
            definition: definition.into(),
            time: self.time,
        }
    }

    /// One of its streams ends.
    pub fn end_of_stream(&self, direction: Direction) -> Input<'static> {
        Input::EndOfStream {
            session: self.owned_id(),
            direction,
            time: self.time,
        }
    }

    /// The session ends.
    pub fn end(&self, reason: EndReason) -> Input<'static> {
        Input::SessionEnded {
            session: self.owned_id(),
            reason,
            time: self.time,
        }
    }

    fn owned_id(&self) -> Cow<'static, SessionId> {
        Cow::Owned(self.start.id.clone())
    }

    /// Advances a direction. Returns where it was.
    fn advance(&mut self, direction: Direction, bytes: usize) -> u64 {
        let position = self.positions[direction as usize];
        self.positions[direction as usize] += bytes as u64;
        position
    }
}
