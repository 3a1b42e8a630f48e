//! What decisions cause besides the wire: lines in a log, copies of messages, posts to a URL.

use mcpinspect_core::model::{Direction, Timestamp};
use mcpinspect_judge::policy::Policy;
use mcpinspect_judge::policy::record::Record;
use mcpinspect_judge::policy::session::Handled;

use super::copies::Copies;
use super::log::Log;
use super::webhooks::Webhooks;

/// All effects.
pub struct Effects {
    log: Log,
    copies: Copies,
    webhooks: Webhooks,
}

impl Effects {
    /// Starts what the rules want.
    ///
    /// # Errors
    /// What a rule wants cannot be done, whatever the messages are.
    pub fn start(policy: &Policy, log: Log) -> anyhow::Result<Self> {
        Ok(Self {
            log,
            copies: Copies::start(policy),
            webhooks: Webhooks::start(policy)?,
        })
    }

    /// Reports decisions.
    pub fn tell(&self, records: &[Record]) {
        self.log.write(records);
        self.webhooks.post(records);
    }

    /// Hands out the copies of a message that rules want.
    pub fn copy(
        &self,
        handled: &Handled<'_>,
        policy: &Policy,
        server: &str,
        direction: Direction,
        time: Timestamp,
    ) {
        for (at, message) in &handled.copies {
            if let Some(rule) = policy.rules().get(*at) {
                self.copies
                    .add((*at, &rule.id), server, direction, time, message);
            }
        }
    }

    /// Waits until everything is written and posted, but not forever.
    pub fn finish(&self) {
        self.copies.finish();
        self.webhooks.finish();
    }
}
