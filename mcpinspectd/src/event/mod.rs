//! What the daemon says to the outside: one value per event, one JSON shape for every sink.
//!
//! The type names and fields are an interface that journald queries, D-Bus clients and scripts
//! rely on. Text in here is bounded and redacted by whoever builds the event; sinks escape it for
//! where it goes.

pub mod envelope;
pub mod json;
pub mod kind;
pub mod render;
#[cfg(test)]
pub(crate) mod testing;

pub use envelope::{Envelope, EventId, Presence};
pub use kind::EventKind;

use serde::Serialize;
use serde_json::Value;

use crate::model::{
    Action, ContainmentAction, Detection, Direction, FieldChange, Party, Pid, ServerId, SessionId,
    Severity, Timestamp, ToolStatus,
};

/// Who an event is about; in front of every event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Subject {
    /// When it happened, by the kernel's record where there is one.
    pub timestamp: Timestamp,
    /// The session in which it was seen.
    pub session_id: SessionId,
    /// The server's stable name.
    pub server_id: ServerId,
    /// How the server is reached: `stdio`.
    pub server_type: &'static str,
    /// The server process, where known.
    pub server_pid: Option<Pid>,
}

/// Everything the daemon says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum Event {
    /// A tool was listed: new, or as pinned.
    #[serde(rename = "mcp_tool_seen")]
    ToolSeen {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The tool's name.
        tool_name: String,
        /// SHA-256 of the canonical definition, hex.
        tool_hash: String,
        /// Its description, redacted and bounded.
        description: String,
        /// `new` or `unchanged`.
        status: ToolStatus,
        /// What detection found in it.
        detections: Vec<Detection>,
        /// The worst of them.
        max_severity: Option<Severity>,
    },
    /// A tool is not what was pinned, or a pinned tool is gone.
    #[serde(rename = "mcp_tool_changed")]
    ToolChanged {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The tool's name.
        tool_name: String,
        /// `changed` or `removed`.
        status: ToolStatus,
        /// The pinned hash.
        previous_hash: String,
        /// The current hash; `null` for a removed tool.
        new_hash: Option<String>,
        /// Field by field.
        changes: Vec<FieldChange>,
        /// What detection found in the new definition.
        detections: Vec<Detection>,
        /// The worst of them.
        max_severity: Option<Severity>,
    },
    /// What a server says of itself, or the program behind it, is not what was pinned.
    #[serde(rename = "mcp_server_changed")]
    ServerChanged {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// What changed: `instructions`, `server_info`, or the `program` behind the server.
        item: String,
        /// The pinned hash.
        previous_hash: String,
        /// The current hash.
        new_hash: String,
        /// Field by field.
        changes: Vec<FieldChange>,
        /// What detection found in it.
        detections: Vec<Detection>,
        /// The worst of them.
        max_severity: Option<Severity>,
    },
    /// Detection found something in a definition or a message.
    #[serde(rename = "mcp_detection")]
    Detection {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The tool concerned, where there is one.
        tool_name: Option<String>,
        /// The finding.
        detection: Detection,
        /// What it asks for.
        action: Action,
    },
    /// A session was recognised.
    #[serde(rename = "mcp_session_started")]
    SessionStarted {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// Fingerprint of the server's identity, hex.
        fingerprint: String,
        /// Where the server's name comes from, such as `config:claude-desktop` or `package:npm`.
        name_source: String,
        /// The server's process.
        server: Option<Party>,
        /// The client's process.
        client: Option<Party>,
        /// Whether it was under way when the daemon joined.
        joined_midstream: bool,
    },
    /// The parties told each other who they are (initialize, or the first stateless exchange).
    #[serde(rename = "mcp_session_identified")]
    SessionIdentified {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// Protocol revision agreed on, such as `2025-06-18`.
        protocol_version: Option<String>,
        /// The server's own name and version, as it claims.
        server_info: Option<Value>,
        /// The client's own name and version, as it claims.
        client_info: Option<Value>,
        /// The server's capabilities, as it claims.
        capabilities: Option<Value>,
    },
    /// A session is over.
    #[serde(rename = "mcp_session_ended")]
    SessionEnded {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// Why, such as `server_exited` or `streams_closed`.
        reason: String,
        /// Messages seen in it.
        messages: u64,
        /// Bytes captured in it.
        bytes: u64,
        /// Bytes known lost in it.
        bytes_lost: u64,
        /// Requests that never got an answer.
        unanswered: u64,
    },
    /// Bytes of a stream were lost.
    #[serde(rename = "mcp_capture_gap")]
    CaptureGap {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The stream's direction.
        direction: Direction,
        /// How many bytes.
        bytes_lost: u64,
        /// Where the gap starts, bytes from the stream's start.
        position: u64,
        /// Why, such as `ring_full` or `frame_too_large`.
        reason: String,
    },
    /// A party moves bytes in a way that the probes cannot copy.
    #[serde(rename = "mcp_blind_spot")]
    BlindSpot {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The system call or mechanism, such as `splice` or `io_uring`.
        mechanism: String,
        /// The process that uses it.
        pid: Pid,
        /// Whether the bytes are still seen at the other end of the stream.
        covered_by_other_end: bool,
    },
    /// Something on the wire that is no valid message.
    #[serde(rename = "mcp_invalid_message")]
    InvalidMessage {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// The stream's direction.
        direction: Direction,
        /// What is wrong with it, such as `not_json`.
        reason: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its beginning, escaped, redacted and bounded.
        excerpt: String,
        /// How many others of this session were not told since the one before, to keep a flood down.
        suppressed: u64,
    },
    /// A person decided something: about a definition or its pin, about a rule, or about watching at
    /// all. No session has part in that: the subject's `session_id` is empty, its `server_id` is `*`
    /// where all servers are concerned, and its time is when it was decided.
    #[serde(rename = "mcp_policy")]
    Policy {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// What it is about: `tool`, `instructions`, `server_info` or `program`; `rule`, `monitoring`
        /// or `configuration`.
        item: String,
        /// The tool concerned; `null` for the rest.
        tool_name: Option<String>,
        /// The hash of the definition that it was done about.
        hash: Option<String>,
        /// What was done: `approve`, `reject`, `pin` or `unpin`; `suppress`, `pause`, `resume` or
        /// `reload`.
        decision: String,
        /// `person`, or `policy` where the configuration's rules for changes did it.
        by: &'static str,
        /// Which person; `null` for a policy.
        uid: Option<u32>,
        /// Why, in that person's words, or what the policy was satisfied with; redacted and bounded.
        reason: String,
    },
    /// A server's processes were stopped, let go on, or ended.
    #[serde(rename = "mcp_contained")]
    Contained {
        #[serde(flatten)]
        /// Whom it is about.
        subject: Subject,
        /// What was done.
        measure: ContainmentAction,
        /// Control groups that it was done to as a whole.
        cgroups: Vec<String>,
        /// All processes that it was done to.
        processes: Vec<Pid>,
        /// What could not be reached, and why.
        missed: Vec<String>,
        /// Who wanted it; `null` where the configuration did.
        uid: Option<u32>,
        /// The rule whose finding made the configuration want it; `null` where a person did.
        pattern: Option<String>,
    },
    /// The daemon itself left events out: a sink was too slow for them, or a server made too many.
    #[serde(rename = "mcp_events_dropped")]
    EventsDropped {
        /// When it was noticed.
        timestamp: Timestamp,
        /// The sink that missed them, such as `journal`; `null` where all of them did.
        sink: Option<String>,
        /// The server that they were about; `null` where they were about several.
        server_id: Option<ServerId>,
        /// Why: `queue_full` or `flood`.
        reason: &'static str,
        /// How many events, since the last such event.
        dropped: u64,
    },
}
