//! Calls a thread that sleeps until there is something to do.
//!
//! Several parties may have work for the pipeline's thread: the ring, callers on the bus, signals.
//! If it checked each of them ten times a second, an idle laptop would pay for that. Instead it
//! sleeps, and those that have work notify it. A notification while the thread is awake is not lost: its next sleep ends
//! at once.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Notifier(Arc<OnceLock<Thread>>);

impl Notifier {
    /// Sleeps until it is notified, at most for `at_most`, perhaps for less. It wakes the first thread that
    /// called this, from then on.
    pub fn wait(&self, at_most: Duration) {
        self.0.get_or_init(thread::current);
        thread::park_timeout(at_most);
    }

    /// Wakes the thread.
    pub fn notify(&self) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_notification_ends_the_sleep_also_when_it_comes_first() {
        let (notifier, long) = (Notifier::default(), Duration::from_secs(60));
        let start = Instant::now();
        notifier.wait(Duration::ZERO);
        notifier.notify();
        notifier.wait(long);
        let other_handle = notifier.clone();
        let (asleep, is_asleep) = channel::<()>();
        let other = thread::spawn(move || {
            let _ = is_asleep.recv();
            other_handle.notify();
        });
        drop(asleep);
        notifier.wait(long);
        assert!(start.elapsed() < long, "both sleeps were cut short");
        assert!(other.join().is_ok());
    }
}
