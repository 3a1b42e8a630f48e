//! What comes from the server, sorted: answers, requests, notifications, and everything else.

use std::time::Duration;

use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{
    Message, Notification, Outcome, Parsed, Payload, Request, Response,
};
use mcpinspect_core::text::bound;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::connection::{Answer, Connection, tree};
use super::failure::{Category, Failure};
use super::peer::Received;
use super::server_messages::{ServerEvent, ServerRequest, Via};

/// Replies that may wait to be sent; a server with more is not reading.
const MAX_REPLIES: usize = 1024;

/// Answers that may wait to be taken.
const MAX_ANSWERS: usize = 4096;

/// Longest id to quote, in bytes.
const QUOTED: usize = 80;

impl Connection<'_> {
    /// Takes one line, if one comes in time.
    pub(super) fn take_in(&mut self, wait: Duration) -> Result<(), Failure> {
        match self.peer.receive(wait) {
            Received::Line(line) => self.line(&line),
            Received::TooLong(bytes) => {
                let text = format!("the server wrote a line of {bytes} bytes, too long to read");
                self.server_messages.warn(text);
                Ok(())
            }
            Received::Unanswered(id, failure) => {
                self.unanswered(id, *failure);
                Ok(())
            }
            Received::Nothing => Ok(()),
            Received::Closed => Err(self.gone()),
        }
    }

    fn unanswered(&mut self, id: Option<u64>, failure: Failure) {
        match id {
            None => {
                self.server_messages.warn(failure.message.clone());
                self.undelivered = Some(failure);
            }
            Some(id) if self.open.remove(&id).is_some() => self.answers.push_back(Answer {
                id,
                outcome: Err(failure),
            }),
            Some(_) => {}
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match message::parse(line) {
            Ok(Payload::Single(parsed)) => self.message(&parsed),
            Ok(Payload::Batch(batch)) => batch.for_each(|member| match member {
                Ok(parsed) => self.message(&parsed),
                Err(why) => self.server_messages.invalid_line(line, why.as_str()),
            }),
            Err(why) => self.server_messages.invalid_line(line, why.as_str()),
        }
        if self.outbox.len() > MAX_REPLIES || self.answers.len() > MAX_ANSWERS {
            return Err(Failure::new(
                Category::Protocol,
                "flood",
                "the server sends requests without reading the answers",
            ));
        }
        Ok(())
    }

    fn message(&mut self, parsed: &Parsed<'_>) {
        if let Some(irregular) = parsed.irregular {
            let word = irregular.as_str();
            self.server_messages
                .warn(format!("unusual message from the server: {word}"));
        }
        match &parsed.message {
            Message::Response(response) => self.response(response),
            Message::Request(request) => self.reply(request),
            Message::Notification(notification) => self.notification(notification),
        }
    }

    fn response(&mut self, response: &Response<'_>) {
        let pending = match response.id {
            Some(id) => id.0.parse().ok(),
            // A server that could not read the id of a request can only leave it out.
            None => match (response.outcome, self.open.len()) {
                (Outcome::Error(_), 1) => self.open.keys().next().copied(),
                _ => None,
            },
        };
        let pending = pending.and_then(|id| Some((id, self.open.remove(&id)?)));
        let Some((id, method)) = pending else {
            let id = response.id.map_or("none", |id| id.0);
            let id = bound(id, QUOTED);
            let text = format!("the server sent a response to no request: id {id}");
            self.server_messages.warn(text);
            return;
        };
        let outcome = match response.outcome {
            Outcome::Result(result) => Ok(result.to_owned()),
            Outcome::Error(error) => Err(Failure::refused(&method, tree(error))),
        };
        self.answers.push_back(Answer { id, outcome });
    }

    fn reply(&mut self, request: &Request<'_>) {
        let method = request.method.as_ref();
        let reply = self.settings.replies.to(method);
        self.outbox.push_back(reply.outcome.response(request.id.0));
        let (name, value) = reply.outcome.member();
        self.server_messages.add_request(ServerRequest {
            method: method.to_owned(),
            params: params(request.params),
            via: Via::Request,
            scripted: reply.is_scripted,
            answer: json!({ name: value }),
        });
    }

    fn notification(&mut self, notification: &Notification<'_>) {
        let params = params(notification.params);
        let method = notification.method.as_ref();
        if method != "notifications/message" {
            self.server_messages.add_notification(method, &params);
        }
        match method {
            "notifications/message" => {
                let text = |name: &str| params.get(name).and_then(Value::as_str);
                let message = match params.get("data") {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                let level = text("level").unwrap_or("info");
                let logger = text("logger").map(str::to_owned);
                self.server_messages.add_log(level, message, logger);
            }
            "notifications/progress" => {
                let number = |name: &str| params.get(name).and_then(Value::as_f64);
                if let Some(progress) = number("progress") {
                    let message = params.get("message").and_then(Value::as_str);
                    let total = number("total");
                    self.server_messages.report(ServerEvent::Progress {
                        progress,
                        total,
                        message,
                    });
                }
            }
            "notifications/tools/list_changed" => self.server_messages.tools_changed = true,
            _ => {}
        }
    }
}

fn params(raw: Option<&RawValue>) -> Value {
    raw.map(tree).unwrap_or_default()
}
