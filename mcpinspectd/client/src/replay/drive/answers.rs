//! Answers of the server, and how they differ from those on the tape.

use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Outcome, Payload, Response};
use mcpinspect_core::mcp::{Budget, json as text};
use mcpinspect_core::text::redact;
use serde_json::{Value, json};

use super::Driver;
use crate::replay::TREE;
use crate::replay::compare::{Difference, Kind, Subject, excerpt};
use crate::replay::recording::TapeMessage;

impl Driver<'_> {
    /// Takes an answer; false if there is no such request.
    pub(super) fn answer(&mut self, response: &Response<'_>) -> bool {
        let id = response.id.and_then(|id| id.0.parse().ok());
        let Some((id, pending)) = id.and_then(|id: u64| Some((id, self.open.remove(&id)?))) else {
            return false;
        };
        self.silent = 0;
        let Some(at) = pending.at else {
            if let Outcome::Error(error) = response.outcome {
                let error = shown(error.get());
                self.stopped = Some(format!("the server refused `initialize`: {error}"));
            }
            return true;
        };
        self.report.answers += 1;
        let recording = self.recording;
        let request = recording.messages.get(at);
        let old = request.and_then(TapeMessage::answer);
        let old = old.and_then(|at| recording.messages.get(at));
        if let (Some(request), Some(old), false) = (request, old, self.cancelled.contains(&id)) {
            self.compare(request, pending.params.as_ref(), old, response.outcome);
        }
        true
    }

    fn compare(
        &mut self,
        request: &TapeMessage,
        params: Option<&Value>,
        recorded: &TapeMessage,
        outcome: Outcome<'_>,
    ) {
        let Some(method) = request.method() else {
            return;
        };
        if self.settings.rules.ignores(method, params) {
            return;
        }
        let Some(Message::Response(Response {
            outcome: before, ..
        })) = recorded.message()
        else {
            return;
        };
        let subject = Subject {
            method,
            params,
            number: recorded.number,
        };
        self.report.compared += 1;
        // Masked like the tape, an answer shows what else changed.
        let new = match recorded.is_masked && !self.recording.header.is_anonymised {
            true => tree_of_masked(outcome),
            false => tree(outcome),
        };
        let is_same = match (tree(before), new) {
            (Some(old), Some(new)) => {
                if let (Some(old), Some(new)) = (old.get("result"), new.get("result")) {
                    self.renamed.learn(old, new);
                }
                let found = &mut self.found;
                self.settings.rules.compare(subject, &old, &new, found)
            }
            // Too deep or too large for a tree: only its text can be compared.
            _ if json_of(before) == json_of(outcome) => true,
            _ => {
                let [was, is] = [before, outcome].map(|outcome| Some(shown(json_of(outcome))));
                self.found.add(Difference {
                    kind: Kind::Value,
                    method: method.to_owned(),
                    path: subject.path(),
                    was,
                    is,
                    message: Some(recorded.number),
                    times: 1,
                });
                false
            }
        };
        self.report.equal += u64::from(is_same);
    }
}

fn json_of(outcome: Outcome<'_>) -> &str {
    match outcome {
        Outcome::Result(raw) | Outcome::Error(raw) => raw.get(),
    }
}

/// An answer as an object of its result or error.
fn tree(outcome: Outcome<'_>) -> Option<Value> {
    let (name, raw) = match outcome {
        Outcome::Result(raw) => ("result", raw),
        Outcome::Error(raw) => ("error", raw),
    };
    let value = text::value(raw, &mut Budget::of(TREE))?;
    Some(json!({ name: value }))
}

fn tree_of_masked(outcome: Outcome<'_>) -> Option<Value> {
    let name = match outcome {
        Outcome::Result(_) => "result",
        Outcome::Error(_) => "error",
    };
    let line = format!("{{\"{name}\":{}}}", json_of(outcome));
    match message::parse(redact::json(&line).as_bytes()) {
        Ok(Payload::Single(parsed)) => match parsed.message {
            Message::Response(response) => tree(response.outcome),
            _ => None,
        },
        _ => None,
    }
}

/// The start of JSON text that is not a tree.
fn shown(text: &str) -> String {
    let beginning = text::cut(text, 2000);
    excerpt(&Value::from(beginning))
}
