//! The JSON lines of `tap`: an interface that scripts rely on.
//!
//! One object a line: `tap_ready` first, then an `mcp_message` per message and an
//! `mcp_capture_gap` per loss, and `tap_summary` at the end. Field names and meanings stay.

use std::collections::HashMap;
use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::discover::StreamLedger;
use crate::engine::{MessageKind, MessageSeen};
use crate::event::Event;
use crate::model::{Direction, Pid, ServerId, SessionId, Timestamp};
use crate::monitor::CaptureTotals;

#[derive(Serialize)]
#[serde(tag = "type")]
enum Line<'a> {
    #[serde(rename = "tap_ready")]
    Ready {
        version: &'static str,
        hook: &'static str,
    },
    #[serde(rename = "mcp_message")]
    Message {
        timestamp: Timestamp,
        session_id: &'a SessionId,
        server_id: &'a ServerId,
        direction: Direction,
        server_pid: Option<Pid>,
        client_pid: Option<Pid>,
        kind: MessageKind,
        method: Option<&'a str>,
        id: Option<&'a RawValue>,
        bytes: usize,
        sha256: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        raw_base64: Option<String>,
        gap_before: bool,
    },
    #[serde(rename = "tap_summary")]
    Summary {
        streams: Vec<StreamSummary<'a>>,
        capture: &'a CaptureTotals,
    },
}

/// One direction of a session in the summary.
#[derive(Serialize)]
struct StreamSummary<'a> {
    #[serde(flatten)]
    ledger: &'a StreamLedger,
    /// Frames that were told.
    frames: u64,
}

/// Writes the lines.
pub struct Jsonl<W> {
    out: W,
    raw: bool,
    frames: HashMap<(SessionId, Direction), u64>,
}

impl<W: Write> Jsonl<W> {
    /// Lines to `out`; with `raw`, messages in full.
    pub fn new(out: W, raw: bool) -> Self {
        Self {
            out,
            raw,
            frames: HashMap::new(),
        }
    }

    /// The probes are attached: from now on nothing is missed.
    ///
    /// # Errors
    /// Writing fails.
    pub fn ready(&mut self, hook: &'static str) -> io::Result<()> {
        self.line(&Line::Ready {
            version: env!("CARGO_PKG_VERSION"),
            hook,
        })?;
        self.flush()
    }

    /// Lets buffered lines go out.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// A message.
    ///
    /// # Errors
    /// Writing fails.
    pub fn message(&mut self, message: &MessageSeen<'_>) -> io::Result<()> {
        let frames = self
            .frames
            .entry((message.session_id.clone(), message.direction));
        *frames.or_default() += 1;
        let text = std::str::from_utf8(message.bytes);
        let encoded = self.raw && text.is_err();
        let line = Line::Message {
            timestamp: message.time,
            session_id: message.session_id,
            server_id: message.server_id,
            direction: message.direction,
            server_pid: message.server_pid,
            client_pid: message.client_pid,
            kind: message.kind,
            method: message.method,
            id: message.id.and_then(|id| serde_json::from_str(id).ok()),
            bytes: message.bytes.len(),
            sha256: format!("{:x}", Sha256::digest(message.bytes)),
            raw: text.ok().filter(|_| self.raw),
            raw_base64: encoded.then(|| STANDARD.encode(message.bytes)),
            gap_before: message.gap_before,
        };
        self.line(&line)
    }

    /// An event. Of the events only losses are lines of `tap`; the others are the daemon's.
    ///
    /// # Errors
    /// Writing fails.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        match event {
            Event::CaptureGap { .. } | Event::BlindSpot { .. } => self.line(event),
            _ => Ok(()),
        }
    }

    /// The end: what the streams' ledgers say.
    ///
    /// # Errors
    /// Writing fails.
    pub fn summary(&mut self, ledger: &[StreamLedger], capture: &CaptureTotals) -> io::Result<()> {
        let streams = ledger
            .iter()
            .map(|ledger| {
                let key = (ledger.session_id.clone(), ledger.direction);
                let frames = self.frames.get(&key).copied().unwrap_or(0);
                StreamSummary { ledger, frames }
            })
            .collect();
        write(&mut self.out, &Line::Summary { streams, capture })?;
        self.flush()
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        write(&mut self.out, line)
    }
}

fn write(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
