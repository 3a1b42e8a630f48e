//! The first step: observing. Frames become messages, and messages find their place in the
//! session.

use std::borrow::Cow;
use std::sync::Arc;

use mcpinspect_core::mcp;
use mcpinspect_core::mcp::method::MethodName;
use mcpinspect_core::mcp::{Budget, Id, Irregularity, Malformed, Message, Parsed, Payload};
use mcpinspect_core::model::{Direction, GapReason};
use mcpinspect_core::session::{Correlation, Observed};
use mcpinspect_core::wire::framing::{Frame, Framed};

use super::output::{MessageKind, MessageSeen};
use super::state::SessionState;
use super::turn::Turn;

/// Most members of one batch to report individually. A batch may hold a million.
const MAX_MEMBERS: usize = 16_384;

/// Memory for them, in bytes: if their methods are long and written with escapes, fewer are reported.
const MEMBERS_MEMORY: usize = 4 << 20;

/// What is kept of a batch's member until the batch is judged.
struct Member<'a> {
    kind: MessageKind,
    method: Option<Cow<'a, str>>,
    id: Option<Id<'a>>,
    answers: Option<(MethodName, u64)>,
    correlation: Option<Correlation>,
    concerns: Option<u64>,
    call: Option<u64>,
    tool: Option<Arc<str>>,
    latency_ns: Option<u64>,
    is_error: bool,
    invalid_reason: Option<&'static str>,
}

impl SessionState {
    /// Takes in what a framer found.
    pub(super) fn framed(
        &mut self,
        turn: &mut Turn<'_>,
        direction: Direction,
        framed: Framed<'_>,
        gap_before: &mut bool,
    ) {
        match framed {
            Framed::Frame(frame) => {
                *gap_before |= frame.gap_before;
                match mcp::parse(frame.bytes) {
                    // A torn piece of a line whose start was not seen. The loss that it belongs
                    // to was already reported; the next frame is the one that has it before.
                    Err(_) if frame.tentative => {}
                    parsed => {
                        let gap_before = std::mem::take(gap_before);
                        let frame = Frame {
                            gap_before,
                            ..frame
                        };
                        self.frame(turn, direction, &frame, parsed);
                        turn.tell();
                    }
                }
            }
            Framed::Oversize {
                position,
                bytes,
                gap_before: gap,
            } => {
                self.lost(turn, direction, position, bytes, GapReason::FrameTooLarge);
                turn.tell();
                *gap_before |= gap;
                *gap_before = true;
            }
        }
    }

    fn frame(
        &mut self,
        turn: &mut Turn<'_>,
        direction: Direction,
        frame: &Frame<'_>,
        parsed: Result<Payload<'_>, Malformed>,
    ) {
        self.session.count_message();
        match parsed {
            Ok(Payload::Single(parsed)) => {
                let observed = self.session.observe(direction, &parsed.message, turn.time);
                self.judge_message(turn, direction, &parsed, &observed, frame.bytes);
                let seen = MessageSeen {
                    kind: kind(&parsed.message),
                    method: parsed.message.method(),
                    id: parsed.message.id().map(|id| id.0),
                    reply_to: observed.answers.as_ref().map(|request| &*request.method),
                    answers: observed.answers.as_ref().map(|request| request.sequence),
                    correlation: observed.correlation,
                    concerns: observed.concerns,
                    call: observed.call,
                    tool: observed.tool.as_deref(),
                    latency_ns: observed.latency_ns,
                    is_error: observed.is_error,
                    invalid_reason: parsed.irregular.map(Irregularity::as_str),
                    ..self.seen(turn, direction, frame)
                };
                turn.tell_message(&seen);
            }
            Ok(Payload::Batch(batch)) => {
                let mut members = Vec::new();
                let mut budget = Budget::of(MEMBERS_MEMORY);
                batch.for_each(|message| {
                    let member = self.batch_member(turn, direction, message, frame.bytes);
                    if members.len() < MAX_MEMBERS && budget.take(member.decoded()) {
                        members.push(member);
                    }
                });
                self.tell_batch(turn, direction, frame, &members);
            }
            Err(malformed) => {
                let reason = malformed.as_str();
                self.report_invalid(turn, direction, reason, frame.bytes);
                turn.tell_message(&MessageSeen {
                    invalid_reason: Some(reason),
                    ..self.seen(turn, direction, frame)
                });
            }
        }
    }

