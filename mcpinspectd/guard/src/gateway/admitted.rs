//! An admitted request: what the policy makes of its messages, and answers in the server's place.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Response, StatusCode, Uri};
use mcpinspect_core::model::Direction;
use mcpinspect_judge::policy::session::{Answering, Forward, Handled};
use tokio::time::timeout;

use super::blocks;
use super::body::Flow;
use super::body_summary::BodySummary;
use super::heads::SESSION;
use super::hub::Hub;
use super::reply::{self, INTERNAL, INVALID};
use super::sessions::{ClientSession, Key};

/// How long a stream may take to accept a message of the gateway.
const GLANCE: Duration = Duration::from_secs(10);
/// A message of this length is judged where others can be served meanwhile, and so is every message if
/// a person may have to be asked.
const LARGE: usize = 1 << 20;

/// A request that goes to the server.
pub struct AdmittedRequest {
    pub hub: Arc<Hub>,
    pub client_session: Arc<ClientSession>,
    pub exchange: u64,
    /// The key of those who name no session, if this request names none.
    pub nobody: Key,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// What to send to the server.
    pub summary: BodySummary,
    /// Messages for the client that the server has no part in.
    pub own: Vec<String>,
}

/// What the policy made of a frame.
pub struct JudgedFrame {
    pub forward: ForwardedPart,
    pub replies: Vec<String>,
    pub delay: Duration,
    /// Whether it is kept back because it is unclear what it is.
    pub is_unreadable: bool,
}

/// What passes of a frame.
pub enum ForwardedPart {
    AsIs,
    Nothing,
    Changed(Bytes),
}

/// Judges a frame.
pub fn judged(admitted: &AdmittedRequest, direction: Direction, frame: &[u8]) -> JudgedFrame {
    let judge = || {
        let answering = match (
            admitted.summary.requests.is_empty(),
            admitted.summary.only(),
        ) {
            (true, _) => Answering::Nothing,
            (false, Some(id)) => Answering::Request(id.into()),
            (false, None) => Answering::Unknown,
        };
        let judge = &admitted.client_session.judge;
        let handled = judge.frame_of(admitted.exchange, &answering, direction, frame);
        let Handled {
            forward,
            replies,
            records,
            copies: _,
            delay,
        } = handled;
        let forward = match forward {
            Forward::AsIs => ForwardedPart::AsIs,
            Forward::Nothing => ForwardedPart::Nothing,
            Forward::Parts(parts) => ForwardedPart::Changed(parts.concat().into()),
        };
        JudgedFrame {
            forward,
            replies,
            delay,
            is_unreadable: records.iter().any(|record| record.kind.is_none()),
        }
    };
    match frame.len() > LARGE || admitted.client_session.judge.may_wait() {
        true => tokio::task::block_in_place(judge),
        false => judge(),
    }
}

impl AdmittedRequest {
    /// Answers a message that is blocked entirely.
    pub async fn blocked(mut self, summary: &BodySummary, is_unreadable: bool) -> Response<Flow> {
        let own = std::mem::take(&mut self.own);
        if own.is_empty() && is_unreadable {
            let text = "Refused by policy: the message can be read in more than one way";
            return reply::refusal(StatusCode::BAD_REQUEST, None, INVALID, text);
        }
        if own.is_empty() || self.beside(&own).await {
            return reply::accepted();
        }
        reply::messages(StatusCode::OK, &own, summary.is_batch)
    }

    /// Answers that the server did not.
    pub async fn failed(&self, status: StatusCode, text: &str) -> Response<Flow> {
        let error = |id: &String| reply::error(Some(id), INTERNAL, text);
        let errors: Vec<String> = self.summary.requests.iter().map(error).collect();
        if errors.is_empty() {
            return reply::refusal(status, None, INTERNAL, text);
        }
        if self.beside(&errors).await {
            return reply::accepted();
        }
        reply::messages(status, &errors, self.summary.is_batch)
    }

    /// Sends messages on the older transport's stream; false if there is none.
    pub async fn beside(&self, messages: &[String]) -> bool {
        let Some(stream) = self.client_session.beside.get() else {
            return false;
        };
        for message in messages {
            // A client that does not read does not get it.
            let _ = timeout(GLANCE, stream.send(blocks::event(message))).await;
        }
        true
    }

    /// The session that is named, if there is one.
    pub fn session(&self) -> Option<&HeaderValue> {
        self.headers.get(SESSION)
    }
}
