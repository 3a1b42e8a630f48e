//! What is known about processes: the programs at the ends of streams, what they were started as, and which
//! of them move bytes past the probes.

use std::sync::Arc;

use mcpinspect_core::model::{Executed, Pid};
use mcpinspect_process::{Launches, ProcessInfo, ProcessInterner};

use super::blind_processes::BlindProcesses;
use super::environment::Environment;
use super::programs::Programs;
use super::settings::Settings;
use super::shares::Uid;

/// The tables of processes.
pub struct Processes {
    /// By stream.
    pub programs: Programs,
    /// As the kernel saw them start.
    pub launches: Launches,
    /// Descriptions, shared and counted by user.
    pub interner: ProcessInterner,
    pub blind: BlindProcesses,
}

impl Processes {
    /// Nothing yet.
    pub fn new(settings: &Settings) -> Self {
        let per_user = settings.max_programs_per_user;
        Self {
            programs: Programs::default(),
            launches: Launches::default(),
            interner: ProcessInterner::new(per_user, 2 * per_user),
            blind: BlindProcesses::default(),
        }
    }

    /// Notes that a process has started a program. Whatever it did before, this is another one.
    pub fn executed(&mut self, pid: u32, executed: Option<&Arc<Executed>>) {
        self.blind.forget(pid);
        if let Some(executed) = executed {
            self.launches.add(Pid(pid), Arc::clone(executed));
        }
    }

    /// Describes a process: as it was when the kernel saw it start its program, or else as it is now.
    pub fn describe(&self, machine: &mut dyn Environment, pid: u32) -> Option<Arc<ProcessInfo>> {
        machine.describe(pid, &self.launches)
    }

    /// Describes a process that has just started a program.
    pub fn describe_started(
        &self,
        machine: &mut dyn Environment,
        pid: u32,
        executed: Option<&Executed>,
    ) -> Option<Arc<ProcessInfo>> {
        match executed {
            Some(executed) => Some(machine.started(pid, executed, &self.launches)),
            None => self.describe(machine, pid),
        }
    }

    /// Shares the description of a user's process with what is known.
    pub fn keep(&mut self, user: Uid, info: Arc<ProcessInfo>) -> Arc<ProcessInfo> {
        Arc::new(self.interner.intern(user, Arc::unwrap_or_clone(info)))
    }
}
