//! The second step: what a message means. It may identify the parties, offer definitions, or look
//! like an attack.

use mcpinspect_core::mcp::{Irregularity, Parsed};
use mcpinspect_core::model::Direction;
use mcpinspect_core::session::Observed;
use mcpinspect_judge::detect::{Detector as _, MessageInContext};

use super::sanitise;
use super::state::SessionState;
use super::turn::Turn;
use crate::event::Event;
use crate::event::body::{InvalidMessage, SessionIdentified};

impl SessionState {
    /// Judges one message; `bytes` is the frame that contains it.
    pub(super) fn judge_message(
        &mut self,
        turn: &mut Turn<'_>,
        direction: Direction,
        parsed: &Parsed<'_>,
        observed: &Observed<'_>,
        bytes: &[u8],
    ) {
        if let Some(reason) = parsed.irregular.map(Irregularity::as_str) {
            self.report_invalid(turn, direction, reason, bytes);
        }
        if observed.identified {
            let identity = self.session.identity().clone();
            let body = SessionIdentified {
                protocol_version: identity.protocol_version,
                server_info: identity.server_info,
                client_info: identity.client_info,
                capabilities: identity.capabilities,
            };
            turn.report(Event::new(turn.time, self.subject(), body));
        }
        if direction == Direction::ClientToServer && observed.exchange.tool.is_some() {
            // The agent uses what it has: no more pages will come.
            self.settle(turn);
        }
        self.judge_definitions(turn, observed);
        let message = MessageInContext {
            direction,
            message: &parsed.message,
            reply_to: observed.exchange.reply_to(),
            tool: observed.exchange.tool.as_deref(),
        };
        let context = self.context(turn.time);
        let verdict = turn.judges.detector.message(&context, &message);
        self.report_findings(turn, &verdict, observed.exchange.tool.as_deref());
        if observed.altered_state {
            let tool = observed.exchange.tool.as_deref();
            let context = self.context(turn.time);
            let verdict = turn.judges.detector.altered_state(&context, tool);
            self.report_findings(turn, &verdict, tool);
        }
    }

    /// Reports bytes that are not a valid message, unless there were too many recently.
    pub(super) fn report_invalid(
        &mut self,
        turn: &mut Turn<'_>,
        direction: Direction,
        reason: &str,
        bytes: &[u8],
    ) {
        if let Some(suppressed) = self.invalid.pass(turn.time) {
            let body = InvalidMessage {
                direction,
                reason: reason.to_owned(),
                bytes: bytes.len() as u64,
                excerpt: sanitise::excerpt(bytes),
                suppressed,
            };
            turn.report(Event::new(turn.time, self.subject(), body));
        }
    }
}
