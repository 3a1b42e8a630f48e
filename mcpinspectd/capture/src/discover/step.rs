//! What one step of discovery works on.

use mcpinspect_common::EndpointKey;

use super::environment::Environment;
use super::output::Output;
use super::processes::Processes;
use super::quotas::Quotas;
use super::settings::Settings;
use super::shipping;
use super::traffic::Traffic;

/// The machine, what is known about it, and where the results go. Made for each record or tick.
pub struct Step<'a> {
    pub machine: &'a mut dyn Environment,
    pub settings: &'a Settings,
    pub traffic: &'a mut Traffic,
    pub processes: &'a mut Processes,
    pub quotas: &'a mut Quotas,
    pub output: Output<'a>,
}

impl Step<'_> {
    /// Has the kernel ship as much of a stream as what it turned out to be requires.
    pub fn ship(&mut self, key: EndpointKey) {
        for (endpoint, watch) in shipping::watches(&self.traffic.streams, self.settings, key) {
            self.machine.watch(endpoint, watch);
        }
    }
}
