//! What the pipeline asks of the program around it.
//!
//! The pipeline reads no clock, no `/proc` and no file, and starts no thread: times are values that come in, and
//! everything else is asked of the [`Host`]. None of its methods waits for another machine or a person; what takes
//! long is only begun here, and its result is asked for later.

use mcpinspect_core::model::{Pid, SessionId, Timestamp};
use mcpinspect_engine::AutoApproval;
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_judge::detect::rules::Lesson;
use mcpinspect_process::ProcessSnapshot;
use mcpinspect_process::program::Program;
use mcpinspect_settings::approvals::folder::ApprovalChanges;
use mcpinspect_settings::suppression::{Suppression, SuppressionError};

use super::shadow::ShadowPolicy;
use crate::control::ContainmentJob;

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
    fn approvals(&mut self, now: Timestamp) -> Option<ApprovalChanges>;

    /// Stores a suppression.
    ///
    /// # Errors
    /// It cannot be stored.
    fn suppress(
        &mut self,
        suppression: Suppression,
        now: Timestamp,
    ) -> Result<(), SuppressionError>;

    /// Stores a lesson. Returns whether it is new.
    ///
    /// # Errors
    /// It cannot be stored.
    fn learn(&mut self, lesson: Lesson) -> Result<bool, SuppressionError>;

    /// Removes what was learnt about a user's server. Returns whether there was anything.
    ///
    /// # Errors
    /// It cannot be removed.
    fn take_back(&mut self, user: u32, server: &str) -> Result<bool, SuppressionError>;

    /// When a process started, in clock ticks since boot; `None` if it is gone.
    fn start_time(&self, pid: Pid) -> Option<u64>;

    /// A process as it is now; `None` if it is gone.
    fn process(&self, pid: Pid) -> Option<ProcessSnapshot>;

    /// Has the program behind a session's server examined. `start_time`, if known, distinguishes the process from a
    /// later one with its number. Never blocks.
    fn examine(&self, session: &SessionId, pid: Pid, start_time: Option<u64>);

    /// The next of the programs that were examined. Never blocks.
    fn examined(&self) -> Option<(SessionId, Program)>;

    /// Has a server contained. Never blocks.
    fn contain(&self, job: ContainmentJob);
}
