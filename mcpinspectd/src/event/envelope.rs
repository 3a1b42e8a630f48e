//! An event made ready to leave: numbered, put in words, serialised once for every sink.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::json::event_json;
use super::kind::EventKind;
use super::render;
use crate::event::{Event, Subject};
use crate::model::{Pid, ServerId, SessionId, Severity, Timestamp};
use crate::text::escape::printable;

/// Names one event of one run of the daemon; orders events of a run by its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct EventId(Arc<str>);

impl EventId {
    /// The `number`th event of the run that began at `run`.
    pub fn new(run: Timestamp, number: u64) -> Self {
        Self(format!("{:x}-{number}", run.0 / 1_000_000).into())
    }

    /// The id of this text.
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
    /// Its first session of now.
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
    /// How bad it is; `None` for the ordinary course of things.
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
    /// Names only: fit for every user of the machine.
    pub title: String,
    /// What happened, for whoever may read contents.
    pub sentence: String,
    /// The whole event, one JSON object without a line break.
    pub json: String,
    /// Whether something was cut from `json` to keep its limit.
    pub truncated: bool,
    /// What readers filter by beyond the above, named as in the journal.
    pub details: Vec<(&'static str, String)>,
}

impl Envelope {
    /// Makes `event` ready, its JSON at most `max_json` bytes long. `uid` is the user that the
    /// server runs as, where known.
    pub fn new(
        event: &Event,
        id: EventId,
        uid: Option<u32>,
        max_json: usize,
    ) -> serde_json::Result<Self> {
        let json = event_json(event, id.as_str(), max_json)?;
        let subject = subject(event);
        Ok(Self {
            kind: EventKind::of(event),
            time: time(event),
            severity: render::severity(event),
            session: subject
                .map(|subject| subject.session_id.clone())
                .filter(|session| *session != SessionId::none()),
            server: server(event).cloned(),
            pid: subject.and_then(|s| s.server_pid),
            uid,
            presence: None,
            title: render::title(event),
            sentence: render::sentence(event),
            json: json.text,
            truncated: json.truncated,
            details: details(event),
            id,
        })
    }

    /// Whether a listed tool is worth a signal of its own: a new one, or one with findings.
    pub fn is_news(&self) -> bool {
        let status = self
            .details
            .iter()
            .find(|(name, _)| *name == "MCPINSPECT_STATUS");
        self.severity.is_some() || status.is_some_and(|(_, status)| status == "new")
    }

