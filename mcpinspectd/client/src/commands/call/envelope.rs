//! The outcome of one request, for programs.

use std::time::Duration;

use crate::failure::{Category, Failure};
use crate::server_messages::{LogMessage, ServerNotification, ServerRequest};
use serde::Serialize;
use serde_json::value::RawValue;

use super::expect::CheckedExpectation;
use super::perform::Outcome;
use super::wire::CapturedTraffic;

/// The version of the envelope. A change that breaks readers increments it.
const VERSION: u8 = 1;

/// One request and its outcome.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envelope {
    structured_version: u8,
    /// Whether there is a result, and it is not that of a failed tool.
    success: bool,
    method: String,
    duration_ms: f64,
    /// The server's result, as it wrote it.
    result: Option<Box<RawValue>>,
    error: Option<Failure>,
    logs: Vec<LogMessage>,
    server_requests: Vec<ServerRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notifications: Option<Vec<ServerNotification>>,
    stderr: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<CapturedTraffic>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    in_script: Option<InScript>,
}

/// What only a step of a script has.
#[derive(Debug, Serialize)]
struct InScript {
    /// Its number, from 1 on.
    step: usize,
    name: Option<String>,
    /// Whether all expectations hold; if there were none, whether it did not fail.
    passed: bool,
    expectations: Vec<CheckedExpectation>,
}

impl Envelope {
    /// The outcome of a request of this method, and how long it took.
    pub fn new(method: &str, outcome: Outcome, took: Duration) -> Self {
        Self {
            structured_version: VERSION,
            success: outcome.failure.is_none(),
            method: method.to_owned(),
            duration_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
            result: outcome.result,
            error: outcome.failure,
            logs: Vec::new(),
            server_requests: Vec::new(),
            notifications: None,
            stderr: Vec::new(),
            wire: None,
            in_script: None,
        }
    }

    /// Adds what was received besides the answer.
    pub fn add_messages(&mut self, (logs, requests): (Vec<LogMessage>, Vec<ServerRequest>)) {
        self.logs.extend(logs);
        self.server_requests.extend(requests);
    }

    /// Adds what the server reported while it was watched, and why that ended early if it did.
    pub fn watched(&mut self, notifications: Vec<ServerNotification>, ended: Option<Failure>) {
        self.notifications = Some(notifications);
        if let (None, Some(failure)) = (&self.error, ended) {
            self.success = false;
            self.error = Some(failure);
        }
    }

    /// Adds lines of the server's standard error.
    pub fn overhear(&mut self, lines: Vec<String>) {
        self.stderr.extend(lines);
    }

    /// Adds what was seen on the wire.
    pub fn attach(&mut self, wire: Option<CapturedTraffic>) {
        self.wire = wire;
    }

    /// The result, if there is one.
    pub fn result(&self) -> Option<&RawValue> {
        self.result.as_deref()
    }

    /// Whether the server was watched after its result.
    pub fn was_watched(&self) -> bool {
        self.notifications.is_some()
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        self.error.as_ref()
    }

    /// Whether this makes the exit status 1. Calling a tool that reports a failure is a successful call.
    pub fn fails(&self, on_error: bool) -> bool {
        self.error
            .as_ref()
            .is_some_and(|failure| on_error || failure.category != Category::Application)
    }

    /// Says which step of a script this was, and the outcome of its expectations.
    pub fn judge(
        &mut self,
        at: usize,
        name: Option<String>,
        expectations: Vec<CheckedExpectation>,
        passed: bool,
    ) {
        self.in_script = Some(InScript {
            step: at + 1,
            name,
            passed,
            expectations,
        });
    }

    /// Whether it passed, as a step or alone.
    pub fn has_passed(&self) -> bool {
        let in_script = self.in_script.as_ref();
        in_script.map_or(self.success, |step| step.passed)
    }

    /// How long it took.
    pub fn seconds(&self) -> f64 {
        self.duration_ms / 1e3
    }

    /// Why it did not pass: in a word, and in a sentence.
    pub fn complaint(&self) -> (&'static str, String) {
        let checked = self.in_script.iter().flat_map(|step| &step.expectations);
        let violated: Vec<String> = checked
            .filter_map(|checked| Some(format!("{}: {}", checked.path, checked.message.as_ref()?)))
            .collect();
        let failure = self.error.as_ref();
        match (violated.is_empty(), failure) {
            (true, Some(failure)) => (failure.category.as_str(), failure.message.clone()),
            (true, None) => ("expectation", String::new()),
            (false, None) => ("expectation", violated.join("; ")),
            (false, Some(failure)) => (
                "expectation",
                format!("{} ({})", violated.join("; "), failure.message),
            ),
        }
    }
}
