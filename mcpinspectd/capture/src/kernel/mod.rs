//! The kernel's view of this machine as a source.
//!
//! One thread empties the ring (see [`crate::capture`]). Another, the one that polls this source, takes
//! the records through discovery and everything after it.

mod environment;
mod libraries;
mod lost_records;
mod memory;
mod owners;
mod running;
mod surveyor;
mod tls_files;
mod uncovered;
mod watched;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use mcpinspect_common::Stat;
use mcpinspect_core::model::{Account, BootTime, CaptureTotals, InputSink, StreamLedger};
use mcpinspect_core::source::{Progress, Source};
use mcpinspect_runtime::notifier::Notifier;
use mcpinspect_runtime::priority::Priority;

use crate::capture;
use crate::capture::{Batch, BootClock, Drain, KernelRecord, Options, ProbeError, Probes, decode};
use crate::discover::{Settings, Tracker};

pub use environment::{IdentityRequest, KernelEnvironment};
use libraries::Libraries;
use lost_records::LostRecords;
use memory::Memory;
use running::{Running, RunningProgram};

/// How often discovery's time advances while there is activity.
const TICK: Duration = Duration::from_millis(100);
/// How often it advances without any.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// Time without a record that count as no activity.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// Once the ring has been quiet for this long, every request so far has been answered.
const SETTLED: Duration = Duration::from_millis(50);
/// Time to wait for that on a machine that is never quiet.
const SETTLED_MAX: Duration = Duration::from_millis(500);
/// Most bytes of records that may wait at the start until the running programs are known.
const HELD_MAX: usize = 12 << 20;
/// Most bytes of memory that all sniff buffers may take together.
const BUFFERED_MAX: usize = 8 << 20;
/// Most bytes of memory that what waits in sessions may take together.
const BACKLOG_MAX: usize = 16 << 20;

/// Bytes that the description of the programs of one stream may take, on average.
const STREAM_PROGRAMS: usize = 512;
/// Most bytes that the programs on one user's streams may take, however large the machine.
const PROGRAMS_MAX: usize = 4 << 20;

/// What the source needs to know.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// For the probes.
    pub probes: Options,
    /// Most bytes to keep of a message.
    pub max_message: u64,
    /// Whether the two ends of a stream are compared.
    pub compare_ends: bool,
    /// Most sessions to follow at a time.
    pub max_sessions: usize,
    /// Accounts of ended streams to keep for [`KernelSource::ledger`].
    pub max_accounts: usize,
    /// The folder in which large unfinished messages wait; in memory without one.
    pub scratch: Option<PathBuf>,
    /// Where open sessions are saved for the next start; `None`: nowhere.
    pub memory: Option<PathBuf>,
    /// Ends the wait for records when there is something else to attend to.
    pub notifier: Notifier,
}

/// The running capture.
pub struct KernelSource {
    tracker: Tracker<KernelEnvironment>,
    records: Receiver<Batch>,
    drain: Drain,
    /// What was running before the daemon. Present until the first poll: it follows what is in the ring.
    running: Option<Running>,
    memory: Option<Memory>,
    next_tick: BootTime,
    clock: BootClock,
    lost: LostRecords,
    notifier: Notifier,
    /// When the last record was received.
    active: BootTime,
    undecodable: u64,
}

