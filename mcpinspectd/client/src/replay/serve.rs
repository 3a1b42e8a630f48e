//! The server's side of a tape, played to a client.
//!
//! Each request of the client is matched with one on the tape, and answered as it was: under the client's
//! id, after what the server said before its answer, and before what it said after it. If the server
//! asked the client something in between, the rest waits for the client's answer.
//!
//! Nothing here waits or writes: what to send is returned together with its delay.

mod index;
mod lines;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mcpinspect_core::json_path::Assignment;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Message, Payload, Request};
use mcpinspect_core::mcp::{Budget, json as text};
use mcpinspect_core::model::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::TREE;
use super::fault::{Delay, Fault};
use super::recording::{Recording, TapeMessage, TapeMessageKind};
use super::speed::Speed;
use index::Index;
pub use index::Matching;

/// Requests missing from the tape to remember; further ones are counted.
const MAX_UNKNOWN: usize = 1000;

/// Answers that may wait for the client; if there are more, the oldest is given up.
const MAX_WAITING: usize = 1000;

/// How to play.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How a request is matched with the tape.
    pub matching: Matching,
    /// How long answers take, compared with the recording.
    pub speed: Speed,
    /// What to substitute in answers.
    pub assignments: Vec<Assignment>,
    /// Answers that fail.
    pub faults: Vec<Fault>,
    /// Answers that come late.
    pub delays: Vec<Delay>,
}

/// A line to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its delay, from when the request came.
    pub after: Duration,
    /// The line, without its end.
    pub text: String,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Whether everything on the tape was asked for, and nothing else.
    pub complete: bool,
    /// Requests of the client.
    pub requests: u64,
    /// Requests that were answered as on the tape.
    pub answered: u64,
    /// Requests that failed on purpose.
    pub failed: u64,
    /// Requests of the tape that the client did not make.
    pub not_consumed: Vec<RequestPath>,
    /// Requests that the tape does not have.
    pub not_on_tape: Vec<RequestPath>,
    /// More of those.
    pub more_not_on_tape: u64,
    /// Lines of the client that are not messages.
    pub invalid: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestPath {
    /// Its method and, if something is called, its name: a path.
    pub path: String,
    /// Its number on the tape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
}

/// Plays the server's side of a recording.
#[derive(Debug)]
pub struct Server<'a> {
    recording: &'a Recording,
    settings: Settings,
    index: Index,
    /// What the server says because of each message of the client, by that message's index on the tape, in order.
    follows: HashMap<usize, Vec<usize>>,
    /// What waits for an answer of the client, by the id of the request to the client.
    waiting: VecDeque<(u64, PendingPlayback)>,
    next_id: u64,
    served: Served,
}

/// The lines sent because of one message of the client.
#[derive(Debug)]
struct PendingPlayback {
    /// What is left of it, as indexes on the tape.
    left: VecDeque<usize>,
    /// The request that it is about: on the tape, and now.
    client_request: Option<ClientRequest>,
    /// The delay of what comes next.
    after: Duration,
    /// The time on the tape at which the delay began.
    since: Timestamp,
}

/// A request of the client.
#[derive(Debug)]
struct ClientRequest {
    at: usize,
    id: String,
    params: Option<Value>,
}

impl<'a> Server<'a> {
    /// Plays `recording`.
    pub fn new(recording: &'a Recording, settings: Settings) -> Self {
        Self {
            recording,
            index: Index::new(recording, settings.matching),
            settings,
            follows: lines::follows(recording),
            waiting: VecDeque::new(),
            next_id: 1,
            served: Served::default(),
        }
    }

    /// What to send because the client sent this line.
    pub fn line(&mut self, line: &[u8]) -> Vec<Line> {
        let mut out = Vec::new();
        if line.trim_ascii().is_empty() {
            return out;
        }
        match message::parse(line) {
            Ok(Payload::Single(parsed)) => self.message(&parsed.message, &mut out),
            Ok(Payload::Batch(batch)) => batch.for_each(|member| match member {
                Ok(parsed) => self.message(&parsed.message, &mut out),
                Err(_) => self.served.invalid += 1,
            }),
            Err(_) => {
                self.served.invalid += 1;
                let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no message"}});
                out.push(now(error.to_string()));
            }
        }
        out
    }

    /// The results.
    pub fn finish(mut self) -> Served {
        let left = self.index.left().into_iter();
        self.served.not_consumed = left
            .filter_map(|at| {
                let recorded = self.recording.messages.get(at)?;
                Some(RequestPath {
                    path: named(recorded),
                    message: Some(recorded.number),
                })
            })
            .collect();
        let served = &mut self.served;
        served.complete = served.not_consumed.is_empty() && served.not_on_tape.is_empty();
        self.served
    }

    fn message(&mut self, message: &Message<'_>, out: &mut Vec<Line>) {
        match message {
            Message::Request(request) => self.request(request, out),
            Message::Notification(notification) => {
                let at = self.index.notification(&notification.method);
                let recorded = at.and_then(|at| self.recording.messages.get(at));
                let left = at.and_then(|at| self.follows.get(&at));
                if let (Some(recorded), Some(left)) = (recorded, left) {
                    let play = PendingPlayback {
                        left: left.iter().copied().collect(),
                        client_request: None,
                        after: Duration::ZERO,
                        since: recorded.time,
                    };
                    self.play(play, out);
                }
            }
            Message::Response(response) => {
                let id: Option<u64> = response.id.and_then(|id| id.0.parse().ok());
                let at = self
                    .waiting
                    .iter()
                    .position(|(client_request, _)| Some(*client_request) == id);
                if let Some((_, mut play)) = at.and_then(|at| self.waiting.remove(at)) {
                    play.after = Duration::ZERO;
                    self.play(play, out);
                }
            }
        }
    }

