//! Who talks to whom, and which response answers which request.
//!
//! A session is one client and one server on one pair of streams. Both may send requests: an id belongs
//! to the side that chose it, so requests in flight are kept by direction. What an answer means depends
//! on the request that it answers (a result does not say that it is a list of tools). So this is where
//! messages become something that the registry and detection can work with.
//!
//! - [`in_flight`]: requests that wait for their answer
//! - [`chains`]: calls that take several requests
//! - [`correlation`]: how an answer relates to its request
//! - [`latency`]: how long answers take, as a histogram
//! - [`id`]: ids as keys
//! - [`identity`]: who the parties say they are
//! - [`listing`]: pages assembled into listings

pub mod chains;
pub mod correlation;
pub mod id;
pub mod identity;
pub mod in_flight;
pub mod latency;
pub mod listing;

use std::sync::Arc;

pub use correlation::Correlation;
pub use identity::DeclaredIdentity;
pub use in_flight::{DEFAULT_MAX_IN_FLIGHT, InFlight, PendingRequest};

use self::chains::{Chains, Continues, OpenCall};
use self::id::IdKey;
use crate::mcp::method::MethodName;
use crate::mcp::view::{Params, ServerResult};
use crate::mcp::{Id, Message, Outcome, json};
use crate::model::{Direction, Timestamp};

/// Length to which a tool's name is cut in its calls, in bytes.
const MAX_TOOL_NAME: usize = 256;

/// One client talking to one server.
#[derive(Debug)]
pub struct Session {
    from_client: InFlight,
    from_server: InFlight,
    identity: DeclaredIdentity,
    announced: Option<DeclaredIdentity>,
    chains: Chains,
    /// Whether requests may have been missed.
    may_miss_requests: bool,
    /// Messages so far, in both directions together.
    messages: u64,
}

/// The exchange that a message belongs to. Numbers are those of [`Session::count_message`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The tool that is called, or whose call is answered.
    pub tool: Option<Arc<str>>,
    /// The request that this response answers.
    pub answers: Option<AnsweredRequest>,
    /// How this response relates to the request that it names.
    pub correlation: Option<Correlation>,
    /// The number of the message whose request this notification cancels or reports progress of.
    pub concerns: Option<u64>,
    /// The number of the message with the first request of a call that takes several, on the later
    /// requests and their responses.
    pub call: Option<u64>,
    /// Nanoseconds from the request to this response.
    pub latency_ns: Option<u64>,
    /// Whether it is an error, the protocol's or a tool's.
    pub is_error: bool,
}

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// Its method.
    pub method: MethodName,
    /// The number of its message.
    pub sequence: u64,
}

impl Exchange {
    /// The method of the request that this response answers.
    pub fn reply_to(&self) -> Option<&str> {
        self.answers.as_ref().map(|request| &*request.method)
    }
}

