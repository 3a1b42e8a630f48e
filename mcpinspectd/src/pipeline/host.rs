//! What the pipeline asks of the program around it.

use super::shadow::ShadowPolicy;
use crate::approvals::folder::News;
use crate::contain::ContainmentPolicy;
use crate::engine::AutoApproval;
use crate::model::Timestamp;

/// What of a configuration concerns the pipeline.
#[derive(Clone, Debug, Default)]
pub struct Reloaded {
    /// What findings lead to.
    pub policy: ContainmentPolicy,
    /// Which changes are accepted without a person.
    pub approval: AutoApproval,
    /// The rules that are asked about each message.
    pub shadow: Option<ShadowPolicy>,
}

/// What the pipeline asks of the program around it.
pub trait Host {
    /// Reads configuration and rules again.
    ///
    /// Returns what holds from now on.
    ///
    /// # Errors
    /// What is wrong with them; everything stays as it was then.
    fn reload(&mut self) -> Result<Reloaded, String>;

    /// Reads rules and suppressions again.
    fn reload_rules(&mut self);

    /// Looks at the signed lists of approved definitions, if that is due. Returns what is different.
    fn approvals(&mut self, _now: Timestamp) -> Option<News> {
        None
    }
}