impl KernelSource {
    /// Loads the probes, and finds what is already running.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn start(
        options: &KernelOptions,
        environment: impl FnOnce(Probes) -> std::io::Result<KernelEnvironment>,
    ) -> Result<Self, ProbeError> {
        let (mut probes, ring) = Probes::load(&options.probes)?;
        let clock = BootClock::measure().map_err(std::io::Error::from)?;
        let now = BootClock::now_boot().map_err(std::io::Error::from)?;
        // Before this thread drops its privileges: the other one needs some of them.
        let libraries = probes
            .tls()
            .map(|(loader, choice)| Libraries::start(loader, choice, options.notifier.clone()))
            .transpose()?;
        let mut environment = environment(probes)?;
        environment.attach_to(libraries);
        environment.exclude_own_output();
        let (drain, records) = capture::start(ring, options.notifier.clone())?;
        // A socket pair is two streams on two endpoints; either may be known without the other.
        let endpoints = environment.probes().endpoints_max() as usize;
        let max_streams = endpoints / 8 * 3;
        let settings = Settings {
            sniff_budget: options.probes.sniff_budget,
            max_message: options.max_message,
            max_buffered: BUFFERED_MAX,
            max_backlog: BACKLOG_MAX,
            compare_ends: options.compare_ends,
            max_sessions: options.max_sessions,
            max_streams,
            max_streams_per_user: max_streams / 2,
            max_programs_per_user: (max_streams / 2 * STREAM_PROGRAMS).min(PROGRAMS_MAX),
            scratch: options.scratch.clone(),
            max_accounts: options.max_accounts,
        };
        let mut tracker = Tracker::new(environment, settings, clock, now);
        let remembered = options.memory.as_deref().map(memory::read);
        let running = running::register(tracker.environment(), remembered.unwrap_or_default())?;
        let memory = options.memory.as_deref().map(Memory::start).transpose()?;
        Ok(Self {
            tracker,
            records,
            drain,
            running: Some(running),
            memory,
            next_tick: BootTime::default(),
            clock,
            lost: LostRecords::default(),
            notifier: options.notifier.clone(),
            active: now,
            undecodable: 0,
        })
    }

    /// Whether the probes for TLS are still loading: the kernel takes that long to verify them.
    pub fn is_opening(&mut self) -> bool {
        self.tracker.environment().is_opening()
    }

    /// How system calls are hooked.
    pub fn hook(&mut self) -> capture::Hook {
        self.tracker.environment().probes().hook()
    }

    /// The accounts of the streams that ended most recently.
    pub fn ledger(&mut self) -> &[StreamLedger] {
        self.tracker.ledger()
    }

    /// Takes in the programs that were running before. The answers to their registration come
    /// first: a socket's peer must be known before its program. What the streams carry comes last:
    /// both directions of a session must be known to be one before either shows what it is.
    fn take_running(&mut self, running: &Running, sink: &mut dyn InputSink) {
        let begun = now();
        let settled = begun + SETTLED_MAX;
        let mut batches = Vec::new();
        let mut bytes = 0;
        while let Ok(batch) = self.records.recv_timeout(SETTLED) {
            let newest = self.take_if(&batch, sink, is_registration);
            bytes += batch.bytes();
            batches.push(batch);
            // The answers were in the ring before the first poll.
            if newest > begun || now() > settled || bytes > HELD_MAX {
                break;
            }
        }
        self.tracker.restore(&running.remembered);
        for RunningProgram { pid, input, output } in &running.programs {
            self.tracker.add_running(pid.0, *input, *output);
        }
        for batch in batches {
            self.take_if(&batch, sink, |record| !is_registration(record));
        }
    }

    fn take(&mut self, batch: &Batch, sink: &mut dyn InputSink) {
        self.take_if(batch, sink, |_| true);
    }

    /// Takes in the records that are wanted. Returns when the newest of all was written.
    fn take_if(
        &mut self,
        batch: &Batch,
        sink: &mut dyn InputSink,
        is_wanted: impl Fn(&KernelRecord<'_>) -> bool,
    ) -> BootTime {
        self.active = now();
        let mut newest = BootTime::default();
        for data in batch.records() {
            match decode(data) {
                Ok((origin, record)) => {
                    newest = newest.max(origin.time);
                    if is_wanted(&record) {
                        self.tracker.record(origin, record, sink);
                    }
                }
                Err(error) => {
                    self.undecodable += 1;
                    tracing::warn!(%error, "invalid record from the probes");
                }
            }
        }
        newest
    }

    /// Saves which sessions are open.
    fn remember(&mut self, now: BootTime) {
        if let Some(memory) = self.memory.as_mut().filter(|memory| memory.is_due(now)) {
            memory.keep(self.tracker.remembered(), now);
        }
    }

    /// Tells if records were lost that no gap stands for.
    fn tell_lost_records(&mut self, now: BootTime, sink: &mut dyn InputSink) {
        let probes = self.tracker.environment().probes();
        let lost = self.lost.tell(now, || probes.stat(Stat::LifecycleLost));
        if let Some(records) = lost {
            tracing::warn!(
                records,
                "the ring buffer was full; processes, streams and connections that began meanwhile may be missed"
            );
            sink.input(lost_records::input(records, self.clock.at(now)));
        }
    }

    fn tick(&mut self, now: BootTime, sink: &mut dyn InputSink) {
        let is_idle = now.since(self.active) > IDLE_AFTER;
        let pause = if is_idle { IDLE_TICK } else { TICK };
        self.next_tick = now + pause;
        // Only bytes that should be known by now may be considered missing.
        while let Ok(batch) = self.records.try_recv() {
            self.take(&batch, sink);
            if self::now() > self.next_tick {
                return;
            }
        }
        self.tracker.tick(now, sink);
        if !is_idle {
            self.remember(now);
            self.tell_lost_records(now, sink);
        }
        let probes = self.tracker.environment().probes();
        probes.finish_switchover(now);
        probes.report_missed_calls(now);
        probes.flush_log();
    }
}

