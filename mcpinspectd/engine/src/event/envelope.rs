//! An event ready to leave: numbered, put into words, and serialised once for every sink.

use std::fmt;
use std::sync::Arc;

use mcpinspect_core::model::{Pid, ServerId, SessionId, Severity, Timestamp, ToolStatus};
use serde::Serialize;

use super::json::event_json;
use super::kind::EventKind;
use super::render;
use crate::event::{Body, Event};

/// Names one event of one run of the daemon; orders events of a run by its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct EventId(Arc<str>);

impl EventId {
    /// The `number`th event of the run that began at `run`.
    pub fn new(run: Timestamp, number: u64) -> Self {
        Self(format!("{:x}-{number}", run.0 / 1_000_000).into())
    }

    /// The id with this text.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether an event made a server come or go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its first open session.
    Appeared,
    /// Its last session is over.
    Vanished,
}

/// An event as sinks see it. All text in it is escaped and bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub kind: EventKind,
    /// When it happened.
    pub time: Timestamp,
    /// How bad it is; `None` for normal operation.
    pub severity: Option<Severity>,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The server it is about.
    pub server: Option<ServerId>,
    /// The server's process.
    pub pid: Option<Pid>,
    /// The user that the server's process runs as.
    pub uid: Option<u32>,
    /// Whether the server came or went with it.
    pub presence: Option<Presence>,
    /// Whether a listed tool deserves a signal of its own: a new one, or one with findings.
    pub is_news: bool,
    /// Names only: fit for every user of the machine.
    pub title: String,
    /// What happened, for readers who may see contents.
    pub sentence: String,
    /// The whole event, one JSON object without a line break.
    pub json: String,
    /// Whether something was cut from `json` to keep its limit.
    pub truncated: bool,
    /// What else readers filter by, named as in the journal.
    pub details: Vec<(&'static str, String)>,
}

impl Envelope {
    /// Prepares `event`, with JSON of at most `max_json` bytes. `uid` is the user that the
    /// server runs as, if known.
    pub fn new(
        event: &Event,
        id: EventId,
        uid: Option<u32>,
        max_json: usize,
    ) -> serde_json::Result<Self> {
        let json = event_json(event, id.as_str(), max_json)?;
        let subject = event.subject.as_ref();
        Ok(Self {
            kind: event.kind(),
            time: event.time,
            severity: event.severity(),
            session: subject
                .map(|subject| subject.session_id.clone())
                .filter(|session| *session != SessionId::none()),
            server: event.server().cloned(),
            pid: subject.and_then(|s| s.server_pid),
            uid,
            presence: None,
            is_news: is_news(event),
            title: render::title(event),
            sentence: render::sentence(event),
            json: json.text,
            truncated: json.truncated,
            details: render::details(event),
            id,
        })
    }

    /// Bytes of memory it occupies, roughly enough for a budget.
    pub fn size(&self) -> usize {
        size_of::<Self>()
            + self.json.len()
            + self.title.len()
            + self.sentence.len()
            + self
                .details
                .iter()
                .map(|(_, value)| value.len() + 40)
                .sum::<usize>()
    }
}

fn is_news(event: &Event) -> bool {
    let is_new = match &event.body {
        Body::ToolSeen(seen) => seen.status == ToolStatus::New,
        _ => false,
    };
    is_new || event.severity().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::testing::examples;

    #[test]
    fn every_type_makes_a_record_and_its_json_names_the_type() {
        let events = examples();
        assert_eq!(
            events.len(),
            EventKind::ALL.len(),
            "an event type has no example"
        );
        for (kind, event) in EventKind::ALL.into_iter().zip(&events) {
            let id = EventId::new(Timestamp(1_760_000_000_000_000_000), 7);
            let record = Envelope::new(event, id, None, 48 << 10).unwrap();
            assert_eq!(record.kind, kind);
            let value: serde_json::Value = serde_json::from_str(&record.json).unwrap();
            assert_eq!(value["type"], kind.name());
            assert_eq!(value["event_id"], "199c82cc000-7");
            assert_ne!(record.time, Timestamp(0));
        }
    }
}
