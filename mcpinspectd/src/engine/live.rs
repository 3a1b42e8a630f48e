//! One session under way: its two streams, what they carry, and what is said about it.

use crate::event::body::{
    BlindSpot, CaptureGap, Detected, InvalidMessage, SessionEnded, SessionIdentified,
    SessionStarted,
};
use serde_json::value::RawValue;

use super::offers::Offers;
use super::output::{MessageKind, MessageSeen, Output};
use super::{Limits, Shared, shown};
use crate::detect::{Difference, MessageInContext, SessionContext, Verdict};
use crate::event::{Event, Subject};
use crate::mcp::{self, Irregularity, Malformed, Message, Parsed, Payload};
use crate::model::{
    Action, Direction, Pid, ServerId, SessionId, SessionStart, Timestamp, Transport,
};
use crate::session::{Observed, Session};
use crate::wire::framing::{Frame, Framed, Framer};

/// Events about invalid messages that are told at once; after that, one in [`INVALID_EVERY`].
const INVALID_BURST: u32 = 5;

/// After the first few, an invalid message is told this long after the one before, in nanoseconds.
const INVALID_EVERY: u64 = 10_000_000_000;

/// Findings of one message or definition that become events of their own.
const MAX_DETECTIONS: usize = 16;

/// Blind spots of one session that are told.
const MAX_BLIND_SPOTS: usize = 64;

/// Places where the two ends of a session's streams differ that are told of. One is enough to stop
/// trusting a server.
const MAX_DISAGREEMENTS: u32 = 16;

/// A session under way.
pub(super) struct LiveSession {
    client_to_server: Stream,
    server_to_client: Stream,
    body: Body,
}

/// A stream under way.
struct Stream {
    /// Made with the stream's first input, which says where it starts.
    framer: Option<Framer>,
    /// Whether something was lost since the last frame that was told, beyond what the framer knows.
    gap_before: bool,
}

/// All of a session but its streams, so that a framer can hand it frames.
pub(super) struct Body {
    pub(super) id: SessionId,
    pub(super) server: ServerId,
    transport: Transport,
    server_pid: Option<Pid>,
    client_pid: Option<Pid>,
    joined_midstream: bool,
    limits: Limits,
    session: Session,
    pub(super) offers: Offers,
    messages: u64,
    bytes: u64,
    bytes_lost: u64,
    invalid: Throttle,
    blind_spots: Vec<(String, Pid)>,
    disagreements: u32,
}

/// Keeps a flood of like events down to a few, by the time of what they tell.
#[derive(Debug, Default)]
struct Throttle {
    told: u32,
    suppressed: u64,
    last: Timestamp,
}

impl Throttle {
    /// Whether to tell one more; and if so, how many were not told since the last.
    fn pass(&mut self, now: Timestamp) -> Option<u64> {
        if self.told < INVALID_BURST || now.nanos_since(self.last) >= INVALID_EVERY {
            self.told = self.told.saturating_add(1);
            self.last = now;
            return Some(std::mem::take(&mut self.suppressed));
        }
        self.suppressed += 1;
        None
    }
}

impl LiveSession {
    pub(super) fn new(start: &SessionStart, limits: Limits) -> Self {
        let stream = || Stream {
            framer: None,
            gap_before: false,
        };
        Self {
            client_to_server: stream(),
            server_to_client: stream(),
            body: Body {
                id: start.id.clone(),
                server: start.server.server_id.clone(),
                transport: start.endpoint.transport(),
                server_pid: start.server_party.as_ref().map(|party| party.pid),
                client_pid: start.client_party.as_ref().map(|party| party.pid),
                joined_midstream: start.joined_midstream,
                limits,
                session: Session::new(limits.max_in_flight, start.joined_midstream),
                offers: Offers::default(),
                messages: 0,
                bytes: 0,
                bytes_lost: 0,
                invalid: Throttle::default(),
                blind_spots: Vec::new(),
                disagreements: 0,
            },
        }
    }

