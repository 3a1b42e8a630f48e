//! What decisions cause besides the wire: lines in a log, copies of messages, posts to a URL.

use mcpinspectd::model::{Direction, Timestamp};
use mcpinspectd::policy::Policy;
use mcpinspectd::policy::record::Record;
use mcpinspectd::policy::session::Handled;

use super::copies::Copies;
use super::log::Log;
#[cfg(feature = "tools")]
use super::webhooks::Webhooks;

/// All effects.
pub struct Effects {
    log: Log,
    copies: Copies,
    #[cfg(feature = "tools")]
    webhooks: Webhooks,
}

impl Effects {
    /// Starts what the rules want.
    ///
    /// # Errors
    /// What a rule wants cannot be done, whatever the messages are.
    pub fn start(policy: &Policy, log: Log) -> anyhow::Result<Self> {
        #[cfg(not(feature = "tools"))]
        if let Some(rule) = policy
            .rules()
            .iter()
            .find(|rule| rule.action.as_str() == "webhook")
        {
            anyhow::bail!("rule `{}`: this mcpinspect was built without HTTP", rule.id);
        }
        Ok(Self {
            log,
            copies: Copies::start(policy),
            #[cfg(feature = "tools")]
            webhooks: Webhooks::start(policy)?,
        })
    }

    /// Reports decisions.
    pub fn tell(&self, records: &[Record]) {
        self.log.write(records);
        #[cfg(feature = "tools")]
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
        #[cfg(feature = "tools")]
        self.webhooks.finish();
    }
}
