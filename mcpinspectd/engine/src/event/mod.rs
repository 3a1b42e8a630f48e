//! What the daemon reports: one value per event, one JSON shape for every sink.
//!
//! The type names and fields are an interface that journald queries, D-Bus clients and scripts rely
//! on. Whoever builds an event bounds and redacts the text in it; sinks escape it for where it goes.
//!
//! - [`body`]: one file per topic; each type of event says there how it reads and what readers filter by
//! - [`kind`]: the types' outside names and journal ids
//! - [`orders`]: what a definition wants of an agent
//! - [`render`]: titles, sentences and journal fields
//! - `vocabulary`: the words that they share
//! - [`json`]: the one JSON shape
//! - [`envelope`]: an event made ready for the sinks

pub mod body;
pub mod envelope;
pub mod json;
pub mod kind;
pub mod orders;
pub mod render;
#[doc(hidden)]
pub mod testing;
mod vocabulary;

use mcpinspect_core::model::{Pid, ServerId, SessionId, Severity, Timestamp, Transport};
use serde::{Serialize, Serializer};

pub use body::Body;
pub use envelope::{Envelope, EventId, Presence};
pub use kind::EventKind;

/// What an event is about: a server, and mostly one session of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// The session in which it was seen; empty where no session takes part.
    pub session_id: SessionId,
    /// The server's stable name, or [`EVERY_SERVER`](mcpinspect_core::model::EVERY_SERVER).
    pub server_id: ServerId,
    /// How the server is reached.
    pub server_type: Transport,
    /// The server process, where known.
    pub server_pid: Option<Pid>,
    /// The user that the server runs as, where known: it decides who may read the event.
    #[serde(skip)]
    pub server_uid: Option<u32>,
}

impl Subject {
    /// A server as such, outside any session. Only a session tells how a server is reached, so this
    /// is the usual way.
    pub fn server(server_id: ServerId) -> Self {
        Self {
            session_id: SessionId::none(),
            server_id,
            server_type: Transport::Stdio,
            server_pid: None,
            server_uid: None,
        }
    }

    /// The same, of a server that runs as this user.
    #[must_use]
    pub fn of_user(self, server_uid: Option<u32>) -> Self {
        Self { server_uid, ..self }
    }
}

/// Something that the daemon reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it happened, by the kernel's record where there is one.
    pub time: Timestamp,
    /// What it is about; `None` where the daemon speaks of itself.
    pub subject: Option<Subject>,
    /// What happened.
    pub body: Body,
}

impl Event {
    /// An event about a server or one of its sessions.
    pub fn new(time: Timestamp, subject: Subject, body: impl Into<Body>) -> Self {
        Self {
            time,
            subject: Some(subject),
            body: body.into(),
        }
    }

    /// An event about the daemon itself.
    pub fn of_daemon(time: Timestamp, body: impl Into<Body>) -> Self {
        Self {
            time,
            subject: None,
            body: body.into(),
        }
    }

    /// Its type.
    pub fn kind(&self) -> EventKind {
        self.body.kind()
    }

    /// How bad it is; `None` for the ordinary course of things.
    pub fn severity(&self) -> Option<Severity> {
        self.body.describe().severity()
    }

    /// The server that it is about.
    pub fn server(&self) -> Option<&ServerId> {
        match (&self.subject, &self.body) {
            (Some(subject), _) => Some(&subject.server_id),
            (None, Body::EventsDropped(dropped)) => dropped.server_id.as_ref(),
            (None, _) => None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            r#type: &'static str,
            timestamp: Timestamp,
            #[serde(flatten)]
            subject: Option<&'a Subject>,
            #[serde(flatten)]
            body: &'a Body,
        }
        Flat {
            r#type: self.kind().name(),
            timestamp: self.time,
            subject: self.subject.as_ref(),
            body: &self.body,
        }
        .serialize(serializer)
    }
}
