//! Who talks to whom, and which response answers which request.
//!
//! A session is one client and one server on one pair of streams. Both may send requests: an id belongs
//! to the side that chose it, so requests in flight are kept by direction. What an answer means depends
//! on the request that it answers (a result does not say that it is a list of tools). So this is where
//! messages become something that the registry and detection can work on.
//!
//! - [`in_flight`]: requests that wait for their answer
//! - [`id`]: ids as keys
//! - [`identity`]: who the parties say they are
//! - [`listing`]: pages assembled into listings

pub mod id;
pub mod identity;
pub mod in_flight;
pub mod listing;

use std::collections::HashMap;
use std::sync::Arc;

pub use identity::DeclaredIdentity;
pub use in_flight::{DEFAULT_MAX_IN_FLIGHT, InFlight, PendingRequest};

use self::id::IdKey;
use crate::mcp::method::MethodName;
use crate::mcp::view::{Params, ServerResult};
use crate::mcp::{Id, Message, Outcome, json};
use crate::model::{Direction, Timestamp};

/// Length to which a tool's name is cut in its calls, in bytes.
const MAX_TOOL_NAME: usize = 256;

/// Most results that are remembered as waiting for more input.
const MAX_WAITING: usize = 1024;

/// One client talking to one server.
#[derive(Debug)]
pub struct Session {
    from_client: InFlight,
    from_server: InFlight,
    identity: DeclaredIdentity,
    announced: Option<DeclaredIdentity>,
    /// `requestState` of results that asked for more input, with the number of retries.
    waiting: HashMap<IdKey, u16>,
    /// Whether requests may have been missed.
    may_miss_requests: bool,
    /// Messages so far, those of both directions together.
    messages: u64,
}

/// What a message means in its session.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// The tool that is called, or whose call is answered.
    pub tool: Option<Arc<str>>,
    /// The request that this response answers.
    pub answers: Option<PendingRequest>,
    /// Nanoseconds from that request to this response.
    pub latency_ns: Option<u64>,
    /// Whether it is an error, of the protocol or of a tool.
    pub is_error: bool,
    /// Whether [`Session::identity`] has changed.
    pub identified: bool,
    /// The parameters, if they were read.
    pub params: Option<Params<'a>>,
    /// The result, if it was read.
    pub result: Option<ServerResult<'a>>,
    /// If `result` is a page of tools, which page.
    pub page: Option<Page>,
    /// Whether the server introduces itself and instructs the model in `result`.
    pub introduces: bool,
}

/// Which page of a list a result is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The first.
    First,
    /// The one that starts at this cursor.
    At(IdKey),
    /// Unknown, because its request was not seen.
    Unknown,
}

impl Session {
    /// A session that keeps at most `max_in_flight` requests per direction. `joined_midstream` means that
    /// it began before it was captured.
    pub fn new(max_in_flight: usize, joined_midstream: bool) -> Self {
        Self {
            from_client: InFlight::new(max_in_flight),
            from_server: InFlight::new(max_in_flight),
            identity: DeclaredIdentity::default(),
            announced: None,
            waiting: HashMap::new(),
            may_miss_requests: joined_midstream,
            messages: 0,
        }
    }

    /// Who the parties say they are.
    pub fn identity(&self) -> &DeclaredIdentity {
        &self.identity
    }

    /// Counts the message that is observed next; a batch counts as one. Returns its number, from 1.
    pub fn count_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// Messages that were counted.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Notes that messages were lost: answers may come to requests that were not seen.
    pub fn gap(&mut self) {
        self.may_miss_requests = true;
    }

    /// Requests of both sides without an answer so far.
    pub fn unanswered(&self) -> u64 {
        self.from_client.unanswered() + self.from_server.unanswered()
    }

    /// Requests of both sides in flight.
    pub fn in_flight(&self) -> usize {
        self.from_client.len() + self.from_server.len()
    }

