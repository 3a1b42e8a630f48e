//! Numbers events, renders and serialises each once, and keeps it for readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcpinspect_core::model::Timestamp;
use mcpinspect_engine::event::{Envelope, Event, EventId};

use crate::status::View;

/// Turns events into envelopes, ordered by number.
#[derive(Debug)]
pub(super) struct Sequencer {
    run: Timestamp,
    next: AtomicU64,
    max_json: usize,
    view: Arc<View>,
}

impl Sequencer {
    /// A sequencer for the run that starts now. An event's JSON is at most `max_json` bytes long.
    pub(super) fn new(max_json: usize, view: Arc<View>) -> Self {
        Self {
            run: Timestamp::now(),
            next: AtomicU64::new(1),
            max_json,
            view,
        }
    }

    /// What readers may ask for.
    pub(super) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Folds an event into the present without sending it, because a rate limit suppressed it.
    pub(super) fn note(&self, event: &Event) {
        self.view.apply(event);
    }

    /// The next envelope. `None`, and an error in the log, if the event has no JSON form.
    pub(super) fn envelope(&self, event: &Event) -> Option<Arc<Envelope>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (uid, presence) = self.view.apply(event);
        match Envelope::new(event, EventId::new(self.run, number), uid, self.max_json) {
            Ok(mut envelope) => {
                envelope.presence = presence;
                let envelope = Arc::new(envelope);
                self.view.remember(&envelope);
                Some(envelope)
            }
            Err(error) => {
                tracing::error!(%error, "lost an event that cannot be written as JSON");
                None
            }
        }
    }
}
