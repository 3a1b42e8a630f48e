//! How long to wait before the next try.
//!
//! The bus, journald and a full disk come back in their own time. Asking in a tight loop would load
//! a machine that is already in trouble, and a long fixed wait would delay what is queued for a
//! service that merely restarts.

use std::time::Duration;

/// Waits that double from the first to the longest.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// Returns how long to wait now, and doubles the next wait.
    pub fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Starts again from the first wait: the last try succeeded.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_start_again() {
        let [one, ten] = [1, 10].map(Duration::from_secs);
        let mut backoff = Backoff::new(one, ten);
        let waits = [(); 6].map(|()| backoff.wait().as_secs());
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        backoff.reset();
        assert_eq!(backoff.wait(), one);
    }
}
