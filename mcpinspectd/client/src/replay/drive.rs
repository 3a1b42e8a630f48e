//! The client's side of a tape, played to a server.
//!
//! The tape is followed in order. What the client said is sent; where the tape has an answer, it waits for the
//! server's, so that nothing is asked before the client knew what it needed to ask it. What
//! the server wants to know in between is answered as on the tape, whenever it asks.
//!
//! The server may be broken or hostile, so everything it decides has a limit: each request has a timeout, a
//! server that stays silent three times is given up, and so is one that sends too much unasked or does
//! not read.

mod answers;
mod handshake;
mod messages;
mod waiting;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use mcpinspect_core::json_path::{Assignment, glob};
use mcpinspect_core::model::Direction;
use serde_json::Value;

use super::compare::{Differences, Rules};
use super::envelope::{self, CANCELLED, Renamed};
use super::recording::{Recording, TapeMessage, TapeMessageKind};
use super::report::{Report, Substitution};
use super::speed::Speed;
use crate::peer::Peer;

/// The request that begins a session with state.
const INITIALIZE: &str = "initialize";

/// What a client says once it knows the answer.
const INITIALIZED: &str = "notifications/initialized";

/// What belongs to the handshake of any revision.
const HANDSHAKE: [&str; 3] = [INITIALIZE, INITIALIZED, "server/discover"];

/// Stands for the method of something that is not a message.
const NO_MESSAGE: &str = "(no message)";

/// How to replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How fast.
    pub speed: Speed,
    /// How long an answer may take.
    pub timeout: Duration,
    /// What to substitute in parameters.
    pub assignments: Vec<Assignment>,
    /// Methods to send, with wildcards; if empty, all.
    pub only: Vec<String>,
    /// Methods not to send, with wildcards.
    pub skip: Vec<String>,
    /// What to compare.
    pub rules: Rules,
}

/// Replays the client's side of `recording`.
///
/// # Errors
/// In words: the server did not answer anything.
pub fn drive(
    recording: &Recording,
    settings: &Settings,
    peer: &mut dyn Peer,
) -> Result<Report, String> {
    let mut driver = Driver::new(recording, settings, peer);
    driver.play()?;
    if let (Some(stopped), 0) = (&driver.stopped, driver.report.answers) {
        return Err(stopped.clone());
    }
    Ok(driver.finish())
}

/// Messages that the server sends of its own accord, by method.
#[derive(Clone, Copy, Debug, Default)]
struct MessageCount {
    on_tape: u64,
    now: u64,
}

struct Driver<'a> {
    recording: &'a Recording,
    settings: &'a Settings,
    peer: &'a mut dyn Peer,
    next_id: u64,
    /// Open requests, by id.
    open: HashMap<u64, ReplayedRequest>,
    /// Their ids, by a request's position on the tape.
    ids: HashMap<usize, u64>,
    cancelled: HashSet<u64>,
    renamed: Renamed,
    /// Requests of the server on the tape, by method.
    answers: HashMap<&'a str, VecDeque<usize>>,
    /// Requests and notifications of the server, by method.
    counts: BTreeMap<(String, bool), MessageCount>,
    outbox: VecDeque<String>,
    /// Unrequested messages and bytes.
    unasked: (u64, u64),
    /// Consecutive requests that were not answered.
    silent: u32,
    stopped: Option<String>,
    found: Differences,
    report: Report,
}

/// A request waiting for its answer.
struct ReplayedRequest {
    /// Its position on the tape; `None` for a handshake that the tape does not have.
    at: Option<usize>,
    params: Option<Value>,
    sent: Duration,
    /// Why no answer will come, once that is known.
    failed: Option<String>,
}

impl ReplayedRequest {
    /// A request sent now.
    fn now(at: Option<usize>, params: Option<Value>, sent: Duration) -> Self {
        Self {
            at,
            params,
            sent,
            failed: None,
        }
    }
}

impl<'a> Driver<'a> {
    fn new(recording: &'a Recording, settings: &'a Settings, peer: &'a mut dyn Peer) -> Self {
        let mut answers: HashMap<&str, VecDeque<usize>> = HashMap::new();
        let mut counts: BTreeMap<(String, bool), MessageCount> = BTreeMap::new();
        for (at, recorded) in recording.messages.iter().enumerate() {
            if recorded.direction == Direction::ClientToServer {
                continue;
            }
            let is_request = matches!(recorded.kind, TapeMessageKind::Request { .. });
            if let Some(method) = recorded.method() {
                let count = counts.entry((method.to_owned(), is_request)).or_default();
                count.on_tape += 1;
                if is_request {
                    answers.entry(method).or_default().push_back(at);
                }
            } else if recorded.kind == TapeMessageKind::Invalid {
                let count = counts.entry((NO_MESSAGE.to_owned(), false));
                count.or_default().on_tape += 1;
            }
        }
        let substitution = |assignment: &Assignment| Substitution {
            path: assignment.pattern.to_string(),
            places: 0,
        };
        let report = Report {
            server_id: recording.header.server_id.clone(),
            messages: recording.messages.len() as u64,
            substitutions: settings.assignments.iter().map(substitution).collect(),
            ..Report::default()
        };
        Self {
            recording,
            settings,
            peer,
            next_id: 1,
            open: HashMap::new(),
            ids: HashMap::new(),
            cancelled: HashSet::new(),
            renamed: Renamed::default(),
            answers,
            counts,
            outbox: VecDeque::new(),
            unasked: (0, 0),
            silent: 0,
            stopped: None,
            found: Differences::default(),
            report,
        }
    }