    pub(super) fn announce(&self, start: &SessionStart, output: &mut dyn Output) {
        output.event(Event::new(
            start.time,
            self.body.subject(),
            SessionStarted {
                fingerprint: start.server.fingerprint.clone(),
                name_source: start.server.name_source.clone(),
                server: start.server_party.clone(),
                client: start.client_party.clone(),
                joined_midstream: start.joined_midstream,
            },
        ));
    }

    pub(super) fn parties_changed(&mut self, server_pid: Option<Pid>, client_pid: Option<Pid>) {
        self.body.server_pid = server_pid;
        self.body.client_pid = client_pid;
    }

    pub(super) fn program(
        &mut self,
        shared: &mut Shared,
        definition: &RawValue,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        self.body.take_program(shared, definition, time, output);
    }

    fn stream(&mut self, direction: Direction) -> (&mut Stream, &mut Body) {
        let stream = match direction {
            Direction::ClientToServer => &mut self.client_to_server,
            Direction::ServerToClient => &mut self.server_to_client,
        };
        (stream, &mut self.body)
    }

    pub(super) fn bytes(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        position: u64,
        time: Timestamp,
        bytes: &[u8],
        output: &mut dyn Output,
    ) {
        self.note_jump(direction, position, time, output);
        let (stream, body) = self.stream(direction);
        body.bytes += bytes.len() as u64;
        let gap_before = &mut stream.gap_before;
        let framer = stream.framer.get_or_insert_with(|| body.framer(position));
        framer.push(position, bytes, |framed| {
            body.framed(shared, direction, framed, gap_before, time, output)
        });
    }

    /// Takes a whole message in, of a transport that frames messages itself.
    pub(super) fn message(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        position: u64,
        time: Timestamp,
        bytes: &[u8],
        output: &mut dyn Output,
    ) {
        self.note_jump(direction, position, time, output);
        let (stream, body) = self.stream(direction);
        body.bytes += bytes.len() as u64;
        let gap_before = &mut stream.gap_before;
        let framer = stream.framer.get_or_insert_with(|| body.framer(position));
        framer.message(position, bytes, |framed| {
            body.framed(shared, direction, framed, gap_before, time, output)
        });
    }

    /// Reports a gap where a direction goes on beyond where it is expected to.
    fn note_jump(
        &mut self,
        direction: Direction,
        position: u64,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let (stream, body) = self.stream(direction);
        let expected = stream.framer(body, position).position();
        if position > expected {
            self.gap(
                direction,
                expected,
                position - expected,
                "position_jump",
                time,
                output,
            );
        }
    }

    /// Bytes of memory that unfinished messages take.
    pub(super) fn unfinished(&self) -> usize {
        [&self.client_to_server, &self.server_to_client]
            .iter()
            .filter_map(|stream| stream.framer.as_ref())
            .map(Framer::memory)
            .sum()
    }

    /// Keeps no more of a direction's unfinished message.
    pub(super) fn abandon_line(&mut self, direction: Direction) {
        if let Some(framer) = &mut self.stream(direction).0.framer {
            framer.abandon_line();
        }
    }

    pub(super) fn gap(
        &mut self,
        direction: Direction,
        position: u64,
        bytes_lost: u64,
        reason: &str,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let (stream, body) = self.stream(direction);
        stream.framer(body, position).gap(position, bytes_lost);
        body.lost(direction, position, bytes_lost, reason, time, output);
    }

    /// Tells that what was written is not what was read.
    pub(super) fn ends_disagree(
        &mut self,
        shared: &mut Shared,
        difference: &Difference<'_>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let body = &mut self.body;
        if body.disagreements < MAX_DISAGREEMENTS {
            body.disagreements += 1;
            let verdict = shared
                .detector
                .ends_disagree(&body.context(time), difference);
            body.findings(&verdict, None, time, output);
        }
    }

