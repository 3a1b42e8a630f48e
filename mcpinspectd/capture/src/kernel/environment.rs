//! This machine as discovery sees it: the probes' maps and the process table.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use mcpinspect_common::{
    End, EndpointCounters, EndpointKey, EndpointKind, EndpointWatch, LeftAlone,
};
use mcpinspect_core::model::{BootTime, Executed, Pid, ServerIdentity};
use mcpinspect_process::fds::{StreamKind, of_process};
use mcpinspect_process::identity::Launched;
use mcpinspect_process::{Launches, ProcessHandle, ProcessInfo, own};

use super::libraries::Libraries;
use super::owners::Owners;
use super::surveyor::{SurveyRequest, SurveyResult, Surveyor};
use crate::capture::Probes;
use crate::discover::{Environment, Readers, SoughtSocket, UnseenLibrary, WatchPolicy};

/// Decides what the configuration says about a process.
pub type PolicyOf = Box<dyn Fn(&ProcessInfo) -> WatchPolicy + Send>;
/// Finds a server's stable name.
pub type IdentityOf = Box<dyn FnMut(IdentityRequest<'_>) -> ServerIdentity + Send>;

/// A server whose name is wanted.
#[derive(Clone, Copy, Debug)]
pub enum IdentityRequest<'a> {
    /// It is a process.
    Launched(Launched<'a>),
    /// It is known by its URL.
    Url {
        /// Without query and credentials.
        url: &'a str,
        /// The process on this machine that talks to it.
        client: Option<&'a ProcessInfo>,
    },
}

/// The probes' maps and the process table.
pub struct KernelEnvironment {
    probes: Probes,
    policy: PolicyOf,
    identity: IdentityOf,
    /// The daemon's own pipes and sockets, which are never watched.
    own: HashSet<EndpointKey>,
    /// Processes (by slot and mark) that held nothing of interest when last checked.
    idle: HashMap<u32, u64>,
    surveyor: Surveyor,
    libraries: Option<Libraries>,
    is_opening: bool,
    owners: Owners,
    /// What the last survey found.
    found: Option<SurveyResult>,
}

impl KernelEnvironment {
    /// The machine that the probes run on. `policy` and `identity` answer discovery's questions about
    /// processes.
    ///
    /// # Errors
    /// The thread for surveys cannot be started.
    pub fn new(probes: Probes, policy: PolicyOf, identity: IdentityOf) -> std::io::Result<Self> {
        Ok(Self {
            probes,
            policy,
            identity,
            own: HashSet::new(),
            idle: HashMap::new(),
            surveyor: Surveyor::start()?,
            libraries: None,
            is_opening: false,
            owners: Owners::start()?,
            found: None,
        })
    }

    /// Attaches to TLS libraries that processes turn out to have.
    pub(super) fn attach_to(&mut self, libraries: Option<Libraries>) {
        self.is_opening = libraries.is_some();
        self.libraries = libraries;
    }

    /// Whether the probes for TLS are still being loaded.
    pub(super) fn is_opening(&mut self) -> bool {
        self.is_opening &= self
            .libraries
            .as_ref()
            .is_some_and(|libraries| !libraries.has_begun());
        self.is_opening
    }

    /// The probes.
    pub fn probes(&mut self) -> &mut Probes {
        &mut self.probes
    }

    /// Excludes the daemon's own pipes and sockets, so that a program that reads its output is not
    /// mistaken for part of a session.
    pub(super) fn exclude_own_output(&mut self) {
        for (_, target) in of_process(own()) {
            let kind = match target.kind {
                StreamKind::Pipe | StreamKind::Fifo => EndpointKind::Pipe,
                StreamKind::UnixSocket => EndpointKind::UnixSocket,
                StreamKind::Other => continue,
            };
            let Ok(dev) = u32::try_from(target.key.dev) else {
                continue;
            };
            let key = EndpointKey {
                ino: target.key.ino,
                dev,
                kind: kind as u32,
            };
            self.own.insert(key);
            self.probes.set_watch(key, EndpointWatch::default());
        }
    }
}

impl KernelEnvironment {
    /// Removes the marks of processes that held nothing of interest.
    fn unmark_idle(&mut self, found: &SurveyResult) {
        // A process that moves a descriptor while its table is being read appears to hold nothing, so
        // that has to happen twice.
        let idle = found.marked.iter().copied();
        let idle: HashMap<u32, u64> = idle
            .filter(|(slot, _)| !found.busy.contains(slot))
            .collect();
        for (slot, stamp) in &idle {
            if self.idle.get(slot) == Some(stamp) {
                self.probes.tracked.clear(*slot, *stamp);
            }
        }
        self.idle = idle;
    }
}

impl Environment for KernelEnvironment {
    fn watch(&mut self, key: EndpointKey, watch: EndpointWatch) {
        if self.own.contains(&key) {
            return;
        }
        self.probes.set_watch(key, watch);
    }

    fn counters(&self, key: EndpointKey) -> Option<EndpointCounters> {
        self.probes.counters(key)
    }

    fn forget(&mut self, key: EndpointKey) {
        if !self.own.contains(&key) {
            self.probes.forget(key);
        }
    }

    fn forget_connection(&mut self, key: EndpointKey, user: u32) {
        self.probes.forget_connection(key, user);
    }

    fn leave_connection(&mut self, key: EndpointKey, left: LeftAlone, user: u32) {
        self.probes.leave_connection(key, left, user);
    }

    fn survey(&mut self, now: BootTime, sought: &[EndpointKey]) {
        if !self.surveyor.is_ready(now) {
            return;
        }
        // Marks first: one set from now on has another stamp and stays.
        let marked = self.probes.tracked.marked();
        let survey = self.probes.survey().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot survey through the kernel");
            None
        });
        // Then the watched endpoints, which the probes register before they mark.
        let watched = match survey {
            Some(_) => HashSet::new(),
            None => self.probes.watched_inodes(),
        };
        self.surveyor.begin(SurveyRequest {
            begun: now,
            survey,
            watched,
            sought: sought.to_vec(),
            marked,
        });
    }

    fn surveyed(&mut self) -> BootTime {
        if let Some(found) = self.surveyor.ended() {
            self.unmark_idle(&found);
            self.found = Some(found);
        }
        self.found
            .as_ref()
            .map_or_else(BootTime::default, |found| found.begun)
    }

    fn is_held(&self, endpoint: EndpointKey, end: End) -> bool {
        let Some(found) = &self.found else {
            return true;
        };
        if let Some(holders) = &found.holders {
            let mut holders = holders.get(&endpoint.into()).into_iter().flatten();
            return holders.any(|holder| match end {
                End::Reader => holder.access.reads(),
                End::Writer => holder.access.writes(),
            });
        }
        self.probes.counters(endpoint).is_some_and(|counters| {
            counters.surveyed < found.begun.0 || counters.held[end as usize] != 0
        })
    }

    fn readers(&self, endpoint: EndpointKey) -> Option<Readers> {
        self.found.as_ref()?.readers.get(&endpoint).cloned()
    }

    fn holds(&self, pid: u32, endpoint: EndpointKey, end: End) -> bool {
        of_process(Pid(pid)).iter().any(|(_, target)| {
            let same = target.key.ino == endpoint.ino && target.key.dev == u64::from(endpoint.dev);
            same && match end {
                End::Reader => target.access.reads(),
                End::Writer => target.access.writes(),
            }
        })
    }

    fn mark(&mut self, pid: u32) {
        self.probes.tracked.mark(pid);
    }

    fn library(&mut self, pid: u32, greets: bool) {
        if let Some(libraries) = &self.libraries {
            libraries.look_at(Pid(pid), greets);
        }
    }

    fn leave_library(&mut self, pid: u32) {
        if let Some(libraries) = &self.libraries {
            libraries.leave(Pid(pid));
        }
    }

    fn want_library(&mut self, pid: u32) {
        if let Some(libraries) = &self.libraries {
            libraries.want(Pid(pid));
        }
    }

    fn unseen_tls(&mut self) -> Vec<UnseenLibrary> {
        self.libraries
            .as_ref()
            .map_or_else(Vec::new, Libraries::unseen)
    }

    fn greeted(&self, greeting: u64, end: End) -> Option<u32> {
        self.probes.tls_party(greeting, end)
    }

    fn seek_owner(&mut self, socket: SoughtSocket) {
        self.owners.seek(socket);
    }

    fn owners(&mut self) -> Vec<(u64, Option<u32>)> {
        self.owners.found()
    }

    fn start_time(&self, pid: u32) -> Option<u64> {
        ProcessHandle::open(Pid(pid)).ok().flatten()?.start_time()
    }

    fn user(&self, pid: u32) -> Option<u32> {
        let path = format!("/proc/{pid}");
        std::fs::metadata(path).ok().map(|process| process.uid())
    }

    fn describe(&mut self, pid: u32, launches: &Launches) -> Option<Arc<ProcessInfo>> {
        ProcessInfo::known(Pid(pid), launches).map(Arc::new)
    }

    fn started(&mut self, pid: u32, executed: &Executed, launches: &Launches) -> Arc<ProcessInfo> {
        Arc::new(ProcessInfo::started(Pid(pid), executed, launches))
    }

    fn policy(&mut self, process: &ProcessInfo) -> WatchPolicy {
        (self.policy)(process)
    }

    fn identify(&mut self, server: Launched<'_>) -> ServerIdentity {
        (self.identity)(IdentityRequest::Launched(server))
    }

    fn identify_url(&mut self, url: &str, client: Option<&ProcessInfo>) -> ServerIdentity {
        (self.identity)(IdentityRequest::Url { url, client })
    }
}
