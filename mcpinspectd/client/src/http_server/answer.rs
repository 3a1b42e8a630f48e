//! The way back of an answer: one message, or a stream of events that is resumed where it is interrupted.

use std::collections::VecDeque;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use mcpinspect_core::mcp::message;
use mcpinspect_core::mcp::message::{Irregularity, Message, Outcome, Parsed, Payload};
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use serde_json::Value;
use tokio::time::sleep;

use crate::failure::{Code, Failure};
use crate::peer::Received;

use super::events::{Event, Parser};
use super::failure::{Refused, transport};
use super::link::{EVENTS, Link};
use super::outgoing::AwaitedRequest;

/// How many times a stream that brings nothing is requested again.
const ATTEMPTS: usize = 3;

/// Most bytes to read of a body that is not a message.
const EXCERPT: usize = 16 << 10;

impl Link {
    /// Passes on what the response to a request brings.
    pub(super) async fn answer(
        &self,
        pending: AwaitedRequest,
        response: Response<Incoming>,
    ) -> Result<(), Failure> {
        let in_session = self.session().is_some() && !pending.is_modern;
        if pending.is_initialize && response.status().is_success() {
            self.begin(response.headers());
        }
        if is_stream(&response) {
            // In the modern era, an interrupted stream is lost.
            let resumable = !pending.is_modern;
            return self
                .follow(Stream::new(response), Some(pending), resumable)
                .await;
        }
        let (head, body) = response.into_parts();
        let kind = head.headers.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let is_json =
            essence.eq_ignore_ascii_case("application/json") || essence.ends_with("+json");
        let limit = if is_json { DEFAULT_MAX_FRAME } else { EXCERPT };
        let (body, is_whole) = read(body, limit).await?;
        if is_json && !is_whole {
            return Err(too_large());
        }
        let is_answer = match head.status {
            StatusCode::UNAUTHORIZED => false,
            StatusCode::NOT_FOUND if in_session => answers(&body, pending.id),
            status => is_json && is_message(&body, !status.is_success()),
        };
        if is_answer {
            self.pass(body, Some(pending)).await;
            return Ok(());
        }
        Err(Refused {
            status: head.status,
            headers: &head.headers,
            kind,
            body: &body,
            in_session,
        }
        .failure())
    }

    /// Makes sure that a message that expects no answer was accepted.
    pub(super) async fn accepted(&self, response: Response<Incoming>) -> Result<(), Failure> {
        if response.status().is_success() {
            return Ok(());
        }
        let (head, body) = response.into_parts();
        let (body, _) = read(body, EXCERPT).await?;
        Err(Refused {
            status: head.status,
            headers: &head.headers,
            kind: "",
            body: &body,
            in_session: self.session().is_some(),
        }
        .failure())
    }

    /// Passes on what belongs to no request. Many servers have no such stream.
    pub(super) async fn listen(self: Arc<Self>) {
        if let Ok(response) = self.get(None).await
            && is_stream(&response)
        {
            // No one waits for it, so its end fails nothing.
            let _ = self.follow(Stream::new(response), None, true).await;
        }
    }

    /// Passes on a stream up to the answer, over as many connections as it takes.
    async fn follow(
        &self,
        mut stream: Stream,
        pending: Option<AwaitedRequest>,
        resumable: bool,
    ) -> Result<(), Failure> {
        let mut attempts = 0;
        loop {
            let mut broken = match self.drain(&mut stream, pending, &mut attempts).await {
                Ok(true) => return Ok(()),
                Ok(false) => transport("closed", "the server ended the stream before it answered"),
                Err(failure) => failure,
            };
            let is_useless = broken.code == Code::Name("too_large");
            loop {
                let last = stream.parser.last_id().map(str::to_owned);
                let can_go_on = resumable && (last.is_some() || pending.is_none());
                if is_useless || !can_go_on || attempts >= ATTEMPTS {
                    return Err(broken);
                }
                attempts += 1;
                sleep(stream.parser.retry()).await;
                match self.get(last.as_deref()).await {
                    Ok(response) if is_stream(&response) => {
                        stream.go_on(response);
                        break;
                    }
                    Ok(response) => {
                        let status = response.status();
                        broken.message = format!(
                            "the server ended the stream before it answered, and refused to resume it (HTTP status {status})"
                        );
                    }
                    Err(failure) => broken = failure,
                }
            }
        }
    }

    /// Passes on a stream up to the answer; false if it ends before.
    async fn drain(
        &self,
        stream: &mut Stream,
        pending: Option<AwaitedRequest>,
        attempts: &mut usize,
    ) -> Result<bool, Failure> {
        while let Some(event) = stream.next().await? {
            *attempts = 0;
            if event.name == "message"
                && !event.data.is_empty()
                && self.pass(event.data, pending).await
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Passes a message on. Returns whether it is the answer.
    pub(super) async fn pass(&self, mut line: Vec<u8>, pending: Option<AwaitedRequest>) -> bool {
        let mut is_answer = false;
        if let Some(pending) = pending {
            address(&mut line, pending.id);
            is_answer = answers(&line, pending.id);
            if is_answer && pending.is_initialize {
                let message: Value = serde_json::from_slice(&line).unwrap_or_default();
                let revision = message.pointer("/result/protocolVersion");
                if let Some(revision) = revision.and_then(Value::as_str) {
                    self.agree(revision);
                }
            }
        }
        // Fails if no one takes it any more.
        let _ = self.inbox.send(Received::Line(line)).await;
        is_answer
    }
}

/// A stream of events.
pub(super) struct Stream {
    body: Incoming,
    parser: Parser,
    ready: VecDeque<Event>,
}

impl Stream {
    /// The stream in this response.
    pub(super) fn new(response: Response<Incoming>) -> Self {
        Self {
            body: response.into_body(),
            parser: Parser::new(DEFAULT_MAX_FRAME),
            ready: VecDeque::new(),
        }
    }

    /// Continues with another connection.
    fn go_on(&mut self, response: Response<Incoming>) {
        self.body = response.into_body();
        self.parser.begin_again();
    }

    /// The next event; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let frame = match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => frame.map_err(|error| broken(&error))?,
            };
            if let Some(bytes) = frame.data_ref() {
                let ready = &mut self.ready;
                let fed = self.parser.feed(bytes, |event| ready.push_back(event));
                fed.map_err(|_| too_large())?;
            }
        }
    }
}

