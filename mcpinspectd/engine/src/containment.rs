//! Which findings have a server contained without asking anyone. None, unless the configuration
//! says so: a detector that is wrong once a year must not interrupt someone's work once a year
//! unless they chose that.

use std::collections::HashSet;

use mcpinspect_core::model::{Action, ContainmentAction, SessionId, Severity};

use crate::event::body::{Detected, RuleMatched};
use crate::event::{Body, Event};

/// Sessions to remember as dealt with. If there are more, all are forgotten, and one may
/// be contained twice.
const REMEMBERED: usize = 4096;

/// What findings lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainmentPolicy {
    /// What to do after a finding that asks to be blocked.
    pub on_block: Option<ContainmentAction>,
    /// What to do after a finding of critical severity.
    pub on_critical: Option<ContainmentAction>,
    /// A session is contained once. If a person has thawed the server since, they know better.
    done: HashSet<SessionId>,
}

/// What a finding led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainmentRequest {
    /// The session whose server it is about.
    pub session: SessionId,
    /// What to do with it.
    pub action: ContainmentAction,
    /// The rule that found something, or the policy's rule that asks for it.
    pub pattern: String,
}

impl ContainmentPolicy {
    /// A policy with an action for findings that ask to be blocked, and one for critical
    /// findings; the harsher if a finding is both.
    pub fn new(
        on_block: Option<ContainmentAction>,
        on_critical: Option<ContainmentAction>,
    ) -> Self {
        Self {
            on_block,
            on_critical,
            done: HashSet::new(),
        }
    }

    /// Follows `other` from now on; sessions that were dealt with stay so.
    pub fn replace(&mut self, other: Self) {
        (self.on_block, self.on_critical) = (other.on_block, other.on_critical);
    }

    /// What `event` leads to: a finding, or a rule of the policy, may have its session's server contained,
    /// once.
    pub fn consider(&mut self, event: &Event) -> Option<ContainmentRequest> {
        let subject = event.subject.as_ref()?;
        let (action, pattern) = match &event.body {
            Body::Detection(found) => (self.after(found)?, found.detection.pattern.as_str()),
            Body::RuleMatched(matched) => asked_for(matched)?,
            _ => return None,
        };
        if self.done.len() >= REMEMBERED {
            self.done.clear();
        }
        self.done
            .insert(subject.session_id.clone())
            .then(|| ContainmentRequest {
                session: subject.session_id.clone(),
                action,
                pattern: pattern.to_owned(),
            })
    }

    /// What a finding leads to.
    fn after(&self, found: &Detected) -> Option<ContainmentAction> {
        let block = self.on_block.filter(|_| found.action == Action::Block);
        let critical = self
            .on_critical
            .filter(|_| found.detection.severity == Severity::Critical);
        match (block, critical) {
            (Some(ContainmentAction::Kill), _) | (_, Some(ContainmentAction::Kill)) => {
                Some(ContainmentAction::Kill)
            }
            (one, other) => one.or(other),
        }
    }
}

/// What rules of the policy ask for, the harshest, and the id of that rule.
fn asked_for(matched: &RuleMatched) -> Option<(ContainmentAction, &str)> {
    let actions = [ContainmentAction::Kill, ContainmentAction::Freeze];
    actions.into_iter().find_map(|action| {
        let mut rules = matched.rules.iter();
        let rule = rules.find(|rule| rule.action == action.as_str())?;
        Some((action, rule.id.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use crate::event::body::MatchedRule;
    use crate::event::testing::{changed, detected};

    use super::*;

    fn found(severity: Severity, action: Action) -> Event {
        let mut event = detected("files");
        if let Body::Detection(found) = &mut event.body {
            found.detection.severity = severity;
            found.action = action;
        }
        event
    }

    fn action(policy: &ContainmentPolicy, event: &Event) -> Option<ContainmentAction> {
        Some(policy.clone().consider(event)?.action)
    }

    #[test]
    fn nothing_happens_unless_it_is_asked_for() {
        let worst = found(Severity::Critical, Action::Block);
        assert_eq!(action(&ContainmentPolicy::default(), &worst), None);
        let policy = ContainmentPolicy::new(Some(ContainmentAction::Freeze), None);
        assert_eq!(action(&policy, &worst), Some(ContainmentAction::Freeze));
        assert_eq!(
            action(&policy, &found(Severity::Critical, Action::Alert)),
            None
        );
        assert_eq!(action(&policy, &changed("files", "x")), None);
        let policy = ContainmentPolicy::new(
            Some(ContainmentAction::Freeze),
            Some(ContainmentAction::Kill),
        );
        assert_eq!(action(&policy, &worst), Some(ContainmentAction::Kill));
        assert_eq!(
            action(&policy, &found(Severity::High, Action::Block)),
            Some(ContainmentAction::Freeze)
        );
        assert_eq!(action(&policy, &found(Severity::High, Action::Alert)), None);
    }

    #[test]
    fn rules_of_the_policy_ask_by_themselves() {
        let rule = |action| MatchedRule {
            id: format!("rule-{action}"),
            name: None,
            action,
        };
        let mut event = crate::event::testing::examples()
            .into_iter()
            .find(|event| matches!(event.body, Body::RuleMatched(_)))
            .unwrap();
        let mut policy = ContainmentPolicy::default();
        assert_eq!(policy.consider(&event), None, "it would have been blocked");
        if let Body::RuleMatched(matched) = &mut event.body {
            matched.rules = vec![rule("freeze"), rule("kill"), rule("block")];
        }
        let request = policy.consider(&event).unwrap();
        assert_eq!(request.action, ContainmentAction::Kill);
        assert_eq!(request.pattern, "rule-kill");
        assert_eq!(policy.consider(&event), None, "once");
    }

    #[test]
    fn a_session_is_contained_once() {
        let mut policy = ContainmentPolicy::new(Some(ContainmentAction::Freeze), None);
        let event = found(Severity::High, Action::Block);
        assert!(policy.consider(&event).is_some());
        assert!(policy.consider(&event).is_none());
    }
}
