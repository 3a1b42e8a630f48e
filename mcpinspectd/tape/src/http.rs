//! Recordings of HTTP: the bytes of a session's connections, each direction in one piece, as `tcpflow`
//! writes them and Wireshark saves a stream.
//!
//! Such files say neither when something was sent nor how the directions interleave. So all inputs share one
//! time, and messages are ordered by connection, then by exchange, requests first. A response comes no
//! earlier than the request that it answers, even if that went over a later connection: in the
//! transport of 2024-11-05, all answers come over the first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::fmt::Write as _;

use mcpinspect_core::http::{Connection, Event, Exchange, Limits, Target};
use mcpinspect_core::mcp::{Message, Payload, parse};
use mcpinspect_core::model::{
    Direction, EndReason, GapReason, Input, InputSink, ServerEndpoint, SessionId, SessionStart,
    Timestamp,
};
use mcpinspect_core::source::{Progress, Source};
use mcpinspect_process::identity::of_url_alone;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Bytes to read at a time.
const PIECE: usize = 64 << 10;

/// Inputs to pass on per poll.
const PER_POLL: usize = 256;

/// The bytes of one connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// What its client sent.
    pub client: Vec<u8>,
    /// What its server sent.
    pub server: Vec<u8>,
}

/// Something about a recording that no input expresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Which connection, from 1.
    pub connection: usize,
    /// The remark; may contain text of the recording.
    pub text: String,
}

/// Why a recording is not a session.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoSession {
    /// It contains no MCP.
    #[error("the files contain no MCP over HTTP")]
    NoMcp,
    /// It contains several sessions, and none was chosen.
    #[error("the files contain several sessions: {}; choose one with --session", .0.join(", "))]
    Several(Vec<String>),
    /// It does not contain the chosen session.
    #[error("the files contain no session {0}")]
    Missing(String),
}

/// Plays a recording back as one session.
#[derive(Debug)]
pub struct HttpSource {
    start: SessionStart,
    messages: VecDeque<OrderedMessage>,
    remarks: Vec<Remark>,
    /// By [`Direction`].
    positions: [u64; 2],
    has_started: bool,
    has_ended: bool,
}

/// A message, or the loss of one.
#[derive(Debug)]
struct OrderedMessage {
    order_key: OrderKey,
    direction: Direction,
    content: Result<Vec<u8>, u64>,
}

/// Its position in the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderKey {
    flow: usize,
    exchange: Exchange,
    phase: ExchangePhase,
}

/// Its position in the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExchangePhase {
    Request,
    Response,
    /// It answers something here but arrived elsewhere.
    Later,
}

/// Reads connections, and collects what they contain.
#[derive(Default)]
struct FlowReader {
    messages: Vec<OrderedMessage>,
    /// The sessions that exchanges belong to.
    sessions: BTreeMap<(usize, Exchange), String>,
    remarks: Vec<Remark>,
    /// Where the first request goes.
    target: Option<Target>,
    /// Whether it is the transport of 2024-11-05.
    is_sse: bool,
}

impl HttpSource {
    /// Reads a recording. `session` chooses one of several sessions by its `Mcp-Session-Id`; all inputs
    /// get `time`.
    ///
    /// # Errors
    /// See [`NoSession`].
    pub fn new(flows: &[Flow], session: Option<&str>, time: Timestamp) -> Result<Self, NoSession> {
        let mut reader = FlowReader::default();
        for (index, flow) in flows.iter().enumerate() {
            reader.flow(index, flow);
        }
        reader.choose(session)?;
        reader.order();
        let target = reader.target.unwrap_or_default();
        let host = target.authority.as_deref().unwrap_or_default();
        let path = target.path.as_deref().unwrap_or_default();
        let url = format!("http://{host}{path}");
        let mut digest = Sha256::new();
        for flow in flows {
            digest.update(&flow.client);
            digest.update(&flow.server);
        }
        digest.update(session.unwrap_or_default());
        let start = SessionStart {
            id: SessionId(format!("http-{}", hex::encode(&digest.finalize()[..8])).into()),
            server: of_url_alone(&url),
            endpoint: if reader.is_sse {
                ServerEndpoint::Sse { url }
            } else {
                ServerEndpoint::Http { url }
            },
            server_party: None,
            client_party: None,
            joined_midstream: false,
            time,
        };
        Ok(Self {
            start,
            messages: reader.messages.into(),
            remarks: reader.remarks,
            positions: [0; 2],
            has_started: false,
            has_ended: false,
        })
    }