    /// Takes in one message.
    pub fn observe<'a>(
        &mut self,
        direction: Direction,
        message: &Message<'a>,
        time: Timestamp,
    ) -> Observed<'a> {
        match message {
            Message::Request(request) => self.request(direction, request, time),
            Message::Notification(notification) => {
                if notification.method == "notifications/cancelled" {
                    let id = notification
                        .params
                        .map(Params::read)
                        .and_then(|params| params.request_id);
                    if let Some(id) = id.and_then(Id::from_raw) {
                        self.asked_by(direction).cancel(&IdKey::new(id));
                    }
                }
                Observed::default()
            }
            Message::Response(response) => self.response(direction, response, time),
        }
    }

    /// The requests that travel in `direction`.
    fn asked_by(&mut self, direction: Direction) -> &mut InFlight {
        match direction {
            Direction::ClientToServer => &mut self.from_client,
            Direction::ServerToClient => &mut self.from_server,
        }
    }

    fn request<'a>(
        &mut self,
        direction: Direction,
        request: &crate::mcp::message::Request<'a>,
        time: Timestamp,
    ) -> Observed<'a> {
        let params = request.params.map(Params::read);
        let mut pending = PendingRequest {
            method: MethodName::new(&request.method),
            tool: None,
            time,
            cursor: None,
            retries: 0,
            cancelled: false,
            sequence: self.messages,
        };
        if let (Direction::ClientToServer, Some(params)) = (direction, &params) {
            match &*pending.method {
                "initialize" => self.identity.initialize_request(params),
                "tools/call" => {
                    pending.tool = params
                        .name
                        .as_deref()
                        .map(|name| json::cut(name, MAX_TOOL_NAME).into());
                }
                "tools/list" => pending.cursor = params.cursor.and_then(IdKey::of_string),
                _ => {}
            }
            if let Some(meta) = &params.meta {
                self.identity.request_meta(meta);
            }
            if let Some(state) = params.request_state.and_then(IdKey::of_string) {
                let before = self.waiting.remove(&state);
                pending.retries = before.unwrap_or(0).saturating_add(1);
            }
        }
        let tool = pending.tool.clone();
        self.asked_by(direction)
            .insert(IdKey::new(request.id), pending);
        Observed {
            tool,
            params,
            ..Observed::default()
        }
    }

    fn response<'a>(
        &mut self,
        direction: Direction,
        response: &crate::mcp::message::Response<'a>,
        time: Timestamp,
    ) -> Observed<'a> {
        let asked_by = direction.reverse();
        let answers = response
            .id
            .and_then(|id| self.asked_by(asked_by).take(&IdKey::new(id)));
        let mut observed = Observed {
            tool: answers.as_ref().and_then(|request| request.tool.clone()),
            latency_ns: answers
                .as_ref()
                .map(|request| time.nanos_since(request.time)),
            is_error: matches!(response.outcome, Outcome::Error(_)),
            ..Observed::default()
        };
        if let (Outcome::Result(raw), Direction::ServerToClient) = (response.outcome, direction) {
            self.server_result(ServerResult::read(raw), answers.as_ref(), &mut observed);
        }
        observed.answers = answers;
        observed
    }

    fn server_result<'a>(
        &mut self,
        result: ServerResult<'a>,
        answers: Option<&PendingRequest>,
        observed: &mut Observed<'a>,
    ) {
        observed.is_error |= result.is_error;
        match answers.map(|request| &*request.method) {
            Some("initialize") => {
                self.identity.initialize_result(&result);
                observed.introduces = true;
            }
            Some("server/discover") => observed.introduces = true,
            Some("tools/list") if result.tools.is_some() => {
                let cursor = answers.and_then(|request| request.cursor.clone());
                observed.page = Some(cursor.map_or(Page::First, Page::At));
            }
            None if self.may_miss_requests || self.from_client.has_forgotten() => {
                // Its request was not seen, so its shape has to do.
                if result.protocol_version.is_some() && result.server_info.is_some() {
                    self.identity.initialize_result(&result);
                    observed.introduces = true;
                }
                if result.tools.is_some() {
                    observed.page = Some(Page::Unknown);
                }
            }
            // It answers no request, so every client ignores it.
            None => return,
            Some(_) => {}
        }
        let state = result.request_state.and_then(IdKey::of_string);
        if let (Some("input_required"), Some(state)) = (result.result_type.as_deref(), state) {
            // An attacker can fill this table with states that never come back; honest retries are quick.
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.clear();
            }
            self.waiting
                .insert(state, answers.map_or(0, |request| request.retries));
        }
        self.identity.stateless_result(&result);
        observed.identified = self.has_news(&result);
        observed.result = Some(result);
    }

    /// Whether the parties are known, and differ from what was announced before.
    fn has_news(&mut self, result: &ServerResult<'_>) -> bool {
        let stateful = result.server_info.is_some() && result.protocol_version.is_some();
        let known = stateful || self.identity.stateless || self.identity.server_info.is_some();
        if !known || self.announced.as_ref() == Some(&self.identity) {
            return false;
        }
        self.announced = Some(self.identity.clone());
        true
    }
}

impl Page {
    /// The page that starts at `next`, a `nextCursor`.
    pub fn at(next: &str) -> Self {
        Self::At(IdKey::of_text(next))
    }
}

#[cfg(test)]
mod tests;
