//! Running it all on this machine: the probes at one end, the engine at the other.
//!
//! One thread empties the ring (see [`crate::capture`]), and one takes the records through
//! discovery and the engine. That second one is whoever calls [`Monitor::run`].

mod machine;
mod startup;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::capture::{self, Batch, BootClock, Drain, Options, ProbeError, Probes, decode};
use crate::discover::{Settings, Tracker};
use crate::model::{Account, CaptureTotals, InputSink, StreamLedger};
use crate::priority::Priority;

pub use machine::Machine;

/// How often time passes for discovery.
const TICK: Duration = Duration::from_millis(100);
/// The ring has been quiet for so long: what was asked for has been answered.
const SETTLED: Duration = Duration::from_millis(50);
/// Nanoseconds that a machine which is never quiet is waited for.
const SETTLED_MAX: u64 = 500_000_000;
/// Bytes that all sniff buffers may hold together.
const BUFFERED_MAX: usize = 32 << 20;

/// What the monitor needs to know.
#[derive(Clone, Debug)]
pub struct MonitorOptions {
    /// For the probes.
    pub probes: Options,
    /// Bytes of a message that are kept at most.
    pub max_message: u64,
    /// Whether the two ends of a stream are compared.
    pub compare_ends: bool,
    /// Sessions that are followed at one time.
    pub max_sessions: usize,
    /// Accounts of ended streams that are kept for [`Monitor::ledger`].
    pub max_accounts: usize,
}

/// The running capture.
pub struct Monitor {
    tracker: Tracker<Machine>,
    records: Receiver<Batch>,
    drain: Drain,
    /// Programs that were running before; to be told to the tracker after what is in the ring.
    found: Vec<startup::Found>,
    undecodable: u64,
}

impl Monitor {
    /// Loads the probes, and finds what is running already.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn start(
        options: &MonitorOptions,
        machine: impl FnOnce(Probes) -> Machine,
    ) -> Result<Self, ProbeError> {
        let (probes, ring) = Probes::load(&options.probes)?;
        let clock = BootClock::measure().map_err(std::io::Error::from)?;
        let now = BootClock::now_boot().map_err(std::io::Error::from)?;
        let mut machine = machine(probes);
        machine.exclude_own_output();
        let (drain, records) = capture::start(ring)?;
        let settings = Settings {
            sniff_budget: options.probes.sniff_budget,
            max_message: options.max_message,
            max_buffered: BUFFERED_MAX,
            compare_ends: options.compare_ends,
            max_sessions: options.max_sessions,
            max_accounts: options.max_accounts,
        };
        let mut tracker = Tracker::new(machine, settings, clock, now);
        let found = startup::register_running(tracker.environment())?;
        Ok(Self {
            tracker,
            records,
            drain,
            found,
            undecodable: 0,
        })
    }

    /// How system calls are hooked.
    pub fn hook(&mut self) -> capture::Hook {
        self.tracker.environment().probes().hook()
    }

    /// Feeds the engine until `stop` is set, then ends all sessions.
    /// `attend` is called several times a second, busy or idle.
    pub fn run<F: InputSink>(
        &mut self,
        stop: &AtomicBool,
        feed: &mut F,
        mut attend: impl FnMut(&mut F, &mut Self),
    ) {
        Priority::Pipeline.claim();
        let mut next_tick = 0;
        // The answers to the registration come first: a socket's peer must be known before its program.
        let settled = now().saturating_add(SETTLED_MAX);
        while let Ok(batch) = self.records.recv_timeout(SETTLED) {
            self.take(&batch, feed);
            if now() > settled {
                break;
            }
        }
        for startup::Found { pid, input, output } in std::mem::take(&mut self.found) {
            self.tracker.add_running(pid.0, input, output);
        }
        while !stop.load(Ordering::Acquire) {
            self.step(feed, &mut next_tick);
            feed.idle();
            attend(feed, self);
        }
        self.tracker.environment().probes().detach();
        self.drain.stop();
        // Everything that was counted before the probes were detached is in the ring.
        while let Ok(batch) = self.records.recv() {
            self.take(&batch, feed);
        }
        self.tracker.finish(now(), feed);
    }

    fn step(&mut self, feed: &mut impl InputSink, next_tick: &mut u64) {
        match self.records.recv_timeout(TICK) {
            Ok(batch) => self.take(&batch, feed),
            Err(RecvTimeoutError::Timeout) => {}
            // The thread that empties the ring is gone: nothing more will come.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(TICK),
        }
        let now = now();
        if now >= *next_tick {
            *next_tick = now + TICK.as_nanos() as u64;
            // Only what is known by now may be judged missing.
            while let Ok(batch) = self.records.try_recv() {
                self.take(&batch, feed);
                if self::now() > *next_tick {
                    return;
                }
            }
            self.tracker.tick(now, feed);
            let probes = self.tracker.environment().probes();
            probes.finish_switchover(now);
            probes.report_missed_calls(now);
            probes.flush_log();
        }
    }

    fn take(&mut self, batch: &Batch, feed: &mut impl InputSink) {
        for data in batch.records() {
            match decode(data) {
                Ok((origin, record)) => self.tracker.record(origin, record, feed),
                Err(error) => {
                    self.undecodable += 1;
                    tracing::warn!(%error, "a record that is not understood");
                }
            }
        }
    }

    /// What all sessions' streams carried so far.
    pub fn account(&self) -> Account {
        self.tracker.account()
    }

    /// The accounts of all ended sessions.
    pub fn ledger(&mut self) -> &[StreamLedger] {
        self.tracker.ledger()
    }

    /// What the capture did so far.
    pub fn totals(&mut self) -> CaptureTotals {
        use mcpinspect_common::Stat;
        let undecodable = self.undecodable;
        let sessions_refused = self.tracker.refused();
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
        }
    }
}

/// Nanoseconds since boot. The clock exists on every kernel that the probes load on.
fn now() -> u64 {
    BootClock::now_boot().unwrap_or(0)
}