/// Whether it is a stream of events.
pub(super) fn is_stream(response: &Response<Incoming>) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    response.status().is_success() && essence.eq_ignore_ascii_case(EVENTS)
}

/// Reads a body, or its first `limit` bytes; returns whether that is all.
async fn read(mut body: Incoming, limit: usize) -> Result<(Vec<u8>, bool), Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Some(more) = frame.data_ref() {
            let room = limit - bytes.len();
            bytes.extend_from_slice(more.get(..room).unwrap_or(more));
            if more.len() > room {
                return Ok((bytes, false));
            }
        }
    }
    Ok((bytes, true))
}

fn broken(error: &hyper::Error) -> Failure {
    transport(
        "closed",
        format!("the connection to the server was lost in the middle of its response: {error}"),
    )
}

fn too_large() -> Failure {
    let limit = DEFAULT_MAX_FRAME >> 20;
    transport(
        "too_large",
        format!("the server's answer is larger than {limit} MiB"),
    )
}

/// Whether a body is a message. If it comes with an error status, it must say that it is one: other
/// protocols have errors too.
fn is_message(body: &[u8], strictly: bool) -> bool {
    match message::parse(body) {
        Ok(Payload::Single(parsed)) => {
            let is_foreign = parsed.irregular == Some(Irregularity::ForeignVersion);
            let is_error = |outcome: Outcome<'_>| match outcome {
                Outcome::Error(error) => error.get().starts_with('{'),
                Outcome::Result(_) => true,
            };
            !(strictly && is_foreign)
                && match parsed.message {
                    Message::Response(response) => is_error(response.outcome),
                    Message::Request(_) | Message::Notification(_) => true,
                }
        }
        Ok(Payload::Batch(_)) => true,
        Err(_) => false,
    }
}

/// Whether a message answers this request, or one in a batch does.
fn answers(line: &[u8], id: u64) -> bool {
    let is_it = |parsed: &Parsed<'_>| match &parsed.message {
        Message::Response(response) => {
            let answered = response.id.and_then(|id| id.0.parse().ok());
            answered == Some(id)
        }
        Message::Request(_) | Message::Notification(_) => false,
    };
    match message::parse(line) {
        Ok(Payload::Single(parsed)) => is_it(&parsed),
        Ok(Payload::Batch(batch)) => {
            let mut any = false;
            batch.for_each(|member| any |= member.is_ok_and(|parsed| is_it(&parsed)));
            any
        }
        Err(_) => false,
    }
}

/// An error without an id belongs to the request whose answer it is.
fn address(line: &mut Vec<u8>, id: u64) {
    let is_nameless = match message::parse(line) {
        Ok(Payload::Single(parsed)) => match parsed.message {
            Message::Response(response) => {
                response.id.is_none() && matches!(response.outcome, Outcome::Error(_))
            }
            Message::Request(_) | Message::Notification(_) => false,
        },
        _ => false,
    };
    if is_nameless && let Ok(Value::Object(mut message)) = serde_json::from_slice(line) {
        message.insert("id".to_owned(), id.into());
        *line = Value::Object(message).to_string().into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_without_an_id_belongs_to_its_request() {
        let mut error = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000}}"#.to_vec();
        address(&mut error, 7);
        let read: Value = serde_json::from_slice(&error).unwrap();
        assert_eq!(read["id"], 7);
        assert!(answers(&error, 7) && !answers(&error, 8));
        let result = br#"{"id":1,  "result":{}}"#.to_vec();
        let mut same = result.clone();
        address(&mut same, 7);
        assert_eq!(same, result);
    }

    #[test]
    fn errors_of_other_protocols_are_no_messages() {
        for (body, strictly, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, true, true),
            (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, true, true),
            (r#"{"error":{"code":404,"message":"no"}}"#, true, false),
            (r#"{"error":{"code":404,"message":"no"}}"#, false, true),
            (r#"{"error":"invalid_token"}"#, false, false),
            (r#"{"detail":"Not Found"}"#, false, false),
            ("[]", false, false),
            (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, true, true),
            ("<html>", false, false),
        ] {
            assert_eq!(is_message(body.as_bytes(), strictly), expected, "{body}");
        }
    }

    #[test]
    fn one_of_a_batch_can_be_the_answer() {
        let batch = br#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":3,"result":{}}]"#;
        assert!(answers(batch, 3));
        assert!(!answers(batch, 4));
    }
}
