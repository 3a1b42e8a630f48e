//! What discovery asks of the machine, as a trait, so that tests can run without one.

use std::sync::Arc;

use mcpinspect_common::{End, EndpointCounters, EndpointKey, EndpointWatch};

use super::shares::Uid;
use crate::model::{Executed, ServerIdentity};
use crate::process::fds::{Holder, Holders};
use crate::process::identity::Launched;
use crate::process::{Launches, ProcessInfo};

/// What the configuration says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchPolicy {
    /// Nothing: examine what it says.
    #[default]
    Sniff,
    /// Its standard input and output are MCP, whatever they look like.
    Watch,
    /// Leave it alone.
    Exclude,
}

/// The kernel and the process table.
pub trait Environment {
    /// Sets how far an endpoint's bytes are shipped.
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch);
    /// Returns what was counted at an endpoint.
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters>;
    /// Forgets an endpoint.
    fn forget(&mut self, key: EndpointKey);
    /// Returns which process holds which stream now.
    fn holders(&mut self) -> Holders;
    /// Whether a process holds an end of an endpoint now.
    fn holds(&self, pid: u32, endpoint: EndpointKey, end: End) -> bool;
    /// Returns how many bytes wait to be read at another process's descriptor.
    fn unread(&mut self, holder: &Holder) -> Option<u64>;
    /// Marks a process, so that its calls are captured.
    fn mark(&mut self, pid: u32);
    /// Removes the marks of processes that hold no stream of interest.
    fn unmark_idle(&mut self);
    /// Returns the user that a process runs as.
    fn user(&self, pid: u32) -> Option<Uid>;
    /// Describes a process: as it was when the kernel saw it start its program (`launches`), or else as
    /// it is now.
    fn describe(&mut self, pid: u32, launches: &Launches) -> Option<Arc<ProcessInfo>>;
    /// Describes a process that has just started a program.
    fn started(&mut self, pid: u32, executed: &Executed, launches: &Launches) -> Arc<ProcessInfo>;
    /// Returns what the configuration says about a process.
    fn policy(&mut self, process: &ProcessInfo) -> WatchPolicy;
    /// Returns a server's stable name.
    fn identify(&mut self, server: Launched<'_>) -> ServerIdentity;
}