    fn play(&mut self) -> Result<(), String> {
        let has_greeted = self.needs_handshake();
        if has_greeted {
            self.handshake()?;
        }
        let recording = self.recording;
        let mut before = recording.messages.first().map(|recorded| recorded.time);
        for (at, recorded) in recording.messages.iter().enumerate() {
            let gap = before.map_or(0, |before| recorded.time.nanos_since(before));
            before = Some(recorded.time);
            match (recorded.direction, &recorded.kind) {
                (Direction::ClientToServer, TapeMessageKind::Request { method, .. })
                    if !self.is_over() && self.is_chosen(method) =>
                {
                    self.pace(Duration::from_nanos(gap));
                    self.request(at, recorded);
                }
                (Direction::ClientToServer, TapeMessageKind::Request { .. }) => {
                    self.report.not_sent += 1
                }
                (Direction::ClientToServer, TapeMessageKind::Notification { method })
                    if !self.is_over()
                        && self.is_chosen(method)
                        && !(has_greeted && &**method == INITIALIZED) =>
                {
                    self.pace(Duration::from_nanos(gap));
                    self.notification(recorded);
                }
                (
                    Direction::ServerToClient,
                    TapeMessageKind::Response {
                        request: Some(request),
                    },
                ) => self.wait(*request)?,
                _ => {}
            }
        }
        self.settle();
        Ok(())
    }

    /// Whether to send messages of this method. The handshake is sent, unless it is excluded by name.
    fn is_chosen(&self, method: &str) -> bool {
        let among = |globs: &[String]| globs.iter().any(|pattern| glob(pattern, method));
        if HANDSHAKE.contains(&method) {
            return !self.settings.skip.iter().any(|name| name == method);
        }
        (self.settings.only.is_empty() || among(&self.settings.only)) && !among(&self.settings.skip)
    }

    fn is_over(&self) -> bool {
        self.stopped.is_some()
    }

    fn request(&mut self, at: usize, recorded: &TapeMessage) {
        let TapeMessageKind::Request { id: old, .. } = &recorded.kind else {
            return;
        };
        let id = self.next_id;
        self.next_id += 1;
        let Some(params) = self.say(recorded, Some(id)) else {
            return;
        };
        self.renamed.id(old, id);
        self.ids.insert(at, id);
        self.report.requests += 1;
        let pending = ReplayedRequest::now(Some(at), params, self.peer.elapsed());
        self.open.insert(id, pending);
        self.flush();
    }

    fn notification(&mut self, recorded: &TapeMessage) {
        let params = self.say(recorded, None).flatten();
        if recorded.method() == Some(CANCELLED)
            && let Some(id) = params
                .as_ref()
                .and_then(|params| params.get("requestId")?.as_u64())
        {
            self.cancelled.insert(id);
        }
        self.flush();
    }

    /// Puts a message of the tape into the outbox, and returns its parameters, if they could be read.
    fn say(&mut self, recorded: &TapeMessage, id: Option<u64>) -> Option<Option<Value>> {
        let message = recorded.message()?;
        let assignments = &self.settings.assignments;
        let outgoing =
            envelope::outgoing(&recorded.text, &message, id, assignments, &self.renamed)?;
        let applied = self.report.substitutions.iter_mut().zip(outgoing.places);
        for (substitution, places) in applied {
            substitution.places += places as u64;
        }
        self.outbox.push_back(outgoing.line);
        Some(outgoing.params)
    }

    /// Whether the server was given every reason to say what it said on the tape.
    fn everything_was_asked(&self) -> bool {
        self.settings.only.is_empty() && self.settings.skip.is_empty() && self.stopped.is_none()
    }

    fn finish(mut self) -> Report {
        if self.everything_was_asked() {
            self.compare_counts();
        }
        let recording = self.recording;
        let note = |notes: &mut Vec<String>, count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        let mut report = self.report;
        let notes = &mut report.notes;
        note(
            notes,
            recording.without_text,
            "messages of the tape have no text",
        );
        let masked = |(_, recorded): &(usize, &TapeMessage)| recorded.is_masked;
        let sent = recording.requests(Direction::ClientToServer);
        let masked = sent.filter(masked).count() as u64;
        match recording.header.is_anonymised {
            true => notes.push("the tape is anonymised: its values are placeholders".into()),
            false => note(
                notes,
                masked,
                "requests of the tape have masked secrets in them",
            ),
        }
        (report.differences, report.more_differences) = self.found.sorted();
        report.stopped = self.stopped;
        report.same = report.differences.is_empty() && report.stopped.is_none();
        report
    }
}

#[cfg(test)]
mod tests;