    /// Tells of a blind spot, once for each process and mechanism: it lasts, and a call that shows
    /// it is made for every message.
    pub(super) fn blind_spot(
        &mut self,
        mechanism: &str,
        pid: Pid,
        covered_by_other_end: bool,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        if !covered_by_other_end {
            // What went that way may have been a request or a page.
            self.body.session.gap();
            self.body.offers.gap();
        }
        let body = &mut self.body;
        let known = |(known, of): &(String, Pid)| known == mechanism && *of == pid;
        if body.blind_spots.len() == MAX_BLIND_SPOTS || body.blind_spots.iter().any(known) {
            return;
        }
        body.blind_spots.push((mechanism.to_owned(), pid));
        output.event(Event::new(
            time,
            body.subject(),
            BlindSpot {
                mechanism: mechanism.to_owned(),
                pid,
                covered_by_other_end,
            },
        ));
    }

    pub(super) fn end_of_stream(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        let (stream, body) = self.stream(direction);
        let gap_before = &mut stream.gap_before;
        if let Some(framer) = &mut stream.framer {
            framer
                .finish(|framed| body.framed(shared, direction, framed, gap_before, time, output));
        }
    }

    pub(super) fn end(
        &mut self,
        shared: &mut Shared,
        reason: &str,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.end_of_stream(shared, direction, time, output);
        }
        let body = &self.body;
        output.event(Event::new(
            time,
            body.subject(),
            SessionEnded {
                reason: reason.to_owned(),
                messages: body.messages,
                bytes: body.bytes,
                bytes_lost: body.bytes_lost,
                unanswered: body.session.unanswered(),
            },
        ));
    }
}

impl Stream {
    fn framer(&mut self, body: &Body, position: u64) -> &mut Framer {
        self.framer.get_or_insert_with(|| body.framer(position))
    }
}

impl Body {
    /// A framer for a stream whose first input stands at `position`.
    fn framer(&self, position: u64) -> Framer {
        if self.joined_midstream {
            Framer::joined_at(position, self.limits.max_message)
        } else {
            Framer::new(self.limits.max_message)
        }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject {
            session_id: self.id.clone(),
            server_id: self.server.clone(),
            server_type: self.transport,
            server_pid: self.server_pid,
        }
    }

    fn lost(
        &mut self,
        direction: Direction,
        position: u64,
        bytes_lost: u64,
        reason: &str,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        self.bytes_lost += bytes_lost;
        self.session.gap();
        self.offers.gap();
        output.event(Event::new(
            time,
            self.subject(),
            CaptureGap {
                direction,
                bytes_lost,
                position,
                reason: reason.to_owned(),
            },
        ));
    }

    fn framed(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        framed: Framed<'_>,
        gap_before: &mut bool,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        match framed {
            Framed::Frame(frame) => {
                *gap_before |= frame.gap_before;
                match mcp::parse(frame.bytes) {
                    // A torn piece of a line whose beginning was not seen. The loss it belongs to was
                    // said already; the next frame is the one that has it before.
                    Err(_) if frame.tentative => {}
                    parsed => {
                        let gap_before = std::mem::take(gap_before);
                        self.frame(
                            shared,
                            direction,
                            &Frame {
                                gap_before,
                                ..frame
                            },
                            parsed,
                            time,
                            output,
                        );
                    }
                }
            }
            Framed::Oversize {
                position,
                bytes,
                gap_before: gap,
            } => {
                self.lost(direction, position, bytes, "frame_too_large", time, output);
                *gap_before |= gap;
                *gap_before = true;
            }
        }
    }

