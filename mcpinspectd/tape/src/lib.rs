//! Tapes: one session as a file, for other people and other machines.
//!
//! A tape is JSON lines, optionally compressed with zstd. The first line is a [`Header`]: whose session it
//! is, and what is on the tape. Every other line is an [`Entry`]: a message, when it passed and how it
//! relates to others. It holds messages, as a person would write them down; the inputs of the pipeline,
//! byte for byte, are what [`source::tape`](mcpinspect_core::source::tape) keeps.
//!
//! ```text
//! {"format":"mcpinspect-tape","version":1,"session_id":"…","server_id":"files",…}
//! {"time":"…","direction":"client_to_server","kind":"request","method":"tools/list","id":"1",…,"message":{…}}
//! ```
//!
//! - [`collect`]: makes one from what an engine says
//! - [`read`]: reads one, and plays it as a source
//! - [`mod@write`]: writes one
//! - `file`: both, with compression
//! - [`anonymise`]: removes what identifies its owner

pub mod anonymise;
pub mod collect;
pub mod file;
pub mod http;
pub mod read;
pub mod report;
pub mod write;

use std::collections::BTreeMap;

use mcpinspect_core::model::{Direction, EndReason, Transport};
use mcpinspect_engine::history::Raw;
use serde::{Deserialize, Serialize};

/// The format's name.
pub const FORMAT: &str = "mcpinspect-tape";
/// The format's version.
pub const VERSION: u32 = 1;

/// The first line: the session, and what is on the tape. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The session's id.
    pub session_id: String,
    /// The server's name.
    pub server_id: String,
    /// The fingerprint of the server's identity.
    pub fingerprint: String,
    /// Where the server's name comes from.
    pub name_source: String,
    /// How the server is reached.
    pub transport: Transport,
    /// The revision of MCP in use.
    #[serde(default)]
    pub protocol_version: Option<String>,
    /// What the server says about itself.
    #[serde(default)]
    pub server_info: Option<Box<Raw>>,
    /// What the client says about itself.
    #[serde(default)]
    pub client_info: Option<Box<Raw>>,
    /// The path of the server's executable.
    #[serde(default)]
    pub server_exe: Option<String>,
    /// The path of the client's executable.
    #[serde(default)]
    pub client_exe: Option<String>,
    /// The machine that it was recorded on.
    #[serde(default)]
    pub host: Option<String>,
    /// Whether the session was already open when recording began.
    #[serde(default)]
    pub joined_midstream: bool,
    /// When it started.
    pub started: String,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<String>,
    /// Why it ended.
    #[serde(default)]
    pub end_reason: Option<EndReason>,
    /// Whether anything that identifies its owner was removed.
    #[serde(default)]
    pub is_anonymised: bool,
    /// What is on the tape.
    #[serde(default)]
    pub totals: Totals,
}

/// What is on a tape.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Messages; a batch counts as one.
    pub messages: u64,
    /// Messages by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Requests and notifications by method.
    pub methods: BTreeMap<String, u64>,
    /// Errors, of the protocol or of a tool.
    pub errors: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Nanoseconds from a request to its response, on average.
    pub mean_response_ns: Option<u64>,
    /// Messages whose text differs from the wire.
    pub modified: u64,
    /// Messages whose text is missing.
    pub without_text: u64,
}

/// A message. Unknown fields are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When it passed.
    pub time: String,
    /// Which way.
    pub direction: Direction,
    /// `request`, `response`, `notification`, `batch` or `invalid`.
    pub kind: String,
    /// Its number in the session.
    pub sequence: u64,
    /// How it is carried.
    pub transport: Transport,
    /// Its method, or that of the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its id, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool that is called, or whose call is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The sequence of the request that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// The sequence of the request that it cancels or reports progress of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concerns: Option<u64>,
    /// The sequence of the first request of a call that takes several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// How a response relates to its request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
    /// Nanoseconds from the request to this response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<u64>,
    /// Whether it is an error.
    #[serde(default)]
    pub is_error: bool,
    /// Whether bytes were lost before it.
    #[serde(default)]
    pub gap_before: bool,
    /// Whether its text differs from the wire: masked or anonymised.
    #[serde(default)]
    pub modified: bool,
    /// Its bytes on the wire.
    pub bytes: u64,
    /// The message, if it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Box<Raw>>,
    /// Its text, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Totals {
    /// Counts an entry; `responses` accumulates what the mean is computed from.
    fn add(&mut self, entry: &Entry, responses: &mut Mean) {
        self.messages += 1;
        *self.kinds.entry(entry.kind.clone()).or_default() += 1;
        if let (None, Some(method)) = (entry.answers, &entry.method)
            && entry.kind != "response"
        {
            *self.methods.entry(method.clone()).or_default() += 1;
        }
        self.errors += u64::from(entry.is_error);
        self.bytes = self.bytes.saturating_add(entry.bytes);
        self.modified += u64::from(entry.modified);
        self.without_text += u64::from(entry.message.is_none() && entry.text.is_none());
        if let Some(nanos) = entry.latency_ns {
            responses.count += 1;
            responses.nanos += u128::from(nanos);
            let mean = responses.nanos / u128::from(responses.count);
            self.mean_response_ns = u64::try_from(mean).ok();
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    count: u64,
    nanos: u128,
}

/// Counts entries one by one.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// What was counted.
    pub totals: Totals,
    mean: Mean,
}

impl Counting {
    /// Counts one more.
    pub fn add(&mut self, entry: &Entry) {
        self.totals.add(entry, &mut self.mean);
    }
}

#[cfg(test)]
mod tests;
