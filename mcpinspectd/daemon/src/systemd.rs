//! Tells the service manager how the daemon is doing (`sd_notify(3)`).
//!
//! The watchdog is fed by the pipeline and not by a timer: a timer would continue feeding it while the
//! pipeline is stuck, which is what the watchdog is there to notice. The thread that does the work calls
//! [`Heartbeat::beat`] at least once per [`Watchdog::interval`], busy or idle.
//!
//! Without a service manager all of this does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use libsystemd::daemon::{NotifyState, notify, watchdog_enabled};
use mcpinspect_core::text::escape::printable;
use nix::time::{ClockId, clock_gettime};

/// Longest status line, characters.
const MAX_STATUS: usize = 200;

/// Reports that the daemon has started and is watching, with this status.
pub fn ready(status: &str) {
    send(&[NotifyState::Ready, status_line(status)]);
}

/// Reports that the daemon is reading its configuration again; [`ready`] ends it.
pub fn reloading() {
    // Since version 253 the manager wants to know which of two reloads this is.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let microseconds = NotifyState::Other(format!("MONOTONIC_USEC={}", now.as_micros()));
    send(&[NotifyState::Reloading, microseconds]);
}

/// What `systemctl status` shows.
pub fn status(status: &str) {
    send(&[status_line(status)]);
}

/// Reports that the daemon is about to exit.
pub fn stopping() {
    send(&[NotifyState::Stopping, status_line("stopping")]);
}

fn status_line(status: &str) -> NotifyState {
    NotifyState::Status(printable(status, MAX_STATUS))
}

fn send(states: &[NotifyState]) {
    if let Err(error) = notify(false, states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// The pulse of the thread that does the work. Cheap to clone, cheap to beat.
#[derive(Clone, Debug, Default)]
pub struct Heartbeat(Arc<AtomicU64>);

impl Heartbeat {
    /// Still here.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Feeds the manager's watchdog for as long as a heart beats.
#[derive(Debug)]
pub struct Watchdog {
    interval: Duration,
    heartbeat: Heartbeat,
}

impl Watchdog {
    /// `None` if the manager does not watch.
    pub fn new(heartbeat: Heartbeat) -> Option<Self> {
        let timeout = watchdog_enabled(false).filter(|timeout| !timeout.is_zero())?;
        // Twice per timeout, as sd_watchdog_enabled(3) recommends.
        let interval = timeout / 2;
        Some(Self {
            interval,
            heartbeat,
        })
    }

    /// How often it checks for a beat.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Feeds until dropped. If the heart has not beaten since the last check, it does not feed, and
    /// the manager's timeout runs.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(self.interval);
        let mut last = None;
        loop {
            ticks.tick().await;
            let count = self.heartbeat.count();
            if last.replace(count) == Some(count) {
                tracing::error!("the pipeline is stuck; not notifying the watchdog");
            } else {
                send(&[NotifyState::Watchdog]);
            }
        }
    }
}