    fn frame(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        frame: &Frame<'_>,
        parsed: Result<Payload<'_>, Malformed>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        self.messages += 1;
        match parsed {
            Ok(Payload::Single(parsed)) => {
                let observed = self.session.observe(direction, &parsed.message, time);
                let reason = parsed.irregular.map(Irregularity::as_str);
                let seen = MessageSeen {
                    kind: kind(&parsed.message),
                    method: parsed.message.method(),
                    id: parsed.message.id().map(|id| id.0),
                    reply_to: observed.answers.as_ref().map(|request| &*request.method),
                    tool: observed.tool.as_deref(),
                    latency_ns: observed.latency_ns,
                    is_error: observed.is_error,
                    invalid_reason: reason,
                    ..self.seen(direction, frame, time)
                };
                output.message(&seen);
                if let Some(reason) = reason {
                    self.invalid(direction, reason, frame.bytes, time, output);
                }
                self.follow_up(shared, direction, &parsed, &observed, time, output);
            }
            Ok(Payload::Batch(batch)) => {
                output.message(&MessageSeen {
                    kind: MessageKind::Batch,
                    ..self.seen(direction, frame, time)
                });
                batch.for_each(|message| match message {
                    Ok(parsed) => {
                        let observed = self.session.observe(direction, &parsed.message, time);
                        if let Some(irregular) = parsed.irregular {
                            self.invalid(direction, irregular.as_str(), frame.bytes, time, output);
                        }
                        self.follow_up(shared, direction, &parsed, &observed, time, output);
                    }
                    Err(malformed) => {
                        self.invalid(direction, malformed.as_str(), frame.bytes, time, output)
                    }
                });
            }
            Err(malformed) => {
                let reason = malformed.as_str();
                output.message(&MessageSeen {
                    invalid_reason: Some(reason),
                    ..self.seen(direction, frame, time)
                });
                self.invalid(direction, reason, frame.bytes, time, output);
            }
        }
    }

    /// What is known of a frame before it is read.
    fn seen<'a>(
        &'a self,
        direction: Direction,
        frame: &Frame<'a>,
        time: Timestamp,
    ) -> MessageSeen<'a> {
        MessageSeen {
            time,
            session_id: &self.id,
            server_id: &self.server,
            direction,
            server_pid: self.server_pid,
            client_pid: self.client_pid,
            kind: MessageKind::Invalid,
            method: None,
            id: None,
            bytes: frame.bytes,
            gap_before: frame.gap_before,
            reply_to: None,
            tool: None,
            latency_ns: None,
            is_error: false,
            invalid_reason: None,
        }
    }

    fn invalid(
        &mut self,
        direction: Direction,
        reason: &str,
        bytes: &[u8],
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        if let Some(suppressed) = self.invalid.pass(time) {
            output.event(Event::new(
                time,
                self.subject(),
                InvalidMessage {
                    direction,
                    reason: reason.to_owned(),
                    bytes: bytes.len() as u64,
                    excerpt: shown::excerpt(bytes),
                    suppressed,
                },
            ));
        }
    }

    /// What a message leads to: the parties known, definitions seen, findings.
    fn follow_up(
        &mut self,
        shared: &mut Shared,
        direction: Direction,
        parsed: &Parsed<'_>,
        observed: &Observed<'_>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        if observed.identified {
            let identity = self.session.identity().clone();
            output.event(Event::new(
                time,
                self.subject(),
                SessionIdentified {
                    protocol_version: identity.protocol_version,
                    server_info: identity.server_info,
                    client_info: identity.client_info,
                    capabilities: identity.capabilities,
                },
            ));
        }
        self.take_offers(shared, observed, time, output);
        let message = MessageInContext {
            direction,
            message: &parsed.message,
            reply_to: observed.answers.as_ref().map(|request| &*request.method),
            tool: observed.tool.as_deref(),
        };
        let verdict = shared.detector.message(&self.context(time), &message);
        self.findings(&verdict, observed.tool.as_deref(), time, output);
    }

    pub(super) fn context(&self, time: Timestamp) -> SessionContext<'_> {
        SessionContext {
            server_id: &self.server,
            session_id: &self.id,
            client: self.client_pid,
            time,
        }
    }

    /// Tells what detection found.
    pub(super) fn findings(
        &self,
        verdict: &Verdict,
        tool: Option<&str>,
        time: Timestamp,
        output: &mut dyn Output,
    ) {
        if verdict.action == Action::None {
            return;
        }
        for detection in verdict.detections.iter().take(MAX_DETECTIONS) {
            output.event(Event::new(
                time,
                self.subject(),
                Detected {
                    tool_name: tool.map(shown::name),
                    detection: detection.clone(),
                    action: verdict.action,
                },
            ));
        }
    }
}

fn kind(message: &Message<'_>) -> MessageKind {
    match message {
        Message::Request(_) => MessageKind::Request,
        Message::Notification(_) => MessageKind::Notification,
        Message::Response(_) => MessageKind::Response,
    }
}
