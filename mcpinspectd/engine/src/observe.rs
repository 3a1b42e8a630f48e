//! The first step: observing. Frames become messages, and messages find their place in the
//! session.

use std::borrow::Cow;

use mcpinspect_core::mcp;
use mcpinspect_core::mcp::{Budget, Malformed, Parsed, Payload};
use mcpinspect_core::model::{Direction, GapReason};
use mcpinspect_core::session::Exchange;
use mcpinspect_core::wire::framing::{Frame, Framed};

use super::evaluation::Evaluation;
use super::output::{FrameInfo, Head, MessageSeen};
use super::state::SessionState;

/// Most members of one batch to report individually. A batch may hold a million.
const MAX_MEMBERS: usize = 16_384;

/// Memory for them, in bytes: if their methods are long and written with escapes, fewer are reported.
const MEMBERS_MEMORY: usize = 4 << 20;

impl SessionState {
    /// Takes in what a framer found.
    pub(super) fn framed(
        &mut self,
        evaluation: &mut Evaluation<'_>,
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
                        self.frame(evaluation, direction, &frame, parsed);
                        evaluation.flush();
                    }
                }
            }
            Framed::Oversize {
                position,
                bytes,
                gap_before: gap,
            } => {
                self.lost(
                    evaluation,
                    direction,
                    position,
                    bytes,
                    GapReason::FrameTooLarge,
                );
                evaluation.flush();
                *gap_before |= gap;
                *gap_before = true;
            }
        }
    }

    fn frame(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        frame: &Frame<'_>,
        parsed: Result<Payload<'_>, Malformed>,
    ) {
        self.session.count_message();
        let message = match parsed {
            Ok(Payload::Single(parsed)) => Ok(parsed),
            Err(malformed) => Err(malformed),
            Ok(Payload::Batch(batch)) => {
                let mut members = Vec::new();
                let mut budget = Budget::of(MEMBERS_MEMORY);
                batch.for_each(|message| {
                    let member = self.observe(evaluation, direction, message, frame.bytes);
                    if members.len() < MAX_MEMBERS && budget.take(decoded(&member.0)) {
                        members.push(member);
                    }
                });
                let none = Exchange::default();
                evaluation.emit_message(&self.seen(
                    evaluation,
                    direction,
                    frame,
                    &Head::BATCH,
                    &none,
                ));
                for (head, exchange) in &members {
                    evaluation
                        .emit_member(&self.seen(evaluation, direction, frame, head, exchange));
                }
                return;
            }
        };
        let (head, exchange) = self.observe(evaluation, direction, message, frame.bytes);
        evaluation.emit_message(&self.seen(evaluation, direction, frame, &head, &exchange));
    }

    /// Gives a message its place in the session, and judges it; `bytes` is the frame that contains it.
    fn observe<'a>(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        message: Result<Parsed<'a>, Malformed>,
        bytes: &[u8],
    ) -> (Head<'a>, Exchange) {
        let parsed = match message {
            Ok(parsed) => parsed,
            Err(malformed) => {
                self.report_invalid(evaluation, direction, malformed.as_str(), bytes);
                return (Head::invalid(malformed), Exchange::default());
            }
        };
        let observed = self
            .session
            .observe(direction, &parsed.message, evaluation.time);
        self.judge_message(evaluation, direction, &parsed, &observed, bytes);
        (Head::of(parsed), observed.exchange)
    }

    /// A message in a frame.
    fn seen<'a>(
        &'a self,
        evaluation: &Evaluation<'_>,
        direction: Direction,
        frame: &Frame<'a>,
        head: &'a Head<'a>,
        exchange: &'a Exchange,
    ) -> MessageSeen<'a> {
        MessageSeen {
            session: &self.info,
            frame: FrameInfo {
                time: evaluation.time,
                direction,
                position: frame.position,
                sequence: self.session.messages(),
                gap_before: frame.gap_before,
            },
            bytes: frame.bytes,
            head,
            exchange,
        }
    }
}

/// Bytes of memory that a head occupies besides itself.
fn decoded(head: &Head<'_>) -> usize {
    match &head.method {
        Some(Cow::Owned(method)) => method.len(),
        _ => 0,
    }
}
