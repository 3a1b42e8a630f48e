//! The second step: what a message means. It may identify the parties, offer definitions, or look
//! like an attack.

use mcpinspect_core::mcp::{Irregularity, Parsed};
use mcpinspect_core::model::Direction;
use mcpinspect_core::session::Observed;
use mcpinspect_judge::detect::{Detector as _, MessageInContext};

use super::evaluation::Evaluation;
use super::sanitise;
use super::state::SessionState;
use crate::event::Event;
use crate::event::body::{InvalidMessage, SessionIdentified};

impl SessionState {
    /// Judges one message; `bytes` is the frame that contains it.
    pub(super) fn judge_message(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        parsed: &Parsed<'_>,
        observed: &Observed<'_>,
        bytes: &[u8],
    ) {
        if let Some(reason) = parsed.irregular.map(Irregularity::as_str) {
            self.report_invalid(evaluation, direction, reason, bytes);
        }
        if observed.identified {
            let identity = self.session.identity().clone();
            let body = SessionIdentified {
                protocol_version: identity.protocol_version,
                server_info: identity.server_info,
                client_info: identity.client_info,
                capabilities: identity.capabilities,
            };
            evaluation.report(Event::new(evaluation.time, self.subject(), body));
        }
        if direction == Direction::ClientToServer && observed.exchange.tool.is_some() {
            // The agent uses what it has: no more pages will come.
            self.settle(evaluation);
        }
        self.judge_definitions(evaluation, observed);
        let message = MessageInContext {
            direction,
            message: &parsed.message,
            reply_to: observed.exchange.reply_to(),
            tool: observed.exchange.tool.as_deref(),
        };
        let context = self.context(evaluation.time);
        let verdict = evaluation.judges.detector.message(&context, &message);
        self.report_findings(evaluation, &verdict, observed.exchange.tool.as_deref());
        if observed.altered_state {
            let tool = observed.exchange.tool.as_deref();
            let context = self.context(evaluation.time);
            let verdict = evaluation.judges.detector.altered_state(&context, tool);
            self.report_findings(evaluation, &verdict, tool);
        }
    }

    /// Reports bytes that are not a valid message, unless there were too many recently.
    pub(super) fn report_invalid(
        &mut self,
        evaluation: &mut Evaluation<'_>,
        direction: Direction,
        reason: &str,
        bytes: &[u8],
    ) {
        if let Some(suppressed) = self.invalid.pass(evaluation.time) {
            let body = InvalidMessage {
                direction,
                reason: reason.to_owned(),
                bytes: bytes.len() as u64,
                excerpt: sanitise::excerpt(bytes),
                suppressed,
            };
            evaluation.report(Event::new(evaluation.time, self.subject(), body));
        }
    }
}
