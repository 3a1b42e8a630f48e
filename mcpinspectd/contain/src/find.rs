//! Finds a server's processes by its name, for callers that did not watch it start: the command
//! line without a daemon, and a server that has said nothing since the daemon started (a frozen one
//! never does).

use mcpinspect_core::model::{InodeKey, Pid, Process, ServerSide};
use mcpinspect_judge::registry::ServerNames;
use mcpinspect_process::fds::{FdTarget, Holders, StreamKind, holders_snapshot, stdio};
use mcpinspect_process::identity;
use mcpinspect_process::identity::clients::ClientConfigs;
use mcpinspect_process::{ProcessInfo, start_time, table};

use super::plan::Target;

/// The running processes between two pipes or sockets that are called `server`. `names` are the
/// names assigned so far (see [`ServerNames`]).
pub fn find(server: &str, mut names: ServerNames) -> Vec<Target> {
    let configs = ClientConfigs::default();
    let holders = holders_snapshot();
    let mut found = Vec::new();
    for row in table() {
        let Some([input, output]) = between_streams(row.pid) else {
            continue;
        };
        let Some(info) = ProcessInfo::read(row.pid) else {
            continue;
        };
        let client = writer_above(&info, input, &holders);
        let identity = identity::of_process(Some(&info), client.map(|client| client.pid), &configs);
        if identity.name_source == "unknown" {
            continue;
        }
        if &*names.assign(Some(info.process().uid), identity).server_id.0 == server {
            let process = info.process();
            let server = Process {
                pid: process.pid,
                start_time: process.start_time,
            };
            found.push(Target {
                server,
                client,
                side: ServerSide {
                    launched: vec![server],
                    reads: Some(input),
                    writes: Some(output),
                },
            });
        }
    }
    found
}

/// The standard input and output of a process, if both are streams.
fn between_streams(pid: Pid) -> Option<[InodeKey; 2]> {
    let [input, output, _] = stdio(pid)?;
    let stream = |target: FdTarget| (target.kind != StreamKind::Other).then_some(target.key);
    Some([stream(input?)?, stream(output?)?])
}

/// The nearest ancestor that holds the writing end of what the process reads, and is not just
/// another launcher between the same streams.
fn writer_above(info: &ProcessInfo, input: InodeKey, holders: &Holders) -> Option<Process> {
    let holders = holders.get(&input)?;
    let client = info.ancestors().iter().find(|ancestor| {
        holders
            .iter()
            .any(|holder| holder.pid == ancestor.pid && holder.access.writes())
    })?;
    let start_time = start_time(client.pid)?;
    Some(Process {
        pid: client.pid,
        start_time,
    })
}
