//! The kernel's view of this machine as a source.
//!
//! One thread empties the ring (see [`crate::capture`]). Another takes the records through discovery
//! and whatever is behind it: the one that polls this source.

mod environment;
mod running;

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use mcpinspect_common::Stat;

use super::{Progress, Source};
use crate::capture::{self, Batch, BootClock, Drain, Options, ProbeError, Probes, decode};
use crate::discover::{Settings, Tracker};
use crate::model::{Account, CaptureTotals, InputSink, StreamLedger};
use crate::priority::Priority;

pub use environment::KernelEnvironment;
use running::RunningProgram;

/// How often time passes for discovery.
const TICK: Duration = Duration::from_millis(100);
/// The ring has been quiet for this long: every request so far has been answered.
const SETTLED: Duration = Duration::from_millis(50);
/// Nanoseconds to wait for that on a machine that is never quiet.
const SETTLED_MAX: u64 = 500_000_000;
/// Bytes that all sniff buffers may hold together.
const BUFFERED_MAX: usize = 32 << 20;

/// What the source needs to know.
#[derive(Clone, Debug)]
pub struct KernelOptions {
    /// For the probes.
    pub probes: Options,
    /// Bytes that are kept of a message at most.
    pub max_message: u64,
    /// Whether the two ends of a stream are compared.
    pub compare_ends: bool,
    /// Sessions that are followed at a time.
    pub max_sessions: usize,
    /// Accounts of ended streams that are kept for [`KernelSource::ledger`].
    pub max_accounts: usize,
}

/// The running capture.
pub struct KernelSource {
    tracker: Tracker<KernelEnvironment>,
    records: Receiver<Batch>,
    drain: Drain,
    /// Programs that were running before the daemon. Until the first poll: they follow what is in
    /// the ring.
    running: Option<Vec<RunningProgram>>,
    next_tick: u64,
    undecodable: u64,
}

impl KernelSource {
    /// Loads the probes, and finds what is running already.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn start(
        options: &KernelOptions,
        environment: impl FnOnce(Probes) -> KernelEnvironment,
    ) -> Result<Self, ProbeError> {
        let (probes, ring) = Probes::load(&options.probes)?;
        let clock = BootClock::measure().map_err(std::io::Error::from)?;
        let now = BootClock::now_boot().map_err(std::io::Error::from)?;
        let mut environment = environment(probes);
        environment.exclude_own_output();
        let (drain, records) = capture::start(ring)?;
        // A socket pair is two streams on two endpoints; one may be known without the other.
        let endpoints = environment.probes().endpoints_max() as usize;
        let max_streams = endpoints / 8 * 3;
        let settings = Settings {
            sniff_budget: options.probes.sniff_budget,
            max_message: options.max_message,
            max_buffered: BUFFERED_MAX,
            compare_ends: options.compare_ends,
            max_sessions: options.max_sessions,
            max_streams,
            max_streams_per_user: max_streams / 2,
            max_accounts: options.max_accounts,
        };
        let mut tracker = Tracker::new(environment, settings, clock, now);
        let running = running::register(tracker.environment())?;
        Ok(Self {
            tracker,
            records,
            drain,
            running: Some(running),
            next_tick: 0,
            undecodable: 0,
        })
    }

    /// How system calls are hooked.
    pub fn hook(&mut self) -> capture::Hook {
        self.tracker.environment().probes().hook()
    }

    /// The accounts of the streams that ended last.
    pub fn ledger(&mut self) -> &[StreamLedger] {
        self.tracker.ledger()
    }

    /// Takes in the programs that were running before. The answers to their registration come
    /// first: a socket's peer must be known before its program.
    fn take_running(&mut self, running: &[RunningProgram], sink: &mut dyn InputSink) {
        let settled = now().saturating_add(SETTLED_MAX);
        while let Ok(batch) = self.records.recv_timeout(SETTLED) {
            self.take(&batch, sink);
            if now() > settled {
                break;
            }
        }
        for RunningProgram { pid, input, output } in running {
            self.tracker.add_running(pid.0, *input, *output);
        }
    }

    fn take(&mut self, batch: &Batch, sink: &mut dyn InputSink) {
        for data in batch.records() {
            match decode(data) {
                Ok((origin, record)) => self.tracker.record(origin, record, sink),
                Err(error) => {
                    self.undecodable += 1;
                    tracing::warn!(%error, "a record that is not understood");
                }
            }
        }
    }

    fn tick(&mut self, now: u64, sink: &mut dyn InputSink) {
        self.next_tick = now + TICK.as_nanos() as u64;
        // Only bytes that should be known by now may be judged missing.
        while let Ok(batch) = self.records.try_recv() {
            self.take(&batch, sink);
            if self::now() > self.next_tick {
                return;
            }
        }
        self.tracker.tick(now, sink);
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
        match self.records.recv_timeout(TICK) {
            Ok(batch) => self.take(&batch, sink),
            Err(RecvTimeoutError::Timeout) => {}
            // The thread that empties the ring is gone: nothing more will come.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
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
        // Everything that was counted before the probes were detached is in the ring.
        while let Ok(batch) = self.records.recv() {
            self.take(&batch, sink);
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

/// Nanoseconds since boot. The clock exists on every kernel that the probes load on.
fn now() -> u64 {
    BootClock::now_boot().unwrap_or(0)
}
