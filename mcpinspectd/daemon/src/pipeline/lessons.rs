//! What detection learns from people's decisions, kept beside the registry.

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::{LessonChange, OutputSink};
use mcpinspect_judge::detect::WeightedRules;
use mcpinspect_judge::detect::category::Category;
use mcpinspect_judge::detect::meaning::act::ACTS;
use mcpinspect_judge::detect::rules::{Because, Lesson};

use super::Pipeline;
use super::host::Host;

impl<O: OutputSink, H: Host> Pipeline<O, H> {
    /// Stores what decisions taught, and judges by it from now on.
    pub(super) fn learn(&mut self) {
        let mut changed = false;
        for change in self.engine.take_lessons() {
            let stored = match change {
                LessonChange::Lesson(lesson) => self.host.learn(lesson),
                LessonChange::Withdrawn { user, server } => self.host.take_back(user, &server),
            };
            match stored {
                Ok(new) => changed |= new,
                Err(error) => {
                    tracing::error!(%error, "cannot store what was learned from a decision")
                }
            }
        }
        if changed {
            self.host.reload_rules();
        }
    }
}

/// What the suppression of a rule teaches, if it is about the servers of one user.
pub(super) fn lesson_of(
    server: &str,
    users: Option<&[u32]>,
    rule: &str,
    now: Timestamp,
) -> Option<Lesson> {
    let [user] = users? else {
        return None;
    };
    Some(Lesson {
        user: *user,
        server: server.to_owned(),
        category: category_of(rule)?,
        because: Because::Suppressed,
        at: now.0,
    })
}

/// What a suppressed rule is about: a category, a built-in rule, or a finding of the model.
fn category_of(rule: &str) -> Option<Category> {
    let of_the_model = || ACTS.iter().find(|act| act.pattern == rule);
    let builtin = WeightedRules::builtin();
    let known = || builtin.rules.rules().iter().find(|known| known.id == rule);
    Category::parse(rule)
        .or_else(|| of_the_model().map(|act| act.category))
        .or_else(|| known().map(|rule| rule.category))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suppression_of_one_user_teaches() {
        let category = |rule, users: Option<&[u32]>| {
            lesson_of("mail", users, rule, Timestamp(1)).map(|lesson| lesson.category)
        };
        let mine: Option<&[u32]> = Some(&[1000]);
        assert_eq!(category("context_leak", mine), Some(Category::ContextLeak));
        assert_eq!(
            category("meaning-sends-outward", mine),
            Some(Category::Exfiltration)
        );
        assert_eq!(category("silence", mine), Some(Category::Concealment));
        assert_eq!(category("credential-*", mine), None);
        assert_eq!(category("context_leak", Some(&[1000, 1001])), None);
        assert_eq!(category("context_leak", None), None);
    }
}