/// What a message means in its session.
#[derive(Debug, Default)]
pub struct Observed<'a> {
    /// Its exchange.
    pub exchange: Exchange,
    /// Whether a request continues a call with a `requestState` other than the one the server issued.
    pub altered_state: bool,
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
            chains: Chains::default(),
            may_miss_requests: joined_midstream,
            messages: 0,
        }
    }

    /// Who the parties say they are.
    pub fn identity(&self) -> &DeclaredIdentity {
        &self.identity
    }

    /// Counts the next observed message; a batch counts as one. Returns its number, from 1.
    pub fn count_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// Messages counted so far.
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

    /// The requests in flight, in no particular order, with their direction.
    pub fn requests(&self) -> impl Iterator<Item = (Direction, &PendingRequest)> {
        let from_client = self.from_client.iter();
        let from_server = self.from_server.iter();
        from_client
            .map(|request| (Direction::ClientToServer, request))
            .chain(from_server.map(|request| (Direction::ServerToClient, request)))
    }

    /// Marks requests about which nothing was heard for `patience` nanoseconds until `now`, and hands
    /// each to `note`, once. Their answers still find them.
    ///
    /// A server that asks its client something in the meantime is not late: it is waiting itself.
    pub fn overdue(
        &mut self,
        now: Timestamp,
        patience: u64,
        mut note: impl FnMut(Direction, &PendingRequest),
    ) {
        self.from_server.overdue(now, patience, |_, request| {
            note(Direction::ServerToClient, request);
        });
        if self.from_server.expects_answers() {
            self.from_client.hear_all(now);
        }
        self.from_client.overdue(now, patience, |_, request| {
            note(Direction::ClientToServer, request);
        });
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
            Message::Notification(notification) => Observed {
                exchange: Exchange {
                    concerns: self.notification(direction, notification, time),
                    ..Exchange::default()
                },
                ..Observed::default()
            },
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

    /// Takes in a notification. Returns the number of the message with the request that it concerns.
    fn notification(
        &mut self,
        direction: Direction,
        notification: &crate::mcp::message::Notification<'_>,
        time: Timestamp,
    ) -> Option<u64> {
        let params = || notification.params.map(Params::read);
        let request = match &*notification.method {
            "notifications/cancelled" => {
                let id = Id::from_raw(params()?.request_id?)?;
                self.asked_by(direction).cancel(&IdKey::new(id))
            }
            "notifications/progress" => {
                let token = Id::from_raw(params()?.progress_token?)?;
                let asked = self.asked_by(direction.reverse());
                asked.progress(&IdKey::new(token), time)
            }
            _ => None,
        };
        request.map(|request| request.sequence)
    }

    fn request<'a>(
        &mut self,
        direction: Direction,
        request: &crate::mcp::message::Request<'a>,
        time: Timestamp,
    ) -> Observed<'a> {
        let params = request.params.map(Params::read);
        let method = MethodName::new(&request.method);
        let mut pending = PendingRequest::new(method, time, self.messages);
        let meta = params.as_ref().and_then(|params| params.meta.as_ref());
        pending.progress_token = meta
            .and_then(|meta| meta.progress_token)
            .and_then(Id::from_raw)
            .map(IdKey::new);
        let mut altered_state = false;
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
                altered_state = self.continues(&state, &mut pending);
            }
        }
        let exchange = Exchange {
            tool: pending.tool.clone(),
            call: (pending.retries > 0).then_some(pending.first),
            ..Exchange::default()
        };
        self.asked_by(direction)
            .insert(IdKey::new(request.id), pending);
        Observed {
            exchange,
            params,
            altered_state,
            ..Observed::default()
        }
    }

    /// Makes a request that came with `state` part of the call that it continues. Returns whether the
    /// state was altered.
    fn continues(&mut self, state: &IdKey, pending: &mut PendingRequest) -> bool {
        let tool = pending.tool.as_deref();
        let (call, altered) = match self.chains.continued(state, &pending.method, tool) {
            Continues::Call(call) => (Some(call), false),
            // The result with this very state may be among what was not seen.
            Continues::Altered(call) => (Some(call), !self.may_miss_requests),
            Continues::Unknown => (None, false),
        };
        pending.retries = call.as_ref().map_or(0, |call| call.retries) + 1;
        pending.first = call.map_or(pending.first, |call| call.first);
        altered
    }

    fn response<'a>(
        &mut self,
        direction: Direction,
        response: &crate::mcp::message::Response<'a>,
        time: Timestamp,
    ) -> Observed<'a> {
        let may_miss_requests = self.may_miss_requests;
        let id = response.id.map(IdKey::new);
        let asked = self.asked_by(direction.reverse());
        let answers = id.as_ref().and_then(|id| asked.take(id));
        let correlation = match (&answers, &id) {
            (Some(request), _) if request.cancelled => Correlation::Cancelled,
            (Some(request), _) if request.overdue => Correlation::Late,
            (Some(_), _) => Correlation::Answer,
            (None, Some(id)) if asked.was_answered(id) => Correlation::Duplicate,
            (None, Some(_)) if may_miss_requests || asked.has_forgotten() => Correlation::Unknown,
            (None, Some(_)) => Correlation::Orphan,
            // An error about a message that could not be read has no id to repeat.
            (None, None) => Correlation::Unknown,
        };
        let mut observed = Observed::default();
        observed.exchange.is_error = matches!(response.outcome, Outcome::Error(_));
        observed.exchange.correlation = Some(correlation);
        if let (Outcome::Result(raw), Direction::ServerToClient) = (response.outcome, direction) {
            self.server_result(ServerResult::read(raw), answers.as_ref(), &mut observed);
        }
        if let Some(request) = answers {
            let exchange = &mut observed.exchange;
            exchange.latency_ns = Some(time.nanos_since(request.time));
            exchange.call = (request.retries > 0).then_some(request.first);
            exchange.tool = request.tool;
            exchange.answers = Some(AnsweredRequest {
                method: request.method,
                sequence: request.sequence,
            });
        }
        observed
    }

    fn server_result<'a>(
        &mut self,
        result: ServerResult<'a>,
        answers: Option<&PendingRequest>,
        observed: &mut Observed<'a>,
    ) {
        observed.exchange.is_error |= result.is_error;
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
        if let (Some("input_required"), Some(state), Some(request)) =
            (result.result_type.as_deref(), state, answers)
        {
            let call = OpenCall {
                method: request.method.clone(),
                tool: request.tool.clone(),
                first: request.first,
                retries: request.retries,
            };
            self.chains.issued(state, call);
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
