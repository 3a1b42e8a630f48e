//! The result of an analysis.

use mcpinspect_core::model::{Action, Detection, Severity};

use crate::detect::category::Category;

/// Most detections of one report.
pub(super) const DETECTIONS: usize = 32;

/// What was found in one subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The action that it calls for.
    pub action: Action,
    /// How bad it is; `None` with [`Action::None`].
    pub severity: Option<Severity>,
    /// The probability of an attack, from 0 to 1.
    pub score: f32,
    /// The findings. Empty with [`Action::None`].
    pub detections: Vec<Detection>,
    /// Whether the subject was too large, or too full of findings, to be examined completely.
    pub truncated: bool,
    /// Whether some of its text was not examined.
    pub unread: bool,
    /// Whether it may get worse once the rest of the server's listing is known.
    pub undecided: bool,
    /// What an alert is about that no evidence decides alone: a person may consider it one too many.
    pub questionable: Option<Category>,
}

impl Report {
    /// Nothing found.
    pub fn clean() -> Self {
        Self {
            action: Action::None,
            severity: None,
            score: 0.0,
            detections: Vec::new(),
            truncated: false,
            unread: false,
            undecided: false,
            questionable: None,
        }
    }

    /// Adds another report about the same subject.
    pub fn absorb(&mut self, other: Self) {
        self.action = self.action.max(other.action);
        self.severity = self.severity.max(other.severity);
        self.score = self.score.max(other.score);
        self.detections.extend(other.detections);
        self.detections.truncate(DETECTIONS);
        self.truncated |= other.truncated;
        self.unread |= other.unread;
        self.undecided |= other.undecided;
        // Another alert stands on its own.
        if other.action >= Action::Alert {
            self.questionable = None;
        }
    }
}
