//! Servers that were running before the daemon.
//!
//! Their standard input and output are examined like those of a program that starts now. Some servers
//! move their wire away from descriptors 0 and 1 once they run (Python's SDK does), so pairs of pipes,
//! one in each direction, that a process shares with an ancestor are examined too.

use std::collections::{HashMap, HashSet};

use mcpinspect_common::{EndpointKey, EndpointKind};
use mcpinspect_core::model::{InodeKey, Pid};
use mcpinspect_process::fds::{Holder, Holders, StreamKind, holders_snapshot};
use mcpinspect_process::info::{RunningProcess, all};

use super::{KernelEnvironment, memory};
use crate::capture::ProbeError;
use crate::discover::RememberedStream;

/// A program that was running before the daemon, and the endpoints that may be its wire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RunningProgram {
    pub(super) pid: Pid,
    pub(super) input: Option<EndpointKey>,
    pub(super) output: Option<EndpointKey>,
}

/// What was running before the daemon.
pub(super) struct Running {
    /// Programs, as they are now.
    pub(super) programs: Vec<RunningProgram>,
    /// Streams of sessions that the previous daemon knew.
    pub(super) remembered: Vec<RememberedStream>,
}

/// Registers every endpoint that may be a wire, and those of `remembered` sessions that continue. The
/// probes answer through the ring.
pub(super) fn register(
    environment: &mut KernelEnvironment,
    remembered: Vec<RememberedStream>,
) -> Result<Running, ProbeError> {
    let (processes, holders) = (all(), holders_snapshot());
    let programs = candidates(&processes, &holders);
    let remembered = memory::still_there(remembered, &processes, &holders);
    let mut keys: HashSet<EndpointKey> = programs
        .iter()
        .flat_map(|program| [program.input, program.output])
        .flatten()
        .collect();
    keys.extend(
        remembered
            .iter()
            .map(|stream| EndpointKey::from(stream.endpoint)),
    );
    environment.probes().register(keys)?;
    Ok(Running {
        programs,
        remembered,
    })
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

/// Pipes per process and direction to examine besides its standard input and output.
const SHARED_MAX: usize = 4;

/// The programs that may be servers.
fn candidates(processes: &[RunningProcess], holders: &Holders) -> Vec<RunningProgram> {
    let parents: HashMap<Pid, Pid> = processes
        .iter()
        .map(|process| (process.pid, process.parent))
        .collect();
    let own = mcpinspect_process::own();
    let mut stdio: HashMap<Pid, RunningProgram> = HashMap::new();
    let mut shared: HashMap<Pid, [Vec<EndpointKey>; 2]> = HashMap::new();
    for (key, holders) in holders {
        for holder in holders.iter().filter(|holder| holder.pid != own) {
            let Some(endpoint) = endpoint(*key, holder.kind) else {
                continue;
            };
            let program = stdio.entry(holder.pid).or_insert(RunningProgram {
                pid: holder.pid,
                input: None,
                output: None,
            });
            match holder.fd {
                0 if holder.access.reads() => program.input = Some(endpoint),
                1 if holder.access.writes() => program.output = Some(endpoint),
                // Standard error is usually shared with ancestors.
                2 => {}
                _ if is_shared_with_ancestor(holder, holders, &parents) => {
                    let side = usize::from(holder.access.writes());
                    shared.entry(holder.pid).or_default()[side].push(endpoint);
                }
                _ => {}
            }
        }
    }
    let mut running: Vec<RunningProgram> = stdio
        .into_values()
        .filter(|program| program.input.is_some() || program.output.is_some())
        .collect();
    // Only a pair, one in each direction, can be a moved wire. The bytes will show which pair it is.
    for (pid, [inputs, outputs]) in shared {
        for input in inputs.iter().take(SHARED_MAX) {
            for output in outputs.iter().take(SHARED_MAX) {
                running.push(RunningProgram {
                    pid,
                    input: Some(*input),
                    output: Some(*output),
                });
            }
        }
    }
    running.sort_by_key(|program| program.pid);
    running
}

/// Whether an ancestor of the holder has its pipe's other end.
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
