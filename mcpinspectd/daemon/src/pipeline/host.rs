//! What the pipeline asks of the program around it.

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::AutoApproval;
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_settings::approvals::folder::News;

use super::shadow::ShadowPolicy;

/// The part of a configuration that concerns the pipeline.
#[derive(Clone, Debug, Default)]
pub struct Reloaded {
    /// What findings lead to.
    pub policy: ContainmentPolicy,
    /// Which changes are accepted without asking a person.
    pub approval: AutoApproval,
    /// The rules that each message is checked against.
    pub shadow: Option<ShadowPolicy>,
}

/// What the pipeline asks of the program around it.
pub trait Host {
    /// Rereads configuration and rules.
    ///
    /// Returns what applies from now on.
    ///
    /// # Errors
    /// What is wrong with them; everything then stays as it was.
    fn reload(&mut self) -> Result<Reloaded, String>;

    /// Rereads rules and suppressions.
    fn reload_rules(&mut self);

    /// Checks the signed lists of approved definitions if that is due. Returns what changed.
    fn approvals(&mut self, _now: Timestamp) -> Option<News> {
        None
    }
}
