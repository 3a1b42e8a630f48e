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
use super::heads::SESSION;
use super::hub::Hub;
use super::reply::{self, INTERNAL, INVALID};
use super::said::Said;
use super::sessions::{Key, Party};

/// How long a stream may take to accept a message of the gateway.
const GLANCE: Duration = Duration::from_secs(10);
/// A message of this length is judged where others can be served meanwhile, and so is every message if
/// a person may have to be asked.
const LARGE: usize = 1 << 20;

/// A request that goes to the server.
pub struct Asked {
    pub hub: Arc<Hub>,
    pub party: Arc<Party>,
    pub exchange: u64,
    /// The key of those who name no session, if this request names none.
    pub nobody: Key,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// What to send to the server.
    pub said: Said,
    /// Messages for the client that the server has no part in.
    pub own: Vec<String>,
}

/// What the policy made of a frame.
pub struct Judged {
    pub forward: Passed,
    pub replies: Vec<String>,
    pub delay: Duration,
    /// Whether it is kept back because it is unclear what it is.
    pub is_unreadable: bool,
}

/// What passes of a frame.
pub enum Passed {
    AsIs,
    Nothing,
    Changed(Bytes),
}

/// Judges a frame.
pub fn judged(asked: &Asked, direction: Direction, frame: &[u8]) -> Judged {
    let judge = || {
        let answering = match (asked.said.requests.is_empty(), asked.said.only()) {
            (true, _) => Answering::Nothing,
            (false, Some(id)) => Answering::Request(id.into()),
            (false, None) => Answering::Unknown,
        };
        let judge = &asked.party.judge;
        let handled = judge.frame_of(asked.exchange, &answering, direction, frame);
        let Handled {
            forward,
            replies,
            records,
            copies: _,
            delay,
        } = handled;
        let forward = match forward {
            Forward::AsIs => Passed::AsIs,
            Forward::Nothing => Passed::Nothing,
            Forward::Parts(parts) => Passed::Changed(parts.concat().into()),
        };
        Judged {
            forward,
            replies,
            delay,
            is_unreadable: records.iter().any(|record| record.kind.is_none()),
        }
    };
    match frame.len() > LARGE || asked.party.judge.may_wait() {
        true => tokio::task::block_in_place(judge),
        false => judge(),
    }
}

impl Asked {
    /// Answers a message that is blocked entirely.
    pub async fn kept_back(mut self, said: &Said, is_unreadable: bool) -> Response<Flow> {
        let own = std::mem::take(&mut self.own);
        if own.is_empty() && is_unreadable {
            let words = "Refused by policy: the message can be read in more than one way";
            return reply::refusal(StatusCode::BAD_REQUEST, None, INVALID, words);
        }
        if own.is_empty() || self.beside(&own).await {
            return reply::accepted();
        }
        reply::messages(StatusCode::OK, &own, said.is_batch)
    }

    /// Answers that the server did not.
    pub async fn failed(&self, status: StatusCode, words: &str) -> Response<Flow> {
        let error = |id: &String| reply::error(Some(id), INTERNAL, words);
        let errors: Vec<String> = self.said.requests.iter().map(error).collect();
        if errors.is_empty() {
            return reply::refusal(status, None, INTERNAL, words);
        }
        if self.beside(&errors).await {
            return reply::accepted();
        }
        reply::messages(status, &errors, self.said.is_batch)
    }

    /// Sends messages on the older transport's stream; false if there is none.
    pub async fn beside(&self, messages: &[String]) -> bool {
        let Some(stream) = self.party.beside.get() else {
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
