//! Messages as JSON lines: an interface for programs.
//!
//! | `type` | when |
//! |---|---|
//! | `tap_ready` | first, once the probes are attached |
//! | `mcp_message` | for each frame |
//! | `mcp_capture_gap`, `mcp_blind_spot` | when bytes were lost or bypass capture |
//! | `tap_summary` | last |
//!
//! `bytes` and `sha256` are over the exact bytes between two line feeds, a carriage return before
//! the second one included. `id` is the JSON value of the message. `method` is the message's
//! own, so a response has none. With `raw`, the bytes follow as a string, or in `raw_base64` if they
//! are not UTF-8. Characters without a glyph are written as `\u` escapes: a parser reads the exact
//! text, and a terminal is safe.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpinspect_core::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use mcpinspect_engine::event::json::TerminalSafe;
use mcpinspect_engine::event::{Body, Event};
use mcpinspect_engine::{MessageKind, MessageSeen};
use mcpinspect_judge::detect::category::Category;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{Format, Ready, Summary};

/// Writes one JSON object per message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Jsonl {
    /// Whether the messages themselves are written. They are secret.
    pub raw: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'a> {
    TapReady(&'a Ready),
    McpMessage(Message<'a>),
    TapSummary(&'a Summary),
}

#[derive(Serialize)]
struct Message<'a> {
    timestamp: Timestamp,
    session_id: &'a SessionId,
    server_id: &'a ServerId,
    direction: Direction,
    server_pid: Option<Pid>,
    client_pid: Option<Pid>,
    kind: MessageKind,
    method: Option<&'a str>,
    id: Option<Id<'a>>,
    bytes: usize,
    sha256: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_base64: Option<String>,
    gap_before: bool,
}

/// An id as it is in the message: digits that no number type holds stay unchanged.
#[derive(Serialize)]
#[serde(untagged)]
enum Id<'a> {
    Raw(&'a RawValue),
    Value(Value),
    Text(Cow<'a, str>),
}

impl<'a> Id<'a> {
    fn of(json: &'a str) -> Self {
        // Copied unchanged only if nothing in it acts on a terminal.
        if json.is_ascii()
            && !json.contains('\x7f')
            && let Ok(raw) = serde_json::from_str(json)
        {
            return Self::Raw(raw);
        }
        match serde_json::from_str(json) {
            Ok(value) => Self::Value(value),
            Err(_) => Self::Text(Cow::Borrowed(json)),
        }
    }
}

impl Format for Jsonl {
    fn ready(&mut self, ready: &Ready, out: &mut Vec<u8>) {
        line(&Line::TapReady(ready), out);
    }

    fn message(&mut self, message: &MessageSeen<'_>, out: &mut Vec<u8>) {
        let MessageSeen {
            session,
            frame,
            bytes,
            head,
            // The request's method on a response is only for people.
            exchange: _,
        } = *message;
        let (raw, raw_base64) = match std::str::from_utf8(bytes) {
            _ if !self.raw => (None, None),
            Ok(text) => (Some(text), None),
            Err(_) => (None, Some(STANDARD.encode(bytes))),
        };
        let message = Message {
            timestamp: frame.time,
            session_id: &session.id,
            server_id: &session.server_id,
            direction: frame.direction,
            server_pid: session.server_pid,
            client_pid: session.client_pid,
            kind: head.kind,
            method: head.method.as_deref(),
            id: head.id.as_deref().map(Id::of),
            bytes: bytes.len(),
            sha256: format!("{:x}", Sha256::digest(bytes)),
            raw,
            raw_base64,
            gap_before: frame.gap_before,
        };
        line(&Line::McpMessage(message), out);
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        // Only events about the wire itself; findings about what was said are up to the daemon.
        let concerns_the_wire = match &event.body {
            Body::CaptureGap(_) | Body::BlindSpot(_) => true,
            Body::Detection(found) => found.detection.category == Category::WireTampering.as_str(),
            _ => false,
        };
        if concerns_the_wire {
            line(event, out);
        }
    }

    fn summary(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        line(&Line::TapSummary(summary), out);
    }
}

fn line(value: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, TerminalSafe);
    match value.serialize(&mut serializer) {
        Ok(()) => out.push(b'\n'),
        // Serialisation fails only on maps whose keys are not strings; there are none here.
        Err(error) => {
            out.truncate(start);
            tracing::error!(%error, "cannot write a line of the tap");
        }
    }
}