    fn request(&mut self, request: &Request<'_>, out: &mut Vec<Line>) {
        self.served.requests += 1;
        let (method, id) = (request.method.as_ref(), request.id.0);
        let params = request.params;
        let params = params.and_then(|params| text::value(params, &mut Budget::of(TREE)));
        let delays = self.settings.delays.iter();
        let delay: Duration = delays
            .filter_map(|delay| delay.of(method, params.as_ref()))
            .sum();
        let mut faults = self.settings.faults.iter_mut();
        if let Some(code) = faults.find_map(|fault| fault.strikes(method, params.as_ref())) {
            self.served.failed += 1;
            // The request was made anyway.
            self.index.request(request, params.as_ref());
            out.push(Line {
                after: delay,
                text: error(id, code, "failed on purpose"),
            });
            return;
        }
        let Some(at) = self.index.request(request, params.as_ref()) else {
            self.unknown(request, params.as_ref(), delay, out);
            return;
        };
        self.served.answered += 1;
        let mut left: VecDeque<usize> = self
            .follows
            .get(&at)
            .into_iter()
            .flatten()
            .copied()
            .collect();
        let recorded = self.recording.messages.get(at);
        if let Some(answer) = recorded.and_then(TapeMessage::answer) {
            let index = left.partition_point(|other| *other < answer);
            left.insert(index, answer);
        }
        let client_request = ClientRequest {
            at,
            id: id.to_owned(),
            params,
        };
        self.play(
            PendingPlayback {
                left,
                client_request: Some(client_request),
                after: delay,
                since: recorded.map(|recorded| recorded.time).unwrap_or_default(),
            },
            out,
        );
    }

    /// Emits what is due, up to the first request that the client has to answer first.
    fn play(&mut self, mut play: PendingPlayback, out: &mut Vec<Line>) {
        let recording = self.recording;
        while let Some(at) = play.left.pop_front() {
            let Some(recorded) = recording.messages.get(at) else {
                continue;
            };
            let gap = Duration::from_nanos(recorded.time.nanos_since(play.since));
            play.after = play.after.max(self.settings.speed.wait(gap));
            let text = match &recorded.kind {
                TapeMessageKind::Response { .. } => {
                    self.answer(recorded, play.client_request.as_ref())
                }
                TapeMessageKind::Request { .. } => {
                    let id = self.next_id;
                    self.next_id += 1;
                    let line = lines::with_id(recorded, &id.to_string());
                    if let Some(text) = line {
                        out.push(Line {
                            after: play.after,
                            text,
                        });
                    }
                    let answer = recorded.answer().and_then(|at| recording.messages.get(at));
                    if let (Some(answer), false) = (answer, play.left.is_empty()) {
                        play.since = answer.time;
                        self.waiting.push_back((id, play));
                        if self.waiting.len() > MAX_WAITING {
                            self.waiting.pop_front();
                        }
                        return;
                    }
                    continue;
                }
                _ => {
                    let request = play.client_request.as_ref();
                    let old = request
                        .and_then(|client_request| recording.messages.get(client_request.at));
                    let now = request.map(|client_request| {
                        (client_request.id.as_str(), client_request.params.as_ref())
                    });
                    lines::notification(recorded, old, now)
                }
            };
            if let Some(text) = text {
                out.push(Line {
                    after: play.after,
                    text,
                });
            }
        }
    }

    /// The answer on the tape, under the client's id, with values substituted.
    fn answer(
        &self,
        recorded: &TapeMessage,
        client_request: Option<&ClientRequest>,
    ) -> Option<String> {
        let client_request = client_request?;
        let request = self.recording.messages.get(client_request.at)?;
        let method = request.method()?;
        lines::answer(recorded, &client_request.id, |answer| {
            let mut replaced = 0;
            for assignment in &self.settings.assignments {
                if assignment
                    .pattern
                    .concerns(method, client_request.params.as_ref())
                {
                    replaced += assignment.pattern.set(answer, &assignment.value);
                }
            }
            replaced > 0
        })
    }

    /// A request that the tape does not have.
    fn unknown(
        &mut self,
        request: &Request<'_>,
        params: Option<&Value>,
        after: Duration,
        out: &mut Vec<Line>,
    ) {
        let (method, id) = (request.method.as_ref(), request.id.0);
        let made_up = match method {
            "ping" => Some(json!({})),
            "initialize" if !self.index.has(method) => {
                Some(lines::greeting(self.recording, params))
            }
            _ => None,
        };
        if let Some(result) = made_up {
            self.served.answered += 1;
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
            out.push(Line { after, text });
            return;
        }
        let (code, reason) = match self.index.has(method) {
            true => (-32602, "the tape has no such request, or no more of them"),
            false => (-32601, "the tape has no request of this method"),
        };
        out.push(Line {
            after,
            text: error(id, code, reason),
        });
        if self.served.not_on_tape.len() < MAX_UNKNOWN {
            self.served.not_on_tape.push(RequestPath {
                path: lines::path(method, params),
                message: None,
            });
        } else {
            self.served.more_not_on_tape += 1;
        }
    }
}

fn now(text: String) -> Line {
    Line {
        after: Duration::ZERO,
        text,
    }
}

/// The path of a request of the tape.
fn named(recorded: &TapeMessage) -> String {
    let params = lines::params_of(recorded);
    lines::path(recorded.method().unwrap_or_default(), params.as_ref())
}

fn error(id: &str, code: i64, reason: &str) -> String {
    let error = json!({"code": code, "message": format!("mcpinspect replay: {reason}")});
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

#[cfg(test)]
mod tests;
