//! What discovery asks the machine, as a trait, so that tests can run without one.

use std::net::SocketAddr;
use std::sync::Arc;

use mcpinspect_common::{End, EndpointCounters, EndpointKey, EndpointWatch, LeftAlone};
use mcpinspect_core::model::{BootTime, Executed, ServerIdentity};
use mcpinspect_process::identity::Launched;
use mcpinspect_process::{Launches, ProcessInfo};

use super::shares::Uid;

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

/// Who can read an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readers {
    /// The processes.
    pub pids: Vec<u32>,
    /// Unread bytes; `None` if the kernel does not tell.
    pub unread: Option<u64>,
}

/// A process that uses an unsupported TLS library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenLibrary {
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started: u64,
    /// What was found out: that no library is known, or which one it is.
    pub found: String,
    /// If it is a known client: the hosts of the servers elsewhere that its configuration lists.
    pub servers: Vec<String>,
}

/// A TCP socket of this machine whose process is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoughtSocket {
    /// Identifies the answer.
    pub number: u64,
    /// A process in the same network namespace.
    pub near: u32,
    /// The socket's own address.
    pub local: SocketAddr,
    /// The address of its peer.
    pub remote: SocketAddr,
}

/// The kernel and the process table.
///
/// Surveys find out who holds what; they may take a while and do not hold up the caller.
pub trait Environment {
    /// Sets how much of an endpoint's bytes to ship.
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch);
    /// Returns what was counted at an endpoint.
    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters>;
    /// Forgets an endpoint.
    fn forget(&mut self, key: EndpointKey);
    /// Forgets the socket of a connection, which `user` registered.
    fn forget_connection(&mut self, key: EndpointKey, user: Uid);
    /// Leaves the socket of a connection alone until further notice, and forgets it.
    fn leave_connection(&mut self, key: EndpointKey, left: LeftAlone, user: Uid);
    /// Begins a survey, unless one is in progress or has only just ended. It also finds out
    /// who can read `sought`, and removes the marks of processes that held no stream of interest twice
    /// in a row.
    fn survey(&mut self, now: BootTime, sought: &[EndpointKey]);
    /// Returns when the last finished survey began; the default before the first.
    fn surveyed(&mut self) -> BootTime;
    /// Whether anything held an end of an endpoint open when that survey looked. One that has
    /// become known since counts as held.
    fn is_held(&self, endpoint: EndpointKey, end: End) -> bool;
    /// Returns who could read an endpoint then, if the survey was asked to find out.
    fn readers(&self, endpoint: EndpointKey) -> Option<Readers>;
    /// Whether a process holds an end of an endpoint now.
    fn holds(&self, pid: u32, endpoint: EndpointKey, end: End) -> bool;
    /// Marks a process, so that its calls are captured.
    fn mark(&mut self, pid: u32);
    /// Reports that a process may have an unknown TLS library. `greets`: it has begun a TLS connection.
    fn library(&mut self, pid: u32, greets: bool);
    /// Leaves a process alone for a while: the probes in its TLS library cost it too much.
    fn leave_library(&mut self, pid: u32);
    /// No longer leaves it alone, because it speaks MCP.
    fn want_library(&mut self, pid: u32);
    /// Returns processes that greeted and whose library is not supported.
    fn unseen_tls(&mut self) -> Vec<UnseenLibrary>;
    /// Returns the process whose end a TLS connection's greeting first crossed.
    fn greeted(&self, greeting: u64, end: End) -> Option<u32>;
    /// Requests the process that holds a socket. If too many are wanted, the answer may never come.
    fn seek_owner(&mut self, socket: SoughtSocket);
    /// Returns what was found since the last call: the number of a request, and the process.
    fn owners(&mut self) -> Vec<(u64, Option<u32>)>;
    /// When the process that has this number now was started, in clock ticks since boot.
    fn start_time(&self, pid: u32) -> Option<u64>;
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
    /// Returns the stable name of a server known only by its URL; `client` is the process on this
    /// machine that talks to it.
    fn identify_url(&mut self, url: &str, client: Option<&ProcessInfo>) -> ServerIdentity;
}