    fn batch_member<'a>(
        &mut self,
        turn: &mut Turn<'_>,
        direction: Direction,
        message: Result<Parsed<'a>, Malformed>,
        bytes: &[u8],
    ) -> Member<'a> {
        let parsed = match message {
            Ok(parsed) => parsed,
            Err(malformed) => {
                let reason = malformed.as_str();
                self.report_invalid(turn, direction, reason, bytes);
                return Member {
                    kind: MessageKind::Invalid,
                    method: None,
                    id: None,
                    answers: None,
                    correlation: None,
                    concerns: None,
                    call: None,
                    tool: None,
                    latency_ns: None,
                    is_error: false,
                    invalid_reason: Some(reason),
                };
            }
        };
        let observed: Observed<'_> = self.session.observe(direction, &parsed.message, turn.time);
        self.judge_message(turn, direction, &parsed, &observed, bytes);
        Member {
            kind: kind(&parsed.message),
            id: parsed.message.id(),
            answers: observed
                .answers
                .map(|request| (request.method, request.sequence)),
            correlation: observed.correlation,
            concerns: observed.concerns,
            call: observed.call,
            tool: observed.tool,
            latency_ns: observed.latency_ns,
            is_error: observed.is_error,
            invalid_reason: parsed.irregular.map(Irregularity::as_str),
            method: match parsed.message {
                Message::Request(request) => Some(request.method),
                Message::Notification(notification) => Some(notification.method),
                Message::Response(_) => None,
            },
        }
    }

    /// Reports a batch as a whole, and then its members.
    fn tell_batch(
        &self,
        turn: &mut Turn<'_>,
        direction: Direction,
        frame: &Frame<'_>,
        members: &[Member<'_>],
    ) {
        let batch = MessageSeen {
            kind: MessageKind::Batch,
            ..self.seen(turn, direction, frame)
        };
        turn.tell_message(&batch);
        for member in members {
            turn.tell_member(&MessageSeen {
                kind: member.kind,
                method: member.method.as_deref(),
                id: member.id.map(|id| id.0),
                reply_to: member.answers.as_ref().map(|(method, _)| &**method),
                answers: member.answers.as_ref().map(|(_, sequence)| *sequence),
                correlation: member.correlation,
                concerns: member.concerns,
                call: member.call,
                tool: member.tool.as_deref(),
                latency_ns: member.latency_ns,
                is_error: member.is_error,
                invalid_reason: member.invalid_reason,
                ..batch
            });
        }
    }

    /// What is known about a frame before it is parsed.
    fn seen<'a>(
        &'a self,
        turn: &Turn<'_>,
        direction: Direction,
        frame: &Frame<'a>,
    ) -> MessageSeen<'a> {
        MessageSeen {
            time: turn.time,
            session_id: &self.id,
            server_id: &self.server,
            direction,
            position: frame.position,
            sequence: self.session.messages(),
            server_pid: self.server_pid,
            client_pid: self.client_pid,
            kind: MessageKind::Invalid,
            method: None,
            id: None,
            bytes: frame.bytes,
            gap_before: frame.gap_before,
            reply_to: None,
            answers: None,
            correlation: None,
            concerns: None,
            call: None,
            tool: None,
            latency_ns: None,
            is_error: false,
            invalid_reason: None,
        }
    }
}

impl Member<'_> {
    /// Bytes of memory that it occupies besides itself.
    fn decoded(&self) -> usize {
        match &self.method {
            Some(Cow::Owned(method)) => method.len(),
            _ => 0,
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
