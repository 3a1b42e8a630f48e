//! Writing a tape.

use std::io::{self, Write};

use mcpinspect_core::model::{Direction, EndReason, Transport};
use mcpinspect_engine::history::{RecordedMessage, RecordedSession};
use serde::Serialize;

use super::{Entry, FORMAT, Header, VERSION};

impl Header {
    /// The header of a recorded session.
    pub fn of(session: &RecordedSession, host: Option<String>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            session_id: session.session_id.clone(),
            server_id: session.server_id.clone(),
            fingerprint: session.fingerprint.clone(),
            name_source: session.name_source.clone(),
            transport: transport(&session.transport),
            protocol_version: session.protocol_version.clone(),
            server_info: session.server_info.clone(),
            client_info: session.client_info.clone(),
            server_exe: session.server_exe.clone(),
            client_exe: session.client_exe.clone(),
            host,
            joined_midstream: session.joined_midstream,
            started: session.started.clone(),
            ended: session.ended.clone(),
            end_reason: session.end_reason.as_deref().and_then(|word| {
                let mut all = EndReason::ALL.iter();
                all.find(|reason| reason.as_str() == word).copied()
            }),
            is_anonymised: false,
            totals: super::Totals::default(),
        }
    }
}

impl Entry {
    /// The entry of a recorded message; `None` for a member of a batch, which is part of its batch's.
    pub fn of(message: &RecordedMessage, transport: Transport) -> Option<Self> {
        if message.is_member {
            return None;
        }
        Some(Self {
            time: message.time.clone(),
            direction: match message.direction.as_str() {
                "client_to_server" => Direction::ClientToServer,
                _ => Direction::ServerToClient,
            },
            kind: message.kind.clone(),
            sequence: message.sequence,
            transport,
            method: message.method.clone(),
            id: message.id.clone(),
            tool: message.tool.clone(),
            answers: message.answers,
            concerns: message.concerns,
            call: message.call,
            correlation: message.correlation.clone(),
            latency_ns: message.latency_ns,
            is_error: message.is_error,
            gap_before: message.gap_before,
            modified: message.is_masked,
            bytes: message.bytes,
            message: message.message.clone(),
            text: message.text.clone(),
        })
    }
}

fn transport(word: &str) -> Transport {
    let all = [Transport::Stdio, Transport::Http, Transport::Sse];
    let found = all.into_iter().find(|one| one.as_str() == word);
    found.unwrap_or_default()
}

/// Writes a tape, line by line.
#[derive(Debug)]
pub struct TapeWriter<W> {
    out: W,
}

impl<W: Write> TapeWriter<W> {
    /// Begins a tape.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.line(header)?;
        Ok(writer)
    }

    /// Writes an entry.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        self.line(entry)
    }

    /// Ends the tape.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        // A message is passed on verbatim, and may have line breaks as white space.
        for byte in &mut line {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.out.write_all(&line)
    }
}
