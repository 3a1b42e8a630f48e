//! A program around the pipeline, for tests.

use std::path::PathBuf;

use mcpinspect_core::model::{ContainmentAction, Pid, SessionId, Timestamp};
use mcpinspect_engine::ContainmentPolicy;
use mcpinspect_judge::detect::rules::Lesson;
use mcpinspect_process::ProcessSnapshot;
use mcpinspect_process::program::Program;
use mcpinspect_settings::approvals::folder::ApprovalChanges;
use mcpinspect_settings::lessons;
use mcpinspect_settings::suppression::{Suppression, SuppressionError};

use super::host::{Host, Reloaded};
use crate::control::ContainmentJob;

/// A machine without processes, and a configuration that may be wrong.
#[derive(Default)]
pub(super) struct TestHost {
    pub(super) mistake: Option<String>,
    pub(super) rules_read: u32,
    pub(super) suppressions: PathBuf,
}

impl Host for TestHost {
    fn reload(&mut self) -> Result<Reloaded, String> {
        match &self.mistake {
            Some(mistake) => Err(mistake.clone()),
            None => Ok(Reloaded {
                policy: ContainmentPolicy::new(Some(ContainmentAction::Freeze), None),
                ..Reloaded::default()
            }),
        }
    }

    fn reload_rules(&mut self) {
        self.rules_read += 1;
    }

    fn approvals(&mut self, _now: Timestamp) -> Option<ApprovalChanges> {
        None
    }

    fn suppress(
        &mut self,
        suppression: Suppression,
        now: Timestamp,
    ) -> Result<(), SuppressionError> {
        suppression.add_to(&self.suppressions, now)
    }

    fn learn(&mut self, lesson: Lesson) -> Result<bool, SuppressionError> {
        lessons::learn(&self.suppressions, lesson)
    }

    fn take_back(&mut self, user: u32, server: &str) -> Result<bool, SuppressionError> {
        lessons::take_back(&self.suppressions, user, server)
    }

    fn start_time(&self, _pid: Pid) -> Option<u64> {
        None
    }

    fn process(&self, _pid: Pid) -> Option<ProcessSnapshot> {
        None
    }

    fn examine(&self, _session: &SessionId, _pid: Pid, _start_time: Option<u64>) {}

    fn examined(&self) -> Option<(SessionId, Program)> {
        None
    }

    fn contain(&self, _job: ContainmentJob) {}
}
