//! Requests to a server and their answers, several at a time if necessary.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use mcpinspect_judge::detect::json::Json;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::era::{Era, STATELESS};
use super::failure::{Category, Failure};
use super::peer::{Peer, SendOutcome};
use super::replies::{Outcome, Replies};
use super::server_messages::{ServerMessages, ServerRequest, Via};

/// Most pages of one list.
const PAGES: usize = 200;

/// How many times a request is resent because its result says that input is required.
const ROUNDS: usize = 10;

/// How long a send may be held up before incoming messages are checked.
const HELD_UP: Duration = Duration::from_millis(20);

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the server may take.
    pub patience: Patience,
    /// The capabilities that the client claims.
    pub capabilities: Value,
    /// From which severity on the server should log, if at all. Not sent in revisions with a handshake.
    pub log_level: Option<String>,
    /// Whether to ask for progress reports on calls.
    pub progress: bool,
    /// How to answer the server.
    pub replies: Replies,
}

/// How long a server may take.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// This long for each answer.
    Each(Duration),
    /// This long for everything, counted from its start.
    All(Duration),
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The request's id.
    pub id: u64,
    /// The result, as the server wrote it, or why there is none.
    pub outcome: Result<Box<RawValue>, Failure>,
}

/// A client's side of a session.
pub struct Connection<'p> {
    pub(super) peer: &'p mut dyn Peer,
    pub(super) settings: Settings,
    /// The era that is spoken; not yet known before the greeting.
    pub(super) era: Era,
    next_id: u64,
    /// The server's deadline.
    until: Duration,
    /// The methods of open requests, by id.
    pub(super) open: BTreeMap<u64, String>,
    pub(super) answers: VecDeque<Answer>,
    pub(super) outbox: VecDeque<String>,
    /// Why the last notification or reply did not arrive, if known.
    pub(super) undelivered: Option<Failure>,
    /// What was received besides the answers.
    pub server_messages: ServerMessages,
}

impl<'p> Connection<'p> {
    /// Speaks to `peer`. Nothing is sent before the greeting.
    pub fn new(peer: &'p mut dyn Peer, settings: Settings) -> Self {
        Self {
            peer,
            settings,
            era: Era::Legacy,
            next_id: 1,
            until: Duration::ZERO,
            open: BTreeMap::new(),
            answers: VecDeque::new(),
            outbox: VecDeque::new(),
            undelivered: None,
            server_messages: ServerMessages::default(),
        }
    }

    /// Changes how long the server may take, from the next request on.
    pub fn set_patience(&mut self, patience: Patience) {
        self.settings.patience = patience;
    }

    /// Sends a request, and waits for its result.
    ///
    /// # Errors
    /// The server refused it, did not answer in time, or is gone.
    pub fn request(
        &mut self,
        method: &str,
        params: Map<String, Value>,
    ) -> Result<Box<RawValue>, Failure> {
        let id = self.send(method, params)?;
        let answer = self.wait(&[id], self.until)?;
        let Some(answer) = answer else {
            self.give_up(id);
            return Err(self.late(method));
        };
        answer.outcome
    }

