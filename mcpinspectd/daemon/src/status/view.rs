//! The one value that contains it all, shared between the pipeline's side and the readers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mcpinspect_engine::event::{Envelope, Event, Presence};

use super::history::History;
use super::live::{Live, LiveLimits};
use super::metrics::EventCounts;

/// Most that a [`View`] remembers.
#[derive(Clone, Copy, Debug)]
pub struct ViewLimits {
    /// Most events that [`View::history`] keeps.
    pub history_events: usize,
    /// Most bytes that [`View::history`] keeps.
    pub history_bytes: usize,
    /// Bounds of [`View::live`].
    pub live: LiveLimits,
}

impl Default for ViewLimits {
    fn default() -> Self {
        Self {
            history_events: 4096,
            history_bytes: 1 << 20,
            live: LiveLimits::default(),
        }
    }
}

/// What readers may ask for: the present and the recent past.
#[derive(Debug)]
pub struct View {
    live: Mutex<Live>,
    history: Mutex<History>,
    counts: Mutex<EventCounts>,
}

impl View {
    /// An empty view. The history's memory is allocated at once, so that it does not fragment the heap
    /// as it fills.
    pub fn new(limits: &ViewLimits) -> Self {
        Self {
            live: Mutex::new(Live::new(limits.live)),
            history: Mutex::new(
                History::new(limits.history_events, limits.history_bytes).taken_at_once(),
            ),
            counts: Mutex::default(),
        }
    }

    /// The present.
    pub fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }

    /// How many events there were.
    pub fn counts(&self) -> EventCounts {
        lock(&self.counts).clone()
    }

    /// The recent past.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// Folds an event into the present. Returns the user that its server runs as, if known, and
    /// whether the server came or went with it.
    pub fn apply(&self, event: &Event) -> (Option<u32>, Option<Presence>) {
        let mut live = self.live();
        (live.uid_of(event), live.apply(event))
    }

    /// Counts an event that goes out, and remembers it.
    pub fn remember(&self, envelope: &Envelope) {
        lock(&self.counts).add(envelope.kind, envelope.severity);
        self.history().push(envelope);
    }
}

/// The values behind these locks are consistent after every statement, even after a panic elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
