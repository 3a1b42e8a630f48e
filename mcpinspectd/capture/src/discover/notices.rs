//! Limits how often a user who exhausts a share is reported.
//!
//! A user who has too much has it for a while, and every further stream would be one more reason to
//! report it. Once a minute is enough.

use std::collections::HashMap;
use std::time::Duration;

use mcpinspect_core::model::{BlindMechanism, BootTime};

use super::shares::Uid;

/// Time between two notices about one user and one budget.
const INTERVAL: Duration = Duration::from_secs(60);
/// Most users and budgets to remember.
const NOTICES_MAX: usize = 4096;

/// When which user was last reported, for which budget.
#[derive(Debug, Default)]
pub struct Notices {
    told: HashMap<(Uid, BlindMechanism), BootTime>,
}

impl Notices {
    /// Whether to report now that `user` has exhausted `budget`. If so, counts it as reported.
    pub fn is_due(&mut self, user: Uid, budget: BlindMechanism, now: BootTime) -> bool {
        if self.told.len() >= NOTICES_MAX {
            self.told.retain(|_, told| now.since(*told) < INTERVAL);
        }
        let recently = self
            .told
            .get(&(user, budget))
            .is_some_and(|told| now.since(*told) < INTERVAL);
        if recently || self.told.len() >= NOTICES_MAX {
            return false;
        }
        self.told.insert((user, budget), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootTime = BootTime(1);

    #[test]
    fn each_user_and_budget_is_told_once_in_a_while() {
        let mut notices = Notices::default();
        assert!(notices.is_due(7, BlindMechanism::EndpointBudget, START));
        let early = BootTime(0) + INTERVAL;
        assert!(!notices.is_due(7, BlindMechanism::EndpointBudget, early));
        assert!(notices.is_due(7, BlindMechanism::SessionBudget, early));
        assert!(notices.is_due(8, BlindMechanism::EndpointBudget, early));
        assert!(notices.is_due(7, BlindMechanism::EndpointBudget, START + INTERVAL));
    }

    #[test]
    fn a_bounded_number_is_remembered() {
        let mut notices = Notices::default();
        for user in 0..2 * NOTICES_MAX as Uid {
            notices.is_due(user, BlindMechanism::EndpointBudget, START);
        }
        assert_eq!(notices.told.len(), NOTICES_MAX);
        assert!(notices.is_due(0, BlindMechanism::EndpointBudget, START + INTERVAL));
        assert_eq!(notices.told.len(), 1);
    }
}
