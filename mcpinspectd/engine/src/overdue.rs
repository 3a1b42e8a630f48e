//! The passing of time: calls that have waited too long for their answer.

use mcpinspect_core::model::Timestamp;

use super::evaluation::Evaluation;
use super::output::Overdue;
use super::sanitise;
use super::state::SessionState;
use crate::event::Event;
use crate::event::body::CallHung;

impl SessionState {
    /// Whether a request is overdue by `now` that was not marked before. Marks it.
    pub(super) fn overdue(&mut self, now: Timestamp) -> Vec<Overdue> {
        let mut overdue = Vec::new();
        let patience = self.limits.patience;
        self.session.overdue(now, patience, |direction, request| {
            overdue.push(Overdue {
                session_id: self.info.id.clone(),
                server_id: self.info.server_id.clone(),
                direction,
                method: request.method.clone(),
                tool: request.tool.clone(),
                sequence: request.sequence,
                sent: request.time,
                due: Timestamp(request.heard.0.saturating_add(patience)),
                progress: request.progress,
            });
        });
        overdue.sort_by_key(|overdue| (overdue.sequence, overdue.direction));
        overdue
    }

    /// Reports an overdue call, unless there were too many recently.
    pub(super) fn report_overdue(&mut self, evaluation: &mut Evaluation<'_>, overdue: &Overdue) {
        if let Some(suppressed) = self.hung.pass(evaluation.time) {
            let body = CallHung {
                direction: overdue.direction,
                method: sanitise::name(&overdue.method),
                tool_name: overdue.tool.as_deref().map(sanitise::name),
                waited_ms: overdue.due.nanos_since(overdue.sent) / 1_000_000,
                progress: overdue.progress,
                suppressed,
            };
            evaluation.report(Event::new(evaluation.time, self.subject(), body));
        }
        evaluation.emit_overdue(overdue);
        evaluation.flush();
    }
}
