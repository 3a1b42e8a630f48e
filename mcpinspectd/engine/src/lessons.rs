//! What people's decisions about definitions teach.
//!
//! Approving a definition that raised an alert says that the alert was one too many, unless it rests on a
//! fact: then the person accepts that fact, and the next one is worth an alert again. Refusing a definition takes
//! back what the person taught about its server. A policy teaches nothing: it accepts what a server sends.

use mcpinspect_core::model::{ItemKind, ServerId};
use mcpinspect_judge::detect::Detector;
use mcpinspect_judge::detect::rules::{Because, Lesson};
use mcpinspect_judge::registry::{DecisionKind, ItemDecision, Registry, ServerOf};

/// What a decision teaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LessonChange {
    /// An alert was one too many.
    Lesson(Lesson),
    /// A server of this user no longer teaches anything.
    Withdrawn {
        /// The user.
        user: u32,
        /// The server.
        server: String,
    },
}

/// What a decision teaches, if anything.
pub(super) fn lesson_change(
    decided: &ItemDecision,
    registry: &Registry,
    detector: &mut dyn Detector,
) -> Option<LessonChange> {
    let ItemDecision {
        owner,
        server,
        key,
        decision,
    } = decided;
    let user = owner.uid()?;
    decision.by.uid()?;
    if key.kind != ItemKind::Tool {
        return None;
    }
    match decision.kind {
        DecisionKind::Approve | DecisionKind::Pin => {
            let text = registry.text(ServerOf::new(*owner, server), key, decision.hash?)?;
            let id = ServerId(server.as_str().into());
            let category = detector.questionable(&id, Some(user), &text, decision.time)?;
            Some(LessonChange::Lesson(Lesson {
                user,
                server: server.clone(),
                category,
                because: Because::Approved,
                at: decision.time.0,
            }))
        }
        DecisionKind::Reject | DecisionKind::Forget => Some(LessonChange::Withdrawn {
            user,
            server: server.clone(),
        }),
        DecisionKind::Unpin | DecisionKind::Revoke => None,
    }
}
