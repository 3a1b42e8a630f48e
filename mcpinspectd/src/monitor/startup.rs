//! Servers that were running before the daemon.
//!
//! Their standard input and output are looked at like those of a program that starts now. Some
//! servers move their wire away from descriptors 0 and 1 once they run (Python's SDK does), so
//! pipes that a process shares with one of its ancestors, one in each direction, are looked at too.

use std::collections::{HashMap, HashSet};

use mcpinspect_common::{EndpointKey, EndpointKind};

use super::Machine;
use crate::capture::ProbeError;
use crate::model::Pid;
use crate::process::fds::{Holder, Holders, InodeKey, StreamKind, holders_snapshot};
use crate::process::info::{ProcessSnapshot, all};

/// A program found running, and the endpoints that may be its wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) pid: Pid,
    pub(super) input: Option<EndpointKey>,
    pub(super) output: Option<EndpointKey>,
}

/// Registers what may be a wire. The probes answer through the ring.
pub(super) fn register_running(machine: &mut Machine) -> Result<Vec<Found>, ProbeError> {
    let found = candidates(&all(), &holders_snapshot());
    let keys: HashSet<EndpointKey> = found
        .iter()
        .flat_map(|found| [found.input, found.output])
        .flatten()
        .collect();
    machine.probes().register(keys)?;
    Ok(found)
}

fn endpoint(key: InodeKey, kind: StreamKind) -> Option<EndpointKey> {
    let kind = match kind {
        StreamKind::Pipe | StreamKind::Fifo => EndpointKind::Pipe,
        StreamKind::UnixSocket => EndpointKind::UnixSocket,
        StreamKind::Other => return None,
    };
    Some(EndpointKey {
        ino: key.ino,
        dev: u32::try_from(key.dev).ok()?,
        kind: kind as u32,
    })
}

/// Pipes per process and direction that are looked at beside its standard input and output.
const SHARED_MAX: usize = 4;

/// The programs that may be servers.
fn candidates(processes: &[ProcessSnapshot], holders: &Holders) -> Vec<Found> {
    let parents: HashMap<Pid, Pid> = processes
        .iter()
        .map(|process| (process.pid, process.parent))
        .collect();
    let own = crate::process::own();
    let mut stdio: HashMap<Pid, Found> = HashMap::new();
    let mut shared: HashMap<Pid, [Vec<EndpointKey>; 2]> = HashMap::new();
    for (key, holders) in holders {
        for holder in holders.iter().filter(|holder| holder.pid != own) {
            let Some(endpoint) = endpoint(*key, holder.kind) else {
                continue;
            };
            let found = stdio.entry(holder.pid).or_insert(Found {
                pid: holder.pid,
                input: None,
                output: None,
            });
            match holder.fd {
                0 if holder.access.reads() => found.input = Some(endpoint),
                1 if holder.access.writes() => found.output = Some(endpoint),
                // Standard error is shared with ancestors everywhere.
                2 => {}
                _ if is_shared_with_ancestor(holder, holders, &parents) => {
                    let side = usize::from(holder.access.writes());
                    shared.entry(holder.pid).or_default()[side].push(endpoint);
                }
                _ => {}
            }
        }
    }
    let mut found: Vec<Found> = stdio
        .into_values()
        .filter(|found| found.input.is_some() || found.output.is_some())
        .collect();
    // Only pairs in both directions are taken for a moved wire; which pair it is will show.
    for (pid, [inputs, outputs]) in shared {
        for input in inputs.iter().take(SHARED_MAX) {
            for output in outputs.iter().take(SHARED_MAX) {
                found.push(Found {
                    pid,
                    input: Some(*input),
                    output: Some(*output),
                });
            }
        }
    }
    found.sort_by_key(|found| found.pid);
    found
}

/// Whether an ancestor of the holder has the other end of its pipe.
fn is_shared_with_ancestor(
    holder: &Holder,
    holders: &[Holder],
    parents: &HashMap<Pid, Pid>,
) -> bool {
    if holder.kind != StreamKind::Pipe || holder.access.reads() == holder.access.writes() {
        return false;
    }
    let mut ancestor = holder.pid;
    for _ in 0..8 {
        let Some(parent) = parents.get(&ancestor) else {
            return false;
        };
        ancestor = *parent;
        let has_other_end = holders
            .iter()
            .any(|other| other.pid == ancestor && other.access.reads() != holder.access.reads());
        if has_other_end {
            return true;
        }
    }
    false
}
