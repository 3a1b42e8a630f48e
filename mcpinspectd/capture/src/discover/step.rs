//! What one step of discovery works on.

use mcpinspect_common::EndpointKey;
use mcpinspect_core::model::InputSink;
use mcpinspect_process::{KeptProcesses, Launches};

use super::accounts::ClosedAccounts;

use super::admission_queue::AdmissionQueue;
use super::blind_processes::BlindProcesses;
use super::environment::Environment;
use super::notices::Notices;
use super::programs::Programs;
use super::sessions::TrackedSessions;
use super::settings::Settings;
use super::shipping;
use super::streams::StreamTable;
use crate::capture::BootClock;

/// The tables, the machine, and where the results go. Made for each record or tick.
pub struct Step<'a> {
    pub machine: &'a mut dyn Environment,
    pub settings: &'a Settings,
    pub clock: BootClock,
    pub streams: &'a mut StreamTable,
    pub programs: &'a mut Programs,
    pub launches: &'a Launches,
    pub kept: &'a mut KeptProcesses,
    pub sessions: &'a mut TrackedSessions,
    pub accounts: &'a mut ClosedAccounts,
    pub blind: &'a mut BlindProcesses,
    pub admissions: &'a mut AdmissionQueue,
    pub notices: &'a mut Notices,
    pub sink: &'a mut dyn InputSink,
}

impl Step<'_> {
    /// Has the kernel ship as much of a stream as what it turned out to be requires.
    pub fn ship(&mut self, key: EndpointKey) {
        for (endpoint, watch) in shipping::watches(self.streams, self.settings, key) {
            self.machine.watch(endpoint, watch);
        }
    }
}
