//! Findings.

use mcpinspect_core::model::{Action, Detection, Severity};
use serde::Serialize;

use crate::event::vocabulary::{Describe, Details, Sentence, category, name};

/// The category of a call that does what a text ordered: it says what happened, not what was found.
const OBEYED: &str = "injection_obeyed";

/// Detection found something in a definition or a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Detected {
    /// The tool concerned, where there is one.
    pub tool_name: Option<String>,
    /// The finding; of several of its category, the worst.
    pub detection: Detection,
    /// The others of its category in the same definition or message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Detection>,
    /// What it asks for.
    pub action: Action,
}

impl Detected {
    /// Takes in another finding of the same category. The worst one leads, the first of equals.
    pub fn relate(&mut self, mut other: Detection) {
        if other.severity > self.detection.severity {
            std::mem::swap(&mut self.detection, &mut other);
        }
        self.related.push(other);
    }
}

impl Describe for Detected {
    fn severity(&self) -> Option<Severity> {
        Some(self.detection.severity)
    }

    fn title(&self, server: &str) -> String {
        let category = category(&self.detection);
        match &self.tool_name {
            Some(tool) if self.detection.category == OBEYED => format!(
                "Your agent called {} of {server} because a text told it to",
                name(tool)
            ),
            Some(tool) => format!("{category} in tool {} of {server}", name(tool)),
            None => format!("{category} from {server}"),
        }
    }

    fn particulars(&self, sentence: &mut Sentence) {
        let (severity, action) = (self.detection.severity.as_str(), self.action.as_str());
        sentence.add(format!("{severity}, asks for {action}"));
        sentence.add(&self.detection.explanation);
        sentence.add(format!("field {}", self.detection.field));
        if !self.related.is_empty() {
            sentence.add(format!("and {} more of the kind", self.related.len()));
        }
    }

    fn details(&self, details: &mut Details) {
        details.add_some("MCPINSPECT_TOOL", self.tool_name.as_deref());
        details.add("MCPINSPECT_CATEGORY", &self.detection.category);
        details.add("MCPINSPECT_PATTERN", &self.detection.pattern);
        details.add("MCPINSPECT_FIELD", &self.detection.field);
        details.add("MCPINSPECT_ACTION", self.action.as_str());
    }
}
