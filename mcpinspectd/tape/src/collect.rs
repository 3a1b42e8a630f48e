//! A tape of what an engine says, as it says it.

use std::borrow::Cow;

use mcpinspect_core::model::{SessionStart, Transport};
use mcpinspect_engine::event::Body;
use mcpinspect_engine::history::Raw;
use mcpinspect_engine::{MessageSeen, Output, OutputSink};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Counting, Entry, FORMAT, Header, VERSION};

/// Collects the messages of one session.
#[derive(Debug)]
pub struct Collector {
    header: Header,
    entries: Vec<Entry>,
    counting: Counting,
    has_times: bool,
}

impl Collector {
    /// Collects a session. `has_times` says whether the times of its messages are known, so that the time
    /// between a request and its response means something.
    pub fn new(start: &SessionStart, has_times: bool) -> Self {
        Self {
            header: Header {
                format: FORMAT.to_owned(),
                version: VERSION,
                session_id: start.id.to_string(),
                server_id: start.server.server_id.to_string(),
                fingerprint: start.server.fingerprint.clone(),
                name_source: start.server.name_source.clone(),
                transport: start.endpoint.transport(),
                protocol_version: None,
                server_info: None,
                client_info: None,
                server_exe: start.server_party.as_ref().map(|party| party.exe.clone()),
                client_exe: start.client_party.as_ref().map(|party| party.exe.clone()),
                host: None,
                joined_midstream: start.joined_midstream,
                started: start.time.exact(),
                ended: None,
                end_reason: None,
                is_anonymised: false,
                totals: super::Totals::default(),
            },
            entries: Vec::new(),
            counting: Counting::default(),
            has_times,
        }
    }

    /// The tape: its header, and its entries.
    pub fn finish(mut self) -> (Header, Vec<Entry>) {
        self.header.totals = self.counting.totals;
        (self.header, self.entries)
    }
}

impl OutputSink for Collector {
    fn output(&mut self, output: Output<'_>) {
        match output {
            Output::Message(message) => {
                let mut entry = Entry::seen(message, self.header.transport);
                if !self.has_times {
                    entry.latency_ns = None;
                }
                self.counting.add(&entry);
                self.entries.push(entry);
            }
            Output::Event(event) => {
                let info = |info: &Option<Value>| {
                    let text = info.as_ref().map(Value::to_string)?;
                    Some(Box::new(Raw(RawValue::from_string(text).ok()?)))
                };
                match &event.body {
                    Body::SessionIdentified(identified) => {
                        self.header.protocol_version = identified.protocol_version.clone();
                        self.header.server_info = info(&identified.server_info);
                        self.header.client_info = info(&identified.client_info);
                    }
                    Body::SessionEnded(ended) => {
                        self.header.ended = Some(event.time.exact());
                        self.header.end_reason = Some(ended.reason);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

impl Entry {
    /// The entry of a message as it passed.
    fn seen(message: &MessageSeen<'_>, transport: Transport) -> Self {
        let text = String::from_utf8_lossy(message.bytes);
        let modified = matches!(text, Cow::Owned(_));
        let (raw, text) = match serde_json::from_str::<&RawValue>(&text) {
            Ok(raw) => (Some(Box::new(Raw(raw.to_owned()))), None),
            Err(_) => (None, Some(text.into_owned())),
        };
        let answers = message.exchange.answers.as_ref();
        Self {
            time: message.frame.time.exact(),
            direction: message.frame.direction,
            kind: message.head.kind.as_str().to_owned(),
            sequence: message.frame.sequence,
            transport,
            method: message.method().map(str::to_owned),
            id: message.head.id.as_deref().map(str::to_owned),
            tool: message.exchange.tool.as_deref().map(str::to_owned),
            answers: answers.map(|request| request.sequence),
            concerns: message.exchange.concerns,
            call: message.exchange.call,
            correlation: message
                .exchange
                .correlation
                .map(|how| how.as_str().to_owned()),
            latency_ns: message.exchange.latency_ns,
            is_error: message.exchange.is_error,
            gap_before: message.frame.gap_before,
            modified,
            bytes: message.bytes.len() as u64,
            message: raw,
            text,
        }
    }
}
