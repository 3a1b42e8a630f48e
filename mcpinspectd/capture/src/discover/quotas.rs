//! Users who have used up their share: which of their sessions wait for room, and what they were told.

use mcpinspect_core::model::BlindMechanism;

use super::admission_queue::AdmissionQueue;
use super::notices::Notices;
use super::output::Output;
use super::shares::{NOBODY_KNOWN, Uid};
use crate::capture::Origin;

/// What waits for room, and who was reported for taking too much.
#[derive(Debug, Default)]
pub struct Quotas {
    pub admissions: AdmissionQueue,
    notices: Notices,
}

impl Quotas {
    /// Reports that a user has exhausted their share, unless that was reported recently.
    pub fn report(
        &mut self,
        output: &mut Output<'_>,
        budget: BlindMechanism,
        user: Uid,
        origin: Origin,
    ) {
        if !self.notices.is_due(user, budget, origin.time) {
            return;
        }
        tracing::warn!(
            user,
            pid = origin.tgid,
            budget = budget.as_str(),
            "a user has used up what there is for one"
        );
        let user = (user != NOBODY_KNOWN).then_some(user);
        output.blind_spot(None, budget, origin, user, None);
    }
}