    /// The session.
    pub fn session(&self) -> &SessionStart {
        &self.start
    }

    /// What no input expresses: losses, anomalies, heads that disagree with their message.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }

    fn input(&mut self, message: OrderedMessage, sink: &mut dyn InputSink) {
        let direction = message.direction;
        let position = &mut self.positions[match direction {
            Direction::ClientToServer => 0,
            Direction::ServerToClient => 1,
        }];
        let (session, time) = ((&self.start.id).into(), self.start.time);
        match message.content {
            Ok(bytes) => {
                let at = *position;
                *position += bytes.len() as u64;
                sink.input(Input::Message {
                    session,
                    direction,
                    position: at,
                    time,
                    bytes: bytes.into(),
                });
            }
            Err(bytes_lost) => {
                let at = *position;
                *position += bytes_lost;
                sink.input(Input::Gap {
                    session,
                    direction,
                    position: at,
                    bytes_lost,
                    reason: GapReason::PositionJump,
                    time,
                });
            }
        }
    }
}

impl FlowReader {
    /// Reads a connection, the client's side first, so that each request waits for its response.
    fn flow(&mut self, index: usize, flow: &Flow) {
        let limits = Limits {
            max_exchanges: usize::MAX,
            max_others: u32::MAX,
            ..Limits::default()
        };
        let mut connection = Connection::new(limits);
        let mut latest = 0;
        for (direction, bytes) in [
            (Direction::ClientToServer, &flow.client),
            (Direction::ServerToClient, &flow.server),
        ] {
            let mut position = 0;
            for piece in bytes.chunks(PIECE) {
                connection.push(direction, position, piece, &mut |event| {
                    self.event(index, &mut latest, &event);
                });
                position += piece.len() as u64;
            }
            connection.end(direction, &mut |event| {
                self.event(index, &mut latest, &event);
            });
        }
    }

    fn event(&mut self, flow: usize, latest: &mut Exchange, event: &Event<'_>) {
        match event {
            Event::Opened(opened) => {
                *latest = opened.exchange;
                self.target.get_or_insert_with(|| opened.target.clone());
                self.session(flow, opened.exchange, opened.fields.session.as_deref());
            }
            Event::Answered(answer) => {
                if let Some(exchange) = answer.exchange {
                    *latest = exchange;
                    self.session(flow, exchange, answer.fields.session.as_deref());
                }
                if answer.status >= 400 {
                    self.remark(
                        flow,
                        format!("a request was answered with status {}", answer.status),
                    );
                }
            }
            Event::Message(message) => {
                let exchange = message.exchange.unwrap_or(*latest);
                self.say(
                    flow,
                    exchange,
                    message.direction,
                    Ok(message.bytes.to_vec()),
                );
            }
            Event::Endpoint { .. } => self.is_sse = true,
            Event::Disagreement {
                field,
                head,
                message,
                ..
            } => {
                let mut text = format!("{} says `{head}`, and its message ", field.as_str());
                let _ = match message {
                    Some(message) => write!(text, "`{message}`"),
                    None => write!(text, "no such value"),
                };
                self.remark(flow, text);
            }
            Event::Lost {
                exchange,
                direction,
                position,
                seen,
                missing,
                loss,
            } => {
                let exchange = exchange.unwrap_or(*latest);
                let bytes = seen.saturating_add(missing.unwrap_or(0));
                self.say(flow, exchange, *direction, Err(bytes));
                let loss = loss.as_str();
                self.remark(flow, format!("lost a message at byte {position}: {loss}"));
            }
            Event::Anomaly {
                position, anomaly, ..
            } => self.remark(flow, format!("at byte {position}: {anomaly}")),
            Event::Left {
                position, reason, ..
            } => {
                let reason = reason.as_str();
                self.remark(flow, format!("not read from byte {position} on: {reason}"));
            }
            Event::Closed { .. } => {}
        }
    }

