//! Calls a thread that sleeps until there is something to do.
//!
//! Several parties may have work for the pipeline's thread: the ring, callers on the bus, signals.
//! If it checked each of them ten times a second, an idle laptop would pay for that. Instead it
//! sleeps, and those that have work ring. A ring while the thread is awake is not lost: its next sleep ends
//! at once.

use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes one thread. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<OnceLock<Thread>>);

impl Bell {
    /// Sleeps until the bell rings, at most for `at_most`, perhaps for less. The bell wakes the first thread that
    /// called this, from then on.
    pub fn wait(&self, at_most: Duration) {
        self.0.get_or_init(thread::current);
        thread::park_timeout(at_most);
    }

    /// Wakes the thread.
    pub fn ring(&self) {
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
    fn a_ring_ends_the_sleep_also_when_it_comes_first() {
        let (bell, long) = (Bell::default(), Duration::from_secs(60));
        let start = Instant::now();
        bell.wait(Duration::ZERO);
        bell.ring();
        bell.wait(long);
        let ringing = bell.clone();
        let (asleep, is_asleep) = channel::<()>();
        let other = thread::spawn(move || {
            let _ = is_asleep.recv();
            ringing.ring();
        });
        drop(asleep);
        bell.wait(long);
        assert!(start.elapsed() < long, "both sleeps were cut short");
        assert!(other.join().is_ok());
    }
}
