//! What the server says of its own accord: requests, notifications, and anything that is not a message.

use mcpinspect_core::mcp::json as text;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Payload, Request};
use serde_json::Value;

use super::{Driver, NO_MESSAGE};
use crate::peer::Received;
use crate::replay::compare::{Difference, Kind, excerpt};
use crate::replay::envelope;
use crate::replay::recording::TapeMessage;
use crate::replies::unscripted;

/// Stands for the method of an answer to no request.
const NO_REQUEST: &str = "(answer to no request)";
/// Stands for the methods of a server that makes up too many.
const OTHERS: &str = "(other methods)";

/// Most unrequested messages, in addition to as many as the tape has.
const MAX_UNASKED: u64 = 100_000;
/// Most bytes of them.
const MAX_BYTES: u64 = 1 << 30;
/// Most methods to count by name.
const MAX_METHODS: usize = 1024;
/// Replies that may wait to be sent; a server with more is not reading.
const MAX_REPLIES: usize = 1024;
/// Most notes on the replay; one server can cause any number of them.
const MAX_NOTES: usize = 100;
/// Unused requests on the tape to search for the one with the same parameters.
const LOOKED_AT: usize = 64;

impl Driver<'_> {
    pub(super) fn take(&mut self, received: Received) {
        match received {
            Received::Line(line) => self.line(&line),
            Received::TooLong(bytes) => self.unasked(NO_MESSAGE, false, bytes),
            Received::Unanswered(id, failure) => {
                let pending = id.and_then(|id| self.open.get_mut(&id));
                match pending {
                    Some(pending) => pending.failed = Some(failure.message),
                    None if id.is_none() && self.report.notes.len() < MAX_NOTES => {
                        self.report.notes.push(failure.message);
                    }
                    None => {}
                }
            }
            Received::Nothing => {}
            Received::Closed => self.closed(),
        }
    }

    fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let bytes = line.len() as u64;
        match message::parse(line) {
            Ok(Payload::Single(parsed)) => self.message(&parsed.message, bytes),
            Ok(Payload::Batch(batch)) => batch.for_each(|member| match member {
                Ok(parsed) => self.message(&parsed.message, 0),
                Err(_) => self.unasked(NO_MESSAGE, false, 0),
            }),
            Err(_) => {
                let key = (NO_MESSAGE.to_owned(), false);
                if self.counts.get(&key).is_none_or(|count| count.now == 0) {
                    let beginning = String::from_utf8_lossy(&line[..line.len().min(1000)]);
                    let beginning = excerpt(&Value::from(beginning.as_ref()));
                    self.report
                        .notes
                        .push(format!("output that is not a message: {beginning}"));
                }
                self.unasked(NO_MESSAGE, false, bytes);
            }
        }
    }

    fn message(&mut self, message: &Message<'_>, bytes: u64) {
        if self.is_over() {
            return;
        }
        match message {
            Message::Response(response) => {
                if !self.answer(response) {
                    self.unasked(NO_REQUEST, false, bytes);
                }
            }
            Message::Notification(notification) => {
                self.unasked(&notification.method, false, bytes);
            }
            Message::Request(request) => {
                self.unasked(&request.method, true, bytes);
                self.reply(request);
            }
        }
    }

    fn unasked(&mut self, method: &str, is_request: bool, bytes: u64) {
        self.unasked.0 += 1;
        self.unasked.1 = self.unasked.1.saturating_add(bytes);
        let most = MAX_UNASKED.saturating_add(self.recording.messages.len() as u64);
        if (self.unasked.0 > most || self.unasked.1 > MAX_BYTES) && self.stopped.is_none() {
            let (messages, bytes) = self.unasked;
            self.stopped = Some(format!(
                "the server sent {messages} unrequested messages of {} MiB",
                bytes >> 20
            ));
        }
        let method = text::cut(method, 200);
        let key = (method.to_owned(), is_request);
        if self.counts.len() >= MAX_METHODS && !self.counts.contains_key(&key) {
            self.counts
                .entry((OTHERS.to_owned(), false))
                .or_default()
                .now += 1;
        } else {
            self.counts.entry(key).or_default().now += 1;
        }
    }

    /// Answers a request of the server, as on the tape if it has an answer.
    fn reply(&mut self, request: &Request<'_>) {
        if self.outbox.len() >= MAX_REPLIES {
            self.stopped = Some(format!(
                "the server sent {MAX_REPLIES} requests without reading an answer"
            ));
            return;
        }
        let (method, id) = (request.method.as_ref(), request.id.0);
        let recorded = self.recorded_reply(request);
        let recorded = recorded.and_then(|text| envelope::edited(text, &[("id", id)]));
        let line = match (recorded, method) {
            (Some(line), _) => {
                self.report.answered_from_tape += 1;
                line
            }
            (None, _) => {
                self.report.declined += u64::from(method != "ping");
                unscripted(method, "the tape has no answer to this request").response(id)
            }
        };
        self.outbox.push_back(line);
    }

    /// What the client said to the same request on the tape, or else to the next of its method.
    fn recorded_reply(&mut self, request: &Request<'_>) -> Option<&str> {
        let recording = self.recording;
        let unused = self.answers.get_mut(request.method.as_ref())?;
        let params = request.params.map(|params| params.get());
        let read = |text: Option<&str>| -> Option<Value> { serde_json::from_str(text?).ok() };
        let wanted = read(params);
        let same = unused.iter().take(LOOKED_AT).position(|at| {
            let message = recording.messages.get(*at).and_then(TapeMessage::message);
            let old = message.as_ref().and_then(|message| message.params());
            read(old.map(|params| params.get())) == wanted
        });
        let at = unused.remove(same.unwrap_or(0))?;
        let answer = recording.messages.get(at)?.answer()?;
        Some(&recording.messages.get(answer)?.text)
    }

    /// What the server says of its own accord depends on time, so only whether it says it is compared.
    pub(super) fn compare_counts(&mut self) {
        for ((method, is_request), count) in &self.counts {
            let kind = match (count.on_tape, count.now) {
                (1.., 0) => Kind::Missing,
                (0, 1..) => Kind::Added,
                _ => continue,
            };
            if method == "ping" || self.settings.rules.ignores(method, None) {
                continue;
            }
            let what = match (is_request, method.starts_with('(')) {
                (_, true) => "",
                (true, _) => "request",
                (false, _) => "notification",
            };
            self.found.add(Difference {
                kind,
                method: method.clone(),
                path: method.clone(),
                was: (kind == Kind::Missing).then(|| format!("{what} {}×", count.on_tape)),
                is: (kind == Kind::Added).then(|| format!("{what} {}×", count.now)),
                message: None,
                times: 1,
            });
        }
    }
}
