//! Surveys run on a separate thread: nothing whose duration depends on the size of the kernel's or the
//! process table may keep the pipeline from its records.
//!
//! If the kernel has no iterators, and to find out who can read a stream, the descriptor tables in `/proc`
//! are read instead. However long a survey takes, the thread then rests ten times as long.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use mcpinspect_common::{EndpointKey, tracked_slot};
use mcpinspect_core::model::BootTime;
use mcpinspect_process::fds::{Holder, Holders, holders_snapshot};
use mcpinspect_runtime::priority::Priority;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::capture::{BootClock, Survey};
use crate::discover::Readers;

/// How many times longer than a survey the pause after it is.
const PAUSE: u32 = 10;

/// What a survey should find out.
pub(super) struct SurveyRequest {
    /// When it was requested.
    pub(super) begun: BootTime,
    /// The kernel's own; `None` if it has none.
    pub(super) survey: Option<Survey>,
    /// Device and inode of every watched endpoint, if the kernel has no survey.
    pub(super) watched: HashSet<(u64, u64)>,
    /// Endpoints whose readers are wanted.
    pub(super) sought: Vec<EndpointKey>,
    /// Tracked processes before the survey, by slot and mark.
    pub(super) marked: Vec<(u32, u64)>,
}

/// What a survey found.
pub(super) struct SurveyResult {
    /// When it was requested.
    pub(super) begun: BootTime,
    /// When it ended.
    pub(super) ended: BootTime,
    /// Who holds what, where the kernel's counters do not say.
    pub(super) holders: Option<Holders>,
    /// The slots of processes that hold a watched endpoint.
    pub(super) busy: HashSet<u32>,
    /// Tracked processes before the survey, by slot and mark.
    pub(super) marked: Vec<(u32, u64)>,
    /// Who can read the endpoints asked about.
    pub(super) readers: HashMap<EndpointKey, Readers>,
}

/// The thread, as its user sees it.
pub(super) struct Surveyor {
    requests: SyncSender<SurveyRequest>,
    results: Receiver<SurveyResult>,
    under_way: bool,
    /// Not before this moment.
    rests_until: BootTime,
}

impl Surveyor {
    /// Starts the thread; it ends when this value is dropped.
    pub(super) fn start() -> std::io::Result<Self> {
        let (requests, queue) = sync_channel::<SurveyRequest>(1);
        let (sender, results) = sync_channel(1);
        std::thread::Builder::new()
            .name("survey".into())
            .spawn(move || {
                Priority::Background.claim();
                for request in queue {
                    if sender.send(look(request)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Self {
            requests,
            results,
            under_way: false,
            rests_until: BootTime::default(),
        })
    }

    /// Whether a survey can begin.
    pub(super) fn is_ready(&self, now: BootTime) -> bool {
        !self.under_way && now >= self.rests_until
    }

    /// Begins a survey.
    pub(super) fn begin(&mut self, request: SurveyRequest) {
        self.under_way = self.requests.try_send(request).is_ok();
    }

    /// What the current survey found, if it has ended.
    pub(super) fn ended(&mut self) -> Option<SurveyResult> {
        match self.results.try_recv() {
            Ok(found) => {
                self.under_way = false;
                let took = found.ended.since(found.begun);
                self.rests_until = found.ended + took.saturating_mul(PAUSE);
                Some(found)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

fn look(request: SurveyRequest) -> SurveyResult {
    let SurveyRequest {
        begun,
        survey,
        watched,
        sought,
        marked,
    } = request;
    let processes = survey.and_then(|survey| {
        survey
            .run()
            .inspect_err(|error| tracing::warn!(%error, "the kernel's survey failed"))
            .ok()
    });
    let walked = (processes.is_none() || !sought.is_empty()).then(holders_snapshot);
    let busy = match (&processes, &walked) {
        (Some(processes), _) => processes.iter().copied().map(tracked_slot).collect(),
        (None, Some(holders)) => holders
            .iter()
            .filter(|(key, _)| watched.contains(&(key.dev, key.ino)))
            .flat_map(|(_, holders)| holders)
            .map(|holder| tracked_slot(holder.pid.0))
            .collect(),
        (None, None) => HashSet::new(),
    };
    let readers = walked.as_ref().map_or_else(HashMap::new, |holders| {
        let found = |key: &EndpointKey| (*key, readers_of(holders, *key));
        sought.iter().map(found).collect()
    });
    SurveyResult {
        begun,
        ended: BootClock::now_boot().unwrap_or(begun),
        holders: walked.filter(|_| processes.is_none()),
        busy,
        marked,
        readers,
    }
}

fn readers_of(holders: &Holders, key: EndpointKey) -> Readers {
    let readers: Vec<&Holder> = holders
        .get(&key.into())
        .into_iter()
        .flatten()
        .filter(|holder| holder.access.reads())
        .collect();
    Readers {
        pids: readers.iter().map(|holder| holder.pid.0).collect(),
        unread: readers.first().and_then(|holder| unread(holder)),
    }
}

/// How many unread bytes wait at another process's descriptor.
fn unread(holder: &Holder) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(holder.pid.0).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let fd = i32::try_from(holder.fd).ok()?;
    let stream = pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok()?;
    ioctl_fionread(stream).ok()
}
