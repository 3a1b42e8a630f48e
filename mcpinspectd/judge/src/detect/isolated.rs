//! A detector whose faults cost one verdict, not the daemon.
//!
//! Detection takes hostile text apart in many ways. If a server found a text on which that panics, it could
//! end the watching of a whole machine, again after each restart. So a panic is caught at this boundary. It
//! is a finding of its own: the text was not examined, and may have been written to cause just that.

use mcpinspect_core::model::{
    Action, Detection, ServerId, SessionId, Severity, Timestamp, ToolStatus,
};
use mcpinspect_core::panics::{PanicLocation, isolate};
use serde_json::value::RawValue;

use super::api::{
    Detector, Difference, MessageInContext, Offer, SessionContext, ToolDefinition, Verdict,
};
use super::category::Category;

/// The name of the finding.
const PATTERN: &str = "examination-failed";

/// Passes everything on to another detector, and survives its faults.
///
/// After a fault, the other detector keeps what it knew, so a server gains nothing by causing one.
pub struct Isolated(Box<dyn Detector + Send>);

impl Isolated {
    /// Isolates `detector`.
    pub fn new(detector: Box<dyn Detector + Send>) -> Self {
        Self(detector)
    }

    fn judge(&mut self, judge: impl FnOnce(&mut dyn Detector) -> Verdict) -> Verdict {
        isolate(|| judge(&mut *self.0)).unwrap_or_else(|location| failed(&location))
    }

    /// For what has no verdict: the fault is logged.
    fn attempt<T>(&mut self, work: impl FnOnce(&mut dyn Detector) -> T) -> Option<T> {
        isolate(|| work(&mut *self.0))
            .inspect_err(
                |location| tracing::error!(%location, "detection failed; please report this bug"),
            )
            .ok()
    }
}

/// The verdict on what could not be examined.
fn failed(location: &PanicLocation) -> Verdict {
    let detection = Detection {
        pattern: PATTERN.to_owned(),
        category: Category::HiddenInstructions.as_str().to_owned(),
        severity: Severity::High,
        matches: Vec::new(),
        field: String::new(),
        explanation: format!(
            "Could not be examined: detection failed on it (at {location}). That is a fault of mcpinspectd, please \
             report it; the text may have been written to cause it."
        ),
    };
    Verdict {
        detections: vec![detection],
        max_severity: Some(Severity::High),
        action: Action::Alert,
        complete: false,
        undecided: false,
    }
}

impl Detector for Isolated {
    fn offered(&mut self, context: &SessionContext<'_>, offer: &Offer<'_>) {
        self.attempt(|detector| detector.offered(context, offer));
    }

    fn tool(&mut self, context: &SessionContext<'_>, tool: &ToolDefinition<'_>) -> Verdict {
        self.judge(|detector| detector.tool(context, tool))
    }

    fn introduction(
        &mut self,
        context: &SessionContext<'_>,
        introduction: &RawValue,
        status: ToolStatus,
    ) -> Verdict {
        self.judge(|detector| detector.introduction(context, introduction, status))
    }

    fn message(&mut self, context: &SessionContext<'_>, message: &MessageInContext<'_>) -> Verdict {
        self.judge(|detector| detector.message(context, message))
    }

    fn ends_disagree(
        &mut self,
        context: &SessionContext<'_>,
        difference: &Difference<'_>,
    ) -> Verdict {
        self.judge(|detector| detector.ends_disagree(context, difference))
    }

    fn overlong_listing(&mut self, context: &SessionContext<'_>) -> Verdict {
        self.judge(|detector| detector.overlong_listing(context))
    }

    fn altered_state(&mut self, context: &SessionContext<'_>, tool: Option<&str>) -> Verdict {
        self.judge(|detector| detector.altered_state(context, tool))
    }

    fn questionable(
        &mut self,
        server: &ServerId,
        user: Option<u32>,
        definition: &RawValue,
        time: Timestamp,
    ) -> Option<Category> {
        self.attempt(|detector| detector.questionable(server, user, definition, time))
            .flatten()
    }

    fn session_ended(&mut self, session: &SessionId) {
        self.attempt(|detector| detector.session_ended(session));
    }
}
