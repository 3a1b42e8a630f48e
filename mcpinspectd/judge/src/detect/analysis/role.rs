//! What a text alone may call for, given the part that it plays in a conversation.
//!
//! A definition is written for the model, so an order in it is meant for the model. A result is data: a file,
//! a page, a mail. Honest documents are full of orders to their readers, and no wording distinguishes those from a
//! planted order. So the text of a result is worth a note at most: it is recorded, and no card is shown.
//! What the agent does next decides whether there was more to it. Only what a document has no reason for is
//! enough alone: smuggled characters, payloads that decode to orders, forged turns of the conversation.

use mcpinspect_core::model::{Action, Detection, Severity};

use super::subject::Subject;
use crate::detect::score::Score;

/// Bytes of text up to which the limit for a warning is the one in the weights file.
const SHORT: usize = 1000;
/// By how much that limit rises with each doubling of the text, in log odds: every further paragraph is
/// another chance that ordinary sentences add up.
const RISE: f32 = 2.5;
/// The most that it rises: beyond that, so much points to an attack that length is no excuse.
const MOST: f32 = 7.0;

/// Whether a subject is data that a server passed on, rather than its own words.
pub(super) fn is_data(subject: Subject) -> bool {
    match subject {
        Subject::ToolResult | Subject::Content | Subject::Error | Subject::Notification => true,
        Subject::Tool
        | Subject::Declaration
        | Subject::Sampling
        | Subject::Elicitation
        | Subject::Arguments => false,
    }
}

/// The action that data calls for. `warn` is the limit for a warning in log odds, `bytes` the length of its text,
/// and `alone` what evidence that decides alone calls for.
pub(super) fn action_of_data(score: Score, warn: f32, bytes: usize, alone: Action) -> Action {
    if alone >= Action::Alert {
        return score.action.max(alone);
    }
    let doublings = (bytes as f32 / SHORT as f32).log2().max(0.0);
    match score.log_odds >= warn + (RISE * doublings).min(MOST) {
        true => Action::Warn,
        false => alone,
    }
}

/// Marks findings in data that decide nothing as worth knowing, and no more.
pub(super) fn note_only(detections: &mut [Detection]) {
    for detection in detections {
        detection.severity = Severity::Low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(action: Action, log_odds: f32) -> Score {
        Score {
            action,
            decided: Action::None,
            proven: Action::None,
            log_odds,
        }
    }

    #[test]
    fn text_alone_is_a_note_at_most() {
        let worst = score(Action::Block, 9.0);
        assert_eq!(action_of_data(worst, -1.0, 100, Action::None), Action::Warn);
        assert_eq!(
            action_of_data(worst, -1.0, 100, Action::Alert),
            Action::Block
        );
        let little = score(Action::None, -3.0);
        assert_eq!(
            action_of_data(little, -1.0, 100, Action::None),
            Action::None
        );
        assert_eq!(
            action_of_data(little, -1.0, 100, Action::Alert),
            Action::Alert
        );
    }

    #[test]
    fn a_long_text_takes_more() {
        let some = score(Action::Alert, 2.0);
        assert_eq!(action_of_data(some, -1.0, 0, Action::None), Action::Warn);
        assert_eq!(action_of_data(some, -1.0, 1000, Action::None), Action::Warn);
        assert_eq!(action_of_data(some, -1.0, 8000, Action::None), Action::None);
        let much = score(Action::Block, 7.0);
        assert_eq!(
            action_of_data(much, -1.0, 1 << 24, Action::None),
            Action::Warn
        );
    }
}