    /// Sends a request, and resends it with the input that the server says it requires.
    ///
    /// # Errors
    /// As [`Connection::request`]; or there is no answer to what the server asks.
    pub fn call(
        &mut self,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Box<RawValue>, Failure> {
        let mut input = Map::new();
        for _ in 0..ROUNDS {
            let mut params = params.clone();
            params.append(&mut input);
            self.ask_for_progress(method, &mut params);
            let result = self.request(method, params)?;
            if self.era == Era::Legacy {
                return Ok(result);
            }
            let value = tree(&result);
            if value.get("resultType").and_then(Value::as_str) != Some("input_required") {
                return Ok(result);
            }
            input = self.required(value)?;
        }
        Err(Failure::new(
            Category::Protocol,
            "input_required",
            format!("the server asked for input {ROUNDS} times in a row"),
        ))
    }

    /// Requests progress reports, if a server may have something to do.
    fn ask_for_progress(&self, method: &str, params: &mut Map<String, Value>) {
        let may_take_time = matches!(method, "tools/call" | "resources/read" | "prompts/get");
        if !self.settings.progress || !may_take_time {
            return;
        }
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        if let Value::Object(meta) = meta {
            let token = meta.entry("progressToken");
            token.or_insert_with(|| self.next_id.into());
        }
    }

    /// The answer to a result that says `input_required`.
    fn required(&mut self, result: Value) -> Result<Map<String, Value>, Failure> {
        let mut responses = Map::new();
        let requests = result.get("inputRequests").and_then(Value::as_object);
        for (key, request) in requests.into_iter().flatten() {
            let method = request.get("method").and_then(Value::as_str);
            let method = method.unwrap_or_default();
            let reply = self.settings.replies.to(method);
            let (name, value) = reply.outcome.member();
            self.server_messages.add_request(ServerRequest {
                method: method.to_owned(),
                params: request.get("params").cloned().unwrap_or_default(),
                via: Via::InputRequired,
                scripted: reply.is_scripted,
                answer: json!({ name: value }),
            });
            match reply.outcome {
                Outcome::Result(value) => responses.insert(key.clone(), value),
                // A response of this kind can only be a result.
                Outcome::Error(_) => {
                    return Err(Failure::new(
                        Category::Capability,
                        "input_required",
                        format!(
                            "the server sent a `{method}` request, and no answer to it was given"
                        ),
                    )
                    .with(json!({ "method": method, "result": result })));
                }
            };
        }
        let mut input = Map::new();
        if !responses.is_empty() {
            input.insert("inputResponses".to_owned(), Value::Object(responses));
        }
        if let Some(state) = result.get("requestState") {
            input.insert("requestState".to_owned(), state.clone());
        }
        Ok(input)
    }

    /// Adds the results of all pages of a list to `pages`.
    ///
    /// # Errors
    /// As [`Connection::request`]; or the list does not end. Pages before the failure are kept.
    pub fn pages(
        &mut self,
        method: &str,
        params: &Map<String, Value>,
        pages: &mut Vec<Box<RawValue>>,
    ) -> Result<(), Failure> {
        let mut seen = HashSet::new();
        let mut params = params.clone();
        for _ in 0..PAGES {
            let page = self.request(method, params.clone())?;
            let next = tree(&page);
            let next = next.get("nextCursor").and_then(Value::as_str);
            let next = next.map(str::to_owned);
            pages.push(page);
            match next {
                Some(next) if seen.insert(next.clone()) => {
                    params.insert("cursor".to_owned(), next.into());
                }
                _ => return Ok(()),
            }
        }
        Err(Failure::new(
            Category::Protocol,
            "endless_list",
            format!("the server's `{method}` has more than {PAGES} pages"),
        ))
    }

    /// Sends a request without waiting, and returns its id.
    ///
    /// # Errors
    /// The server does not read, or is gone.
    pub fn send(&mut self, method: &str, mut params: Map<String, Value>) -> Result<u64, Failure> {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Modern {
            self.introduce(&mut params);
        }
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.outbox.push_back(line.to_string());
        self.until = self.deadline();
        self.open.insert(id, method.to_owned());
        self.flush()?;
        Ok(id)
    }

    /// The deadline for what is sent now.
    fn deadline(&self) -> Duration {
        match self.settings.patience {
            Patience::Each(time) => self.peer.elapsed().saturating_add(time),
            Patience::All(time) => time,
        }
    }

    /// Sends a notification, and waits until it has arrived, if that can be known.
    ///
    /// # Errors
    /// As [`Connection::send`]; or the server did not accept it.
    pub fn deliver(&mut self, method: &str, params: &Map<String, Value>) -> Result<(), Failure> {
        self.until = self.deadline();
        self.undelivered = None;
        self.notify(method, params)?;
        if !self.peer.is_sending() {
            return Ok(());
        }
        while self.peer.is_sending() {
            if self.peer.elapsed() >= self.until {
                return Err(self.late(method));
            }
            self.take_in(HELD_UP)?;
        }
        // The reason why it did not arrive may come after other things.
        self.listen(HELD_UP)?;
        self.undelivered.take().map_or(Ok(()), Err)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn notify(&mut self, method: &str, params: &Map<String, Value>) -> Result<(), Failure> {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if !params.is_empty() {
            message["params"] = Value::Object(params.clone());
        }
        self.outbox.push_back(message.to_string());
        self.flush()
    }

    /// States the sender in a request, as required by revisions without a handshake. Existing members stay.
    fn introduce(&self, params: &mut Map<String, Value>) {
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        let Value::Object(meta) = meta else {
            return;
        };
        let mut add = |name: &str, value: Value| {
            let name = format!("io.modelcontextprotocol/{name}");
            meta.entry(name).or_insert(value);
        };
        add("protocolVersion", STATELESS.into());
        add("clientInfo", client_info());
        add("clientCapabilities", self.settings.capabilities.clone());
        if let Some(level) = &self.settings.log_level {
            add("logLevel", level.as_str().into());
        }
    }

    /// Waits for the answer to one of these requests; `None` once the time is up.
    ///
    /// # Errors
    /// The server is gone, or does not read.
    pub fn wait(&mut self, ids: &[u64], until: Duration) -> Result<Option<Answer>, Failure> {
        loop {
            let arrived = self.answers.iter();
            let arrived = arrived.take_while(|answer| !ids.contains(&answer.id));
            let at = arrived.count();
            if let Some(answer) = self.answers.remove(at) {
                return Ok(Some(answer));
            }
            self.flush()?;
            let left = until.saturating_sub(self.peer.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            self.take_in(left)?;
        }
    }

    /// Takes what comes for this long, without waiting for anything in particular.
    ///
    /// # Errors
    /// As [`Connection::wait`].
    pub fn listen(&mut self, time: Duration) -> Result<(), Failure> {
        let until = self.peer.elapsed().saturating_add(time);
        self.wait(&[], until).map(|_| ())
    }

    /// The deadline of the last request.
    pub fn until(&self) -> Duration {
        self.until
    }

    /// Time since the server was started.
    pub fn elapsed(&self) -> Duration {
        self.peer.elapsed()
    }

    /// Stops waiting for an answer, and tells the server.
    pub fn give_up(&mut self, id: u64) {
        self.open.remove(&id);
        let params = json!({ "requestId": id, "reason": "the answer takes too long" });
        if let Value::Object(params) = params {
            // A server that does not read this either is about to be stopped.
            let _ = self.notify("notifications/cancelled", &params);
        }
    }

    /// The failure of a request that was not answered in time.
    pub fn late(&self, method: &str) -> Failure {
        let time = match self.settings.patience {
            Patience::Each(time) | Patience::All(time) => time.as_secs_f64(),
        };
        Failure::new(
            Category::Transport,
            "timeout",
            format!("the server did not answer `{method}` within {time} s"),
        )
        .with(json!({ "method": method, "seconds": time }))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        while let Some(line) = self.outbox.front() {
            match self.peer.send(line) {
                SendOutcome::Queued => {
                    self.outbox.pop_front();
                }
                SendOutcome::Closed => return Err(self.gone()),
                SendOutcome::Full if self.peer.elapsed() >= self.until => {
                    return Err(Failure::new(
                        Category::Transport,
                        "timeout",
                        "the server does not read its input",
                    ));
                }
                SendOutcome::Full => self.take_in(HELD_UP)?,
            }
        }
        Ok(())
    }

    pub(super) fn gone(&mut self) -> Failure {
        self.peer.end().failure()
    }

    /// Tells the transport about a tool that is about to be called.
    pub fn learn(&mut self, tool: &Value) {
        self.peer.learn(tool);
    }
}

/// How this program introduces itself.
pub(super) fn client_info() -> Value {
    json!({ "name": "mcpinspect", "version": env!("CARGO_PKG_VERSION") })
}

/// JSON text as a tree, read as leniently as clients read it.
pub fn tree(raw: &RawValue) -> Value {
    Json::from_raw(raw).into()
}
