//! What the tracker asks of the machine.

use std::sync::Arc;

use mcpinspect_common::{End, EndpointCounters, EndpointKey, EndpointWatch};

use crate::model::ServerIdentity;
use crate::process::ProcessInfo;
use crate::process::fds::{Holder, Holders};

/// What the configuration says about a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Nothing: look at what it says.
    #[default]
    Sniff,
    /// Its standard input and output are MCP, whatever they look like.
    Watch,
    /// Leave it alone.
    Exclude,
}

/// The kernel's side and the process table. The real one is in the daemon; tests bring their own.
pub trait Environment {
    /// Sets how far an endpoint's bytes are shipped.
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch);
    /// What was counted at an endpoint.
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters>;
    /// Stops knowing an endpoint.
    fn forget(&mut self, key: EndpointKey);
    /// Who holds which stream now.
    fn holders(&mut self) -> Holders;
    /// Whether a process holds an end of an endpoint now.
    fn holds(&self, pid: u32, endpoint: EndpointKey, end: End) -> bool;
    /// Bytes that wait to be read at a descriptor of another process.
    fn unread(&mut self, holder: &Holder) -> Option<u64>;
    /// Marks a process, so that its calls are looked at.
    fn mark(&mut self, pid: u32);
    /// Takes back the marks of processes that hold nothing of interest.
    fn unmark_idle(&mut self);
    /// A process as it is now.
    fn describe(&mut self, pid: u32) -> Option<Arc<ProcessInfo>>;
    /// What the configuration says about a process.
    fn policy(&mut self, process: &ProcessInfo) -> Policy;
    /// A server's stable name; `client` ends the chain of its launchers.
    fn identify(&mut self, server: Option<&ProcessInfo>, client: Option<u32>) -> ServerIdentity;
}
