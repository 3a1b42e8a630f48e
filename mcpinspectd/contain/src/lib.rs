//! Stops a server that has done harm, or may.
//!
//! mcpinspectd watches from beside the wire: by the time something is found in a message, the
//! message has arrived. So this does not block messages. It keeps a server from doing *more*: its processes are
//! frozen on the spot, and a person decides whether they continue or end.
//!
//! What must never happen is to stop the wrong process: the client (a person's editor), pid 1, this
//! daemon or what it runs under, a process that the client merely connected to, one of another user, or
//! one that reuses a dead server's pid. Hence two parts:
//!
//! - `plan` decides, on plain values, which processes are the server's own: itself and its
//!   launchers below the client, with all their children.
//! - `act` does it, holding processes and not numbers: it takes hold of each, compares its start time,
//!   and only then signals it.
//!
//! A server with a control group of its own is frozen as a whole by the kernel, which nothing inside
//! can escape or undo. If it shares one with its client, or the group cannot be written, each
//! process gets `SIGSTOP`. Any process of the same user can undo that, so it stops a
//! server but not a determined attacker; killing ends both.

mod act;
mod cgroup;
mod event;
mod find;
mod holders;
mod plan;
mod rest;
mod service_manager;

use mcpinspect_core::model::Pid;
use serde::Serialize;

pub use act::{ContainError, contain};
pub use event::{Trigger, event};
pub use find::find;
pub use plan::{Plan, Refusal, Target, plan};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Contained {
    /// Control groups that were frozen, thawed or killed as a whole.
    pub cgroups: Vec<String>,
    /// The processes concerned.
    pub processes: Vec<Pid>,
    /// Processes that could not be reached, each with the reason.
    pub missed: Vec<String>,
}
