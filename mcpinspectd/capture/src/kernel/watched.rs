//! The processes whose TLS library has probes.
//!
//! A probe costs each call some microseconds, so a process that calls its library very often is left
//! alone for a while, and then for longer: the cost to it stays below a hundredth of a processor, whether it is
//! a web server, a database or a download. One that speaks MCP is not left alone.
//!
//! Detaching takes the kernel a tenth of a second and must not hold anything up: it has a separate thread. What
//! is still attached when the daemon ends is detached in parallel first, because most of that time is
//! waiting; a killed daemon leaves it to the kernel, one by one, which limits how many there may be.

use std::collections::HashMap;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use mcpinspect_core::model::Pid;
use mcpinspect_process::ProcessHandle;
use mcpinspect_runtime::priority::Priority;

use super::tls_files::{FileKey, TlsFiles};
use crate::capture::{Attached, TlsProbes};

/// Most processes with probes at a time.
const PROCESSES_MAX: usize = 64;
/// Most files of one process.
const FILES_MAX: usize = 4;
/// How long a process keeps its probes at least, however many others need some.
const GRACE: Duration = Duration::from_secs(10);
/// Libraries that may wait to be detached from.
const DETACHING_MAX: usize = 128;
/// Threads that detach at the end.
const WORKERS_MAX: usize = 32;
/// Most resting processes.
const RESTING_MAX: usize = 1024;
/// The first rest of a process. Each one after it is twice as long.
const REST: Duration = Duration::from_secs(60);
const REST_MAX: Duration = Duration::from_secs(3600);

struct Process {
    handle: ProcessHandle,
    started: u64,
    since: Instant,
    speaks: bool,
    attached: Vec<(FileKey, Attached)>,
}

/// Why to attach to a process. Later ones take precedence when space is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Occasion {
    /// It has a library, and may call it at some point.
    HasLibrary,
    /// It has begun a TLS connection, and may begin another.
    Greets,
    /// It speaks MCP.
    Speaks,
}

/// A process that is or was left alone.
struct Rest {
    started: u64,
    until: Instant,
    length: Duration,
}

/// All of them.
#[derive(Default)]
pub(super) struct Watched {
    processes: HashMap<Pid, Process>,
    resting: HashMap<Pid, Rest>,
    detaching: Option<SyncSender<Attached>>,
    is_full: bool,
}

impl Watched {
    /// Attaches to the library of a process, unless it rests.
    pub(super) fn attach(
        &mut self,
        key: FileKey,
        pid: Pid,
        occasion: Occasion,
        files: &TlsFiles,
        probes: &mut TlsProbes,
    ) {
        let Ok(Some(handle)) = ProcessHandle::open(pid) else {
            return;
        };
        let Some(started) = handle.start_time() else {
            return;
        };
        if self.is_resting(pid, started) {
            return;
        }
        if self
            .processes
            .get(&pid)
            .is_some_and(|process| process.started != started)
        {
            self.detach(pid, probes);
        }
        if !self.processes.contains_key(&pid) && !self.makes_room(occasion, probes) {
            probes.has_none(pid);
            return;
        }
        let process = self.processes.entry(pid).or_insert_with(|| Process {
            handle,
            started,
            since: Instant::now(),
            speaks: false,
            attached: Vec::new(),
        });
        process.speaks |= occasion == Occasion::Speaks;
        let is_known = process.attached.iter().any(|(known, _)| *known == key);
        if is_known || process.attached.len() >= FILES_MAX {
            return;
        }
        probes.will_attach(pid);
        match files.attach(key, Some(pid), probes) {
            Some(Ok(attached)) => {
                tracing::debug!(%pid, ino = key.1, "attached to a TLS library");
                process.attached.push((key, attached));
                probes.has_attached(pid);
            }
            // It may have ended meanwhile.
            Some(Err(error)) => tracing::debug!(%pid, %error, "cannot attach to a TLS library"),
            None => {}
        }
    }

    /// Whether there is room for one more, if necessary by replacing one that matters less.
    fn makes_room(&mut self, occasion: Occasion, probes: &mut TlsProbes) -> bool {
        if self.processes.len() >= PROCESSES_MAX {
            self.detach_ended(probes);
        }
        if self.processes.len() < PROCESSES_MAX {
            return true;
        }
        if let Some(pid) = self.least(occasion, probes) {
            tracing::debug!(%pid, "detaching a process in favour of one that needs probes more");
            self.detach(pid, probes);
            return true;
        }
        if !self.is_full {
            tracing::warn!(
                PROCESSES_MAX,
                "too many processes use a TLS library; the traffic of some is not captured"
            );
        }
        self.is_full = true;
        false
    }

