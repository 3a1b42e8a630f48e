//! Finds the processes that hold sockets, on a separate thread because it takes a walk of the process table.
//!
//! One walk answers for all sockets that are wanted by then. However long it takes, the thread then rests ten
//! times as long.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use mcpinspect_core::model::Pid;
use mcpinspect_process::sockets::{Ends, holders, inodes};
use mcpinspect_runtime::priority::Priority;

use crate::discover::SoughtSocket;

/// Sockets that may wait to be found.
const WAITING: usize = 1024;
/// How many times longer than a walk, at most, the pause after it is.
const PAUSE: u32 = 10;
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The thread, as its user sees it. It ends when this value is dropped.
pub(super) struct Owners {
    requests: SyncSender<SoughtSocket>,
    answers: Receiver<(u64, Option<u32>)>,
}

impl Owners {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let (requests, queue) = sync_channel(WAITING);
        let (sender, answers) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("owners".into())
            .spawn(move || serve(&queue, &sender))?;
        Ok(Self { requests, answers })
    }

    /// Requests a socket's process. If too many wait, it stays unknown.
    pub(super) fn seek(&self, socket: SoughtSocket) {
        if self.requests.try_send(socket).is_err() {
            tracing::debug!(
                ?socket,
                "too many sockets are waiting for their process; skipping one"
            );
        }
    }

    /// What was found since the last call.
    pub(super) fn found(&self) -> Vec<(u64, Option<u32>)> {
        self.answers.try_iter().collect()
    }
}

fn serve(queue: &Receiver<SoughtSocket>, answers: &SyncSender<(u64, Option<u32>)>) {
    Priority::Background.claim();
    while let Ok(first) = queue.recv() {
        let began = Instant::now();
        let sought: Vec<SoughtSocket> = std::iter::once(first).chain(queue.try_iter()).collect();
        for (socket, owner) in sought.iter().zip(owners(&sought)) {
            if answers.send((socket.number, owner)).is_err() {
                return;
            }
        }
        std::thread::sleep((began.elapsed() * PAUSE).min(PAUSE_MAX));
    }
}

/// The process that holds each of these sockets, where it can be found.
fn owners(sought: &[SoughtSocket]) -> Vec<Option<u32>> {
    let mut by_namespace: HashMap<Option<u64>, Vec<usize>> = HashMap::new();
    for (at, socket) in sought.iter().enumerate() {
        let namespace = network_of(socket.near);
        by_namespace.entry(namespace).or_default().push(at);
    }
    let mut found = vec![None; sought.len()];
    for places in by_namespace.values() {
        let Some(near) = places.first().map(|at| sought[*at].near) else {
            continue;
        };
        let ends: Vec<Ends> = places
            .iter()
            .map(|at| Ends {
                local: sought[*at].local,
                remote: sought[*at].remote,
            })
            .collect();
        for (at, ino) in places.iter().zip(inodes(Pid(near), &ends)) {
            found[*at] = ino;
        }
    }
    let by_ino = holders(&found.iter().flatten().copied().collect());
    found
        .into_iter()
        .map(|ino| Some(by_ino.get(&ino?)?.0))
        .collect()
}

/// The network namespace of a process; `None` if it is gone.
fn network_of(pid: u32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let about = std::fs::metadata(format!("/proc/{pid}/ns/net"));
    about.ok().map(|about| about.ino())
}