impl Source for KernelSource {
    type Error = Infallible;

    fn poll(&mut self, sink: &mut dyn InputSink) -> Result<Progress, Infallible> {
        if let Some(running) = self.running.take() {
            Priority::Pipeline.claim();
            self.take_running(&running, sink);
        }
        let due = self.next_tick.since(now());
        match self.records.try_recv() {
            Ok(batch) => self.take(&batch, sink),
            // Disconnected: the thread that empties the ring is gone, so nothing more will arrive.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => self.notifier.wait(due),
        }
        let now = now();
        if now >= self.next_tick {
            self.tick(now, sink);
        }
        Ok(Progress::Open)
    }

    fn finish(&mut self, sink: &mut dyn InputSink) -> Result<(), Infallible> {
        self.tracker.environment().probes().detach();
        self.drain.stop();
        // Everything counted before the probes were detached is in the ring.
        while let Ok(batch) = self.records.recv() {
            self.take(&batch, sink);
        }
        // Before they end as far as this daemon is concerned.
        if let Some(mut memory) = self.memory.take() {
            memory.keep(self.tracker.remembered(), now());
        }
        self.tracker.finish(now(), sink);
        Ok(())
    }

    fn account(&self) -> Account {
        self.tracker.account()
    }

    fn totals(&mut self) -> CaptureTotals {
        let undecodable = self.undecodable;
        let sessions_refused = self.tracker.refused();
        let blind_spots_covered = self.tracker.covered_blind_spots();
        let probes = self.tracker.environment().probes();
        CaptureTotals {
            records: probes.stat(Stat::Records),
            bytes: probes.stat(Stat::Bytes),
            records_lost: probes.stat(Stat::RecordsLost),
            bytes_lost: probes.stat(Stat::BytesLost),
            bytes_faulted: probes.stat(Stat::BytesFaulted),
            lifecycle_lost: probes.stat(Stat::LifecycleLost),
            registrations_failed: probes.stat(Stat::RegistrationsFailed),
            calls_missed: probes.calls_missed(),
            undecodable,
            sessions_refused,
            blind_spots_covered,
        }
    }
}

/// Whether a record answers the registration of an already open stream.
fn is_registration(record: &KernelRecord<'_>) -> bool {
    matches!(record, KernelRecord::Registered(_))
}

/// The current time. The clock exists on every kernel that the probes load on.
fn now() -> BootTime {
    BootClock::now_boot().unwrap_or_default()
}