    fn say(
        &mut self,
        flow: usize,
        exchange: Exchange,
        direction: Direction,
        content: Result<Vec<u8>, u64>,
    ) {
        let phase = match direction {
            Direction::ClientToServer => ExchangePhase::Request,
            Direction::ServerToClient => ExchangePhase::Response,
        };
        self.messages.push(OrderedMessage {
            order_key: OrderKey {
                flow,
                exchange,
                phase,
            },
            direction,
            content,
        });
    }

    /// Puts messages in order.
    fn order(&mut self) {
        let mut requests: BTreeMap<(Direction, String), Vec<OrderKey>> = BTreeMap::new();
        let mut responses = Vec::new();
        for (index, message) in self.messages.iter().enumerate() {
            let parsed = message.content.as_ref().ok().map(|bytes| parse(bytes));
            let Some(Ok(Payload::Single(parsed))) = parsed else {
                continue;
            };
            let id = parsed.message.id().map(|id| id.0.to_owned());
            match (parsed.message, id) {
                (Message::Request(_), Some(id)) => {
                    let order_keys = requests.entry((message.direction, id)).or_default();
                    order_keys.push(message.order_key);
                }
                (Message::Response(_), Some(id)) => responses.push((index, id)),
                _ => {}
            }
        }
        for (index, id) in responses {
            let message = &mut self.messages[index];
            let request_keys = requests.get(&(message.direction.reverse(), id));
            // Ids may be reused: take the first request that it may answer.
            let first = request_keys.and_then(|order_keys| order_keys.iter().min());
            if let Some(first) = first
                && *first > message.order_key
            {
                message.order_key = OrderKey {
                    phase: ExchangePhase::Later,
                    ..*first
                };
            }
        }
        // Stable: what one party says within an exchange stays in order.
        self.messages.sort_by_key(|message| message.order_key);
    }

    fn session(&mut self, flow: usize, exchange: Exchange, session: Option<&str>) {
        if let Some(session) = session {
            let sessions = self.sessions.entry((flow, exchange));
            sessions.or_insert_with(|| session.to_owned());
        }
    }

    fn remark(&mut self, flow: usize, text: String) {
        self.remarks.push(Remark {
            connection: flow + 1,
            text,
        });
    }

    /// Keeps only the messages of one session.
    fn choose(&mut self, session_id: Option<&str>) -> Result<(), NoSession> {
        if self.messages.is_empty() {
            return Err(NoSession::NoMcp);
        }
        let all: BTreeSet<&String> = self.sessions.values().collect();
        match session_id {
            None if all.len() > 1 => {
                return Err(NoSession::Several(all.into_iter().cloned().collect()));
            }
            None => {}
            Some(session_id) => {
                if !all.iter().any(|session| *session == session_id) {
                    return Err(NoSession::Missing(session_id.to_owned()));
                }
                let sessions = &self.sessions;
                self.messages.retain(|message| {
                    let session =
                        sessions.get(&(message.order_key.flow, message.order_key.exchange));
                    session.is_some_and(|session| session == session_id)
                });
            }
        }
        Ok(())
    }
}

impl Source for HttpSource {
    type Error = Infallible;

    fn poll(&mut self, sink: &mut dyn InputSink) -> Result<Progress, Infallible> {
        if !std::mem::replace(&mut self.has_started, true) {
            sink.input(Input::SessionStarted(self.start.clone()));
        }
        for _ in 0..PER_POLL {
            match self.messages.pop_front() {
                Some(message) => self.input(message, sink),
                None => {
                    self.finish(sink)?;
                    return Ok(Progress::Exhausted);
                }
            }
        }
        Ok(Progress::Open)
    }

    fn finish(&mut self, sink: &mut dyn InputSink) -> Result<(), Infallible> {
        if self.has_started && !std::mem::replace(&mut self.has_ended, true) {
            sink.input(Input::SessionEnded {
                session: (&self.start.id).into(),
                reason: EndReason::MonitoringStopped,
                time: self.start.time,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