    /// Bytes of memory it takes, near enough for a budget.
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

/// Whom the event is about, where it is about a session.
pub fn subject(event: &Event) -> Option<&Subject> {
    match event {
        Event::ToolSeen { subject, .. }
        | Event::ToolChanged { subject, .. }
        | Event::ServerChanged { subject, .. }
        | Event::Detection { subject, .. }
        | Event::SessionStarted { subject, .. }
        | Event::SessionIdentified { subject, .. }
        | Event::SessionEnded { subject, .. }
        | Event::CaptureGap { subject, .. }
        | Event::BlindSpot { subject, .. }
        | Event::InvalidMessage { subject, .. }
        | Event::Policy { subject, .. }
        | Event::Contained { subject, .. } => Some(subject),
        Event::EventsDropped { .. } => None,
    }
}

/// The server that the event is about.
pub fn server(event: &Event) -> Option<&ServerId> {
    match event {
        Event::EventsDropped { server_id, .. } => server_id.as_ref(),
        other => subject(other).map(|subject| &subject.server_id),
    }
}

/// When the event happened.
pub fn time(event: &Event) -> Timestamp {
    match event {
        Event::EventsDropped { timestamp, .. } => *timestamp,
        other => subject(other).map_or(Timestamp(0), |subject| subject.timestamp),
    }
}

/// Longest value of a detail, characters.
const MAX_DETAIL: usize = 256;

fn details(event: &Event) -> Vec<(&'static str, String)> {
    let mut details = Vec::new();
    let mut add = |name, value: &str| details.push((name, printable(value, MAX_DETAIL)));
    match event {
        Event::ToolSeen {
            tool_name,
            tool_hash,
            status,
            detections,
            ..
        } => {
            add("MCPINSPECT_TOOL", tool_name);
            add("MCPINSPECT_HASH", tool_hash);
            add("MCPINSPECT_STATUS", render::status_word(*status));
            if let Some(found) = render::worst(detections) {
                add("MCPINSPECT_CATEGORY", &found.category);
            }
        }
        Event::ToolChanged {
            tool_name,
            status,
            previous_hash,
            new_hash,
            detections,
            ..
        } => {
            add("MCPINSPECT_TOOL", tool_name);
            add("MCPINSPECT_STATUS", render::status_word(*status));
            add("MCPINSPECT_PREVIOUS_HASH", previous_hash);
            if let Some(hash) = new_hash {
                add("MCPINSPECT_HASH", hash);
            }
            if let Some(found) = render::worst(detections) {
                add("MCPINSPECT_CATEGORY", &found.category);
            }
        }
        Event::ServerChanged {
            item,
            previous_hash,
            new_hash,
            detections,
            ..
        } => {
            add("MCPINSPECT_ITEM", item);
            add("MCPINSPECT_PREVIOUS_HASH", previous_hash);
            add("MCPINSPECT_HASH", new_hash);
            if let Some(found) = render::worst(detections) {
                add("MCPINSPECT_CATEGORY", &found.category);
            }
        }
        Event::Detection {
            tool_name,
            detection,
            action,
            ..
        } => {
            if let Some(tool) = tool_name {
                add("MCPINSPECT_TOOL", tool);
            }
            add("MCPINSPECT_CATEGORY", &detection.category);
            add("MCPINSPECT_PATTERN", &detection.pattern);
            add("MCPINSPECT_FIELD", &detection.field);
            add("MCPINSPECT_ACTION", render::action_word(*action));
        }
        Event::SessionStarted {
            fingerprint,
            server,
            client,
            ..
        } => {
            add("MCPINSPECT_FINGERPRINT", fingerprint);
            for (role, party) in [
                ("MCPINSPECT_EXE", server),
                ("MCPINSPECT_CLIENT_EXE", client),
            ] {
                if let Some(party) = party {
                    add(role, &party.exe);
                }
            }
            if let Some(client) = client {
                add("MCPINSPECT_CLIENT_PID", &client.pid.to_string());
            }
        }
        Event::SessionIdentified {
            protocol_version, ..
        } => {
            if let Some(version) = protocol_version {
                add("MCPINSPECT_PROTOCOL_VERSION", version);
            }
        }
        Event::SessionEnded {
            reason, bytes_lost, ..
        } => {
            add("MCPINSPECT_REASON", reason);
            add("MCPINSPECT_BYTES_LOST", &bytes_lost.to_string());
        }
        Event::CaptureGap {
            direction,
            bytes_lost,
            reason,
            ..
        } => {
            add("MCPINSPECT_DIRECTION", direction.as_str());
            add("MCPINSPECT_BYTES_LOST", &bytes_lost.to_string());
            add("MCPINSPECT_REASON", reason);
        }
        Event::BlindSpot { mechanism, .. } => add("MCPINSPECT_MECHANISM", mechanism),
        Event::InvalidMessage {
            direction, reason, ..
        } => {
            add("MCPINSPECT_DIRECTION", direction.as_str());
            add("MCPINSPECT_REASON", reason);
        }
        Event::Policy {
            subject: _,
            item,
            tool_name,
            hash,
            decision,
            by,
            uid,
            reason,
        } => {
            add("MCPINSPECT_ITEM", item);
            if let Some(tool) = tool_name {
                add("MCPINSPECT_TOOL", tool);
            }
            if let Some(hash) = hash {
                add("MCPINSPECT_HASH", hash);
            }
            if !reason.is_empty() {
                add("MCPINSPECT_REASON", reason);
            }
            add("MCPINSPECT_DECISION", decision);
            add("MCPINSPECT_DECIDED_BY", by);
            if let Some(uid) = uid {
                add("MCPINSPECT_DECIDED_BY_UID", &uid.to_string());
            }
        }
        Event::Contained {
            subject: _,
            measure,
            cgroups,
            processes,
            missed: _,
            uid,
            pattern,
        } => {
            add("MCPINSPECT_MEASURE", measure.as_str());
            add("MCPINSPECT_PROCESSES", &render::listed(processes));
            if !cgroups.is_empty() {
                add("MCPINSPECT_CGROUPS", &cgroups.join(" "));
            }
            if let Some(uid) = uid {
                add("MCPINSPECT_DECIDED_BY_UID", &uid.to_string());
            }
            if let Some(pattern) = pattern {
                add("MCPINSPECT_PATTERN", pattern);
            }
        }
        Event::EventsDropped {
            sink,
            reason,
            dropped,
            ..
        } => {
            if let Some(sink) = sink {
                add("MCPINSPECT_SINK", sink);
            }
            add("MCPINSPECT_REASON", reason);
            add("MCPINSPECT_DROPPED", &dropped.to_string());
        }
    }
    details
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a failing test may panic")]
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