    /// The process that matters least, and less than one with this occasion: it has never called its library, or
    /// at least does not speak MCP; and it has had some time to.
    fn least(&self, occasion: Occasion, probes: &TlsProbes) -> Option<Pid> {
        let ranked = self.processes.iter().map(|(pid, process)| {
            let of_it = if process.speaks {
                Occasion::Speaks
            } else if probes.has_called(*pid) {
                Occasion::Greets
            } else {
                Occasion::HasLibrary
            };
            (of_it, process.since, *pid)
        });
        let (of_it, since, pid) = ranked.min()?;
        let is_less = of_it == Occasion::HasLibrary || of_it < occasion;
        (is_less && since.elapsed() >= GRACE).then_some(pid)
    }

    /// Leaves a process alone for a while.
    pub(super) fn rest(&mut self, pid: Pid, probes: &mut TlsProbes) {
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let started = process.started;
        tracing::debug!(%pid, after = ?process.since.elapsed(), "the process calls its TLS library too often; detaching for a while");
        self.detach(pid, probes);
        let before = self
            .resting
            .get(&pid)
            .filter(|rest| rest.started == started)
            .map(|rest| rest.length);
        let length = before.map_or(REST, |length| (length * 2).min(REST_MAX));
        if self.resting.len() >= RESTING_MAX {
            self.resting
                .retain(|pid, rest| is_running(*pid, rest.started));
        }
        if self.resting.len() < RESTING_MAX {
            let rest = Rest {
                started,
                until: Instant::now() + length,
                length,
            };
            self.resting.insert(pid, rest);
        }
    }

    /// Ends a process's rest.
    pub(super) fn wake(&mut self, pid: Pid) {
        self.resting.remove(&pid);
    }

    fn is_resting(&self, pid: Pid, started: u64) -> bool {
        self.resting
            .get(&pid)
            .is_some_and(|rest| rest.started == started && rest.until > Instant::now())
    }

    /// Detaches from processes that are gone. Returns those whose rest is over.
    pub(super) fn sweep(&mut self, probes: &mut TlsProbes) -> Vec<Pid> {
        self.detach_ended(probes);
        let now = Instant::now();
        let rested: Vec<Pid> = self
            .resting
            .iter()
            .filter(|(pid, rest)| rest.until <= now && !self.processes.contains_key(pid))
            .map(|(pid, _)| *pid)
            .collect();
        let (alive, gone): (Vec<Pid>, Vec<Pid>) = rested.into_iter().partition(|pid| {
            let rest = self.resting.get(pid);
            rest.is_some_and(|rest| is_running(*pid, rest.started))
        });
        for pid in gone {
            self.resting.remove(&pid);
        }
        alive
    }

    /// Whether there is nothing to sweep.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.resting.is_empty()
    }

    fn detach_ended(&mut self, probes: &mut TlsProbes) {
        let ended: Vec<Pid> = self
            .processes
            .iter()
            .filter(|(_, process)| process.handle.start_time().is_none())
            .map(|(pid, _)| *pid)
            .collect();
        self.is_full &= ended.is_empty();
        for pid in ended {
            self.detach(pid, probes);
        }
    }

    fn detach(&mut self, pid: Pid, probes: &mut TlsProbes) {
        probes.has_left(pid);
        for (_, attached) in self
            .processes
            .remove(&pid)
            .into_iter()
            .flat_map(|process| process.attached)
        {
            let detaching = self.detaching.get_or_insert_with(detach_aside);
            // If too many wait, or without that thread, detach here.
            let _ = detaching.try_send(attached);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let attached = self.processes.drain().flat_map(|(_, known)| known.attached);
        let mut attached: Vec<Attached> = attached.map(|(_, attached)| attached).collect();
        let share = attached.len().div_ceil(WORKERS_MAX).max(1);
        std::thread::scope(|scope| {
            while !attached.is_empty() {
                let some = attached.split_off(attached.len().saturating_sub(share));
                // Without a thread, detach here.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || drop(some));
            }
        });
    }
}

/// Starts the detaching thread.
fn detach_aside() -> SyncSender<Attached> {
    let (sender, queue) = sync_channel(DETACHING_MAX);
    let thread = std::thread::Builder::new()
        .name("detaching".into())
        .spawn(move || {
            Priority::Background.claim();
            queue.iter().for_each(drop::<Attached>);
        });
    if let Err(error) = thread {
        tracing::debug!(%error, "cannot start the thread that detaches probes");
    }
    sender
}

fn is_running(pid: Pid, started: u64) -> bool {
    let handle = ProcessHandle::open(pid).ok().flatten();
    handle.and_then(|handle| handle.start_time()) == Some(started)
}
