//! Questions about what was recorded, and the rows of their answers.
//!
//! One form for everyone who asks: the command line asks the store's file if it may read it, and the daemon
//! otherwise; the daemon answers according to the caller's credentials. A question is JSON, and each row of
//! an answer is JSON, so both cross the bus as text.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Most rows of one answer.
pub const MAX_ROWS: usize = 1000;

/// Whose recordings may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer {
    /// Everyone's.
    All,
    /// Those of servers that run as this user.
    User(u32),
}

/// A question. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum HistoryQuery {
    /// Which sessions were recorded? Newest first, as [`RecordedSession`].
    Sessions {
        /// Only of this server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// Only those that were open at this time or later.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        /// Only this one: its id, or the beginning of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// At most this many, at most [`MAX_ROWS`].
        limit: usize,
    },
    /// The messages of a session, in order, as [`RecordedMessage`].
    Messages {
        /// The session's id.
        session: String,
        /// Only those after the message with this number.
        #[serde(default)]
        after: i64,
        /// At most this many, at most [`MAX_ROWS`]; fewer if they are large.
        limit: usize,
    },
    /// Which messages were the last? Newest first, as [`RecordedMessage`] without its text.
    Latest {
        /// Only those of this session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Of all sessions: only those after the message with this number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<i64>,
        /// Of a session: only those before the message with this number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<i64>,
        /// At most this many, at most [`MAX_ROWS`].
        limit: usize,
    },
    /// One message, as [`RecordedMessage`].
    Message {
        /// Its number.
        number: i64,
    },
    /// What was reported about a session? In order, as [`RecordedEvent`].
    Events {
        /// The session's id.
        session: String,
        /// At most this many, at most [`MAX_ROWS`].
        limit: usize,
    },
    /// Which messages contain this? Newest first, as [`RecordedMessage`].
    Search(Search),
    /// How many exchanges were there, and how long did they take? By server, method and tool, as
    /// [`CallStatistics`].
    Statistics {
        /// Only of this server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// Only of the last this many days, including today.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        days: Option<u32>,
    },
}

/// What to search for; all given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Words that must all be in the message; case does not matter.
    pub text: String,
    /// The method of the message, or of the request that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool that is called, or whose call is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Only messages from this time or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Only errors, the protocol's or a tool's.
    pub error: bool,
    /// At most this many, at most [`MAX_ROWS`].
    pub limit: usize,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSession {
    /// Its id.
    pub session_id: String,
    /// The server's name.
    pub server_id: String,
    /// The fingerprint of the server's identity.
    pub fingerprint: String,
    /// Where the server's name comes from.
    pub name_source: String,
    /// How the server is reached.
    pub transport: String,
    /// The user that the server runs as.
    pub uid: Option<u32>,
    /// The server's process.
    pub server_pid: Option<u32>,
    /// The path of its executable.
    pub server_exe: Option<String>,
    /// The client's process.
    pub client_pid: Option<u32>,
    /// The path of its executable.
    pub client_exe: Option<String>,
    /// The revision of MCP that they speak.
    pub protocol_version: Option<String>,
    /// What the server says about itself.
    pub server_info: Option<Box<Raw>>,
    /// What the client says about itself.
    pub client_info: Option<Box<Raw>>,
    /// Whether it was already open when recording began.
    pub joined_midstream: bool,
    /// Whether it comes from a tape.
    pub imported: bool,
    /// When it started, RFC 3339.
    pub started: String,
    /// When it ended; `None` while it is open.
    pub ended: Option<String>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// When its last message passed.
    pub last: String,
    /// Recorded messages.
    pub messages: u64,
    /// Errors among them.
    pub errors: u64,
    /// Requests not answered so far.
    pub in_flight: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
}

/// JSON that is passed on unchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Raw(pub Box<RawValue>);

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Raw {}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedMessage {
    /// Its number in the store, in the order of recording.
    pub number: i64,
    /// Its session.
    pub session_id: String,
    /// The server of that session.
    pub server_id: String,
    /// Its number in the session, from 1; for a batch's member, that of the batch.
    pub sequence: u64,
    /// Whether it is a member of the batch before.
    pub is_member: bool,
    /// When it passed, RFC 3339.
    pub time: String,
    /// `client_to_server` or `server_to_client`.
    pub direction: String,
    /// `request`, `response`, `notification`, `batch` or `invalid`.
    pub kind: String,
    /// Its method, or that of the request that it answers.
    pub method: Option<String>,
    /// Its id, as JSON text.
    pub id: Option<String>,
    /// The tool that is called, or whose call is answered.
    pub tool: Option<String>,
    /// The sequence of the request that it answers.
    pub answers: Option<u64>,
    /// The sequence of the request that it cancels or reports progress of.
    pub concerns: Option<u64>,
    /// The sequence of the first request of a call that takes several.
    pub call: Option<u64>,
    /// How a response relates to its request.
    pub correlation: Option<String>,
    /// Nanoseconds from the request to this response.
    pub latency_ns: Option<u64>,
    /// Whether it is an error, the protocol's or a tool's.
    pub is_error: bool,
    /// Whether bytes were lost before it.
    pub gap_before: bool,
    /// What is wrong with it.
    pub invalid_reason: Option<String>,
    /// Its bytes on the wire.
    pub bytes: u64,
    /// Whether its text differs from what was on the wire: secrets are masked.
    pub is_masked: bool,
    /// The message, if it was kept and is JSON.
    pub message: Option<Box<Raw>>,
    /// Its text, if it was kept and is not JSON.
    pub text: Option<String>,
}

/// An event about a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// When it happened, RFC 3339.
    pub time: String,
    /// Its type.
    pub kind: String,
    /// How bad it is.
    pub severity: Option<String>,
    /// What happened, in one line of names.
    pub title: String,
    /// The event.
    pub event: Box<Raw>,
}

/// The exchanges of one method or tool of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStatistics {
    /// The server.
    pub server_id: String,
    /// The user that it runs as.
    pub uid: Option<u32>,
    /// The method; empty for messages without one.
    pub method: String,
    /// The tool; empty for other requests.
    pub tool: String,
    /// Requests.
    pub requests: u64,
    /// Responses that found their request.
    pub responses: u64,
    /// Responses that were errors.
    pub errors: u64,
    /// Requests that waited too long.
    pub overdue: u64,
    /// Answers to those that arrived after all.
    pub late: u64,
    /// Answers to requests that had been cancelled.
    pub cancelled: u64,
    /// Second answers.
    pub duplicates: u64,
    /// Answers to no request.
    pub orphans: u64,
    /// Bytes from the client to the server.
    pub bytes_to_server: u64,
    /// Bytes from the server to the client.
    pub bytes_to_client: u64,
    /// Nanoseconds within which half of the responses came.
    pub p50_ns: Option<u64>,
    /// Nanoseconds within which nine of ten came.
    pub p90_ns: Option<u64>,
    /// Nanoseconds within which 99 of 100 came.
    pub p99_ns: Option<u64>,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// It makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Nothing was recorded yet.
    #[error("no message store: nothing was recorded")]
    Nothing,
    /// It took too long.
    #[error("the query took longer than {0} seconds; select less")]
    Deadline(u64),
    /// The store cannot be read.
    #[error("cannot read the message store: {0}")]
    Unreadable(String),
}

/// Answers questions about what was recorded.
pub trait HistoryReader: Send + Sync {
    /// Returns the rows of the answer, each a line of JSON.
    ///
    /// # Errors
    /// See [`HistoryError`].
    fn query_history(
        &self,
        question: &HistoryQuery,
        viewer: Viewer,
    ) -> Result<Vec<String>, HistoryError>;
}
