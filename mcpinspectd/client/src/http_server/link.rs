//! What a session remembers, and the way of a message to the server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::failure::Failure;
use crate::peer::Received;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::task::AbortHandle;

use super::client::Client;
use super::endpoint::Endpoint;
use super::failure::transport;
use super::outgoing::{Outgoing, Tools};

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";

pub(super) const EVENTS: &str = "text/event-stream";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_EVENTS: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// A session with a server.
pub struct Link {
    pub(super) client: Client,
    pub(super) endpoint: Endpoint,
    pub(super) inbox: Sender<Received>,
    /// Held while determining whether the server speaks the older transport.
    pub(super) finding_out: tokio::sync::Mutex<()>,
    is_telling: AtomicBool,
    state: Mutex<LinkState>,
}

#[derive(Default)]
struct LinkState {
    session: Option<HeaderValue>,
    /// The revision of the session.
    revision: Option<HeaderValue>,
    /// Where messages go in the older transport.
    beside: Option<Endpoint>,
    open: HashMap<u64, OpenRequest>,
    tools: Tools,
}

/// An open request.
struct OpenRequest {
    task: AbortHandle,
    is_modern: bool,
}

impl Link {
    /// A link without traffic so far. Incoming messages go to `inbox`.
    pub fn new(
        endpoint: Endpoint,
        connect: Duration,
        inbox: Sender<Received>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            client: Client::new(connect)?,
            endpoint,
            inbox,
            finding_out: tokio::sync::Mutex::default(),
            is_telling: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns a tool's definition.
    pub fn learn(&self, tool: &Value) {
        self.state().tools.learn(tool);
    }

    /// Sends messages until there are no more. Requests run concurrently; anything else has arrived
    /// before what follows is sent, because the server may need it.
    pub async fn deliver(self: Arc<Self>, mut outbox: Receiver<String>) {
        while let Some(text) = outbox.recv().await {
            let message = Outgoing::read(text, &self.state().tools);
            if let Some(id) = message.request {
                let is_modern = message.revision.is_some();
                let asking = tokio::spawn(Arc::clone(&self).ask(id, message));
                let task = asking.abort_handle();
                // It has not begun: this is the only thread.
                self.state()
                    .open
                    .insert(id, OpenRequest { task, is_modern });
            } else if !self.cancel(&message) {
                self.is_telling.store(true, Ordering::Relaxed);
                self.tell(&message).await;
                self.is_telling.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether a message that expects no answer is in progress.
    pub fn is_telling(&self) -> bool {
        self.is_telling.load(Ordering::Relaxed)
    }

    /// In the modern era, a client that no longer wants an answer hangs up.
    fn cancel(&self, message: &Outgoing) -> bool {
        let mut state = self.state();
        let open = message.cancels.and_then(|id| state.open.remove(&id));
        match open {
            Some(open) if open.is_modern => {
                open.task.abort();
                true
            }
            _ => false,
        }
    }

    /// Sends a request, and reports if it stays unanswered.
    async fn ask(self: Arc<Self>, id: u64, message: Outgoing) {
        let failure = self.exchange(id, &message).await;
        self.state().open.remove(&id);
        if let Some(failure) = failure {
            let unanswered = Received::Unanswered(Some(id), Box::new(failure));
            // No one listens any more at the end.
            let _ = self.inbox.send(unanswered).await;
        }
    }

    /// Returns why no answer will come, whether or not one came before.
    async fn exchange(self: &Arc<Self>, id: u64, message: &Outgoing) -> Option<Failure> {
        if let Some(beside) = self.beside() {
            return self.send_beside(&beside, message).await.err();
        }
        let response = match self.post(&self.endpoint, message).await {
            Ok(response) => response,
            Err(failure) => return Some(failure),
        };
        let may_be_older = is_greeting(&message.method) && is_wrong_place(response.status());
        let failure = match self.answer(message.pending(id), response).await {
            Ok(()) => transport("no_answer", "the server's response contains no answer"),
            Err(failure) => failure,
        };
        if !may_be_older || self.session().is_some() {
            return Some(failure);
        }
        let finding_out = self.finding_out.lock().await;
        let beside = match self.beside() {
            Some(beside) => Ok(Some(beside)),
            None => self.open_beside().await,
        };
        drop(finding_out);
        match beside {
            Ok(Some(beside)) => self.send_beside(&beside, message).await.err(),
            Ok(None) => Some(failure),
            Err(failure) => Some(failure),
        }
    }

    /// Sends a message that expects no answer.
    async fn tell(self: &Arc<Self>, message: &Outgoing) {
        let beside = self.beside();
        let sent = match &beside {
            Some(beside) => self.send_beside(beside, message).await,
            None => match self.post(&self.endpoint, message).await {
                Ok(response) => self.accepted(response).await,
                Err(failure) => Err(failure),
            },
        };
        if let Err(mut failure) = sent {
            let what = match message.method.as_str() {
                "" => "an answer",
                method => method,
            };
            failure.message = format!("`{what}` did not arrive: {}", failure.message);
            let unanswered = Received::Unanswered(None, Box::new(failure));
            let _ = self.inbox.send(unanswered).await;
        }
        if message.method == "notifications/initialized" && beside.is_none() {
            tokio::spawn(Arc::clone(self).listen());
        }
    }

    /// Posts a message.
    pub(super) async fn post(
        &self,
        to: &Endpoint,
        message: &Outgoing,
    ) -> Result<Response<Incoming>, Failure> {
        let mut headers = message.mirrored.clone();
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, JSON_OR_EVENTS);
        self.identify(&mut headers);
        if message.method == "initialize" {
            headers.remove(REVISION);
        }
        if let Some(revision) = &message.revision {
            headers.insert(REVISION, revision.clone());
        }
        let body = message.text.clone();
        self.client.send(&Method::POST, to, headers, body).await
    }

    /// Requests a stream of events: what belongs to no request, or what followed an event that arrived.
    pub(super) async fn get(&self, after: Option<&str>) -> Result<Response<Incoming>, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(EVENTS));
        self.identify(&mut headers);
        if let Some(after) = after.and_then(|after| HeaderValue::from_str(after).ok()) {
            headers.insert(LAST_EVENT, after);
        }
        let (method, body) = (Method::GET, Bytes::new());
        self.client
            .send(&method, &self.endpoint, headers, body)
            .await
    }

    /// Ends the session, if there is one. Servers may refuse that.
    pub async fn end_session(&self) {
        if self.session().is_none() {
            return;
        }
        let mut headers = HeaderMap::new();
        self.identify(&mut headers);
        let (method, body) = (Method::DELETE, Bytes::new());
        let _ = self
            .client
            .send(&method, &self.endpoint, headers, body)
            .await;
    }

    fn identify(&self, headers: &mut HeaderMap) {
        let state = self.state();
        for (name, value) in [(SESSION, &state.session), (REVISION, &state.revision)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }

    /// The session, if the server has named one.
    pub(super) fn session(&self) -> Option<HeaderValue> {
        self.state().session.clone()
    }

    /// Remembers the session that the answer to `initialize` names.
    pub(super) fn begin(&self, headers: &HeaderMap) {
        if let Some(session) = headers.get(SESSION) {
            self.state().session = Some(session.clone());
        }
    }

    /// Remembers the revision of the session.
    pub(super) fn agree(&self, revision: &str) {
        self.state().revision = HeaderValue::from_str(revision).ok();
    }

    fn beside(&self) -> Option<Endpoint> {
        self.state().beside.clone()
    }

    /// Remembers that this is the older transport.
    pub(super) fn go_beside(&self, beside: Endpoint) {
        self.state().beside = Some(beside);
    }
}

/// What a client says first.
fn is_greeting(method: &str) -> bool {
    matches!(method, "server/discover" | "initialize")
}

/// Whether the status may mean that messages cannot be posted there.
fn is_wrong_place(status: StatusCode) -> bool {
    status.is_client_error()
        && !matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::PROXY_AUTHENTICATION_REQUIRED
                | StatusCode::TOO_MANY_REQUESTS
        )
}
