//! The server's response: its head, and a body that is JSON, a stream of events, or of no interest.

use std::time::Duration;

use bytes::BytesMut;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use hyper::{Method, Response, StatusCode};
use mcpinspect_core::model::Direction;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use tokio::time::timeout;

use super::admitted::{AdmittedRequest, ForwardedPart, JudgedFrame, judged};
use super::body::{Flow, Source};
use super::body_summary::BodySummary;
use super::heads::{self, Kind, SESSION};
use super::hub::Hub;
use super::memory::MemoryReservation;
use super::reply::{self, INVALID};
use super::sessions::Key;
use super::stream::Stream;

const BOTH: &str = "the server's answer can be read in more than one way";

/// Passes the response on.
pub async fn answer(admitted: AdmittedRequest, response: Response<Incoming>) -> Response<Flow> {
    let (head, body) = response.into_parts();
    let bad = StatusCode::BAD_GATEWAY;
    if heads::repeated(&head.headers).is_some() {
        return admitted.failed(bad, BOTH).await;
    }
    let mut headers = heads::downward(&head.headers);
    if head.status.is_redirection() && !stays(&admitted, &mut headers) {
        let text = "the server redirects to another server, which is not behind this gateway";
        return admitted.failed(bad, text).await;
    }
    let Ok(admitted) = remembered(admitted, head.status, &headers) else {
        let text = "the gateway has reached its maximum number of sessions; raise it with `--max-sessions`";
        return reply::refusal(StatusCode::SERVICE_UNAVAILABLE, None, INVALID, text);
    };
    let is_empty = body.is_end_stream() && admitted.own.is_empty();
    if is_empty || admitted.method == Method::HEAD {
        return response_of(head.status, headers, Flow::of(""));
    }
    let Ok(mut source) = Source::new(&mut headers, body) else {
        let text = "the server's answer has an unsupported content encoding";
        return admitted.failed(bad, text).await;
    };
    let kind = heads::kind(&headers);
    match kind {
        Kind::Both => return admitted.failed(bad, BOTH).await,
        Kind::Events => {
            headers.remove(CONTENT_LENGTH);
            let session = headers.get(SESSION).or(admitted.session()).cloned();
            let flow = Stream::start(admitted, source, session);
            return response_of(head.status, headers, flow);
        }
        Kind::Json | Kind::Other => {}
    }
    let mut start = PartialBody::new(&admitted.hub);
    if kind == Kind::Other && admitted.own.is_empty() {
        match start.peek(&mut source).await {
            Ok(true) => {}
            Ok(false) => {
                let flow = raw(start.bytes.freeze(), source);
                return response_of(head.status, headers, flow);
            }
            Err(text) => return admitted.failed(bad, text).await,
        }
    }
    if let Err(text) = start.finish(&mut source).await {
        if text == TOO_LONG {
            let judge = &admitted.client_session.judge;
            judge.ambiguous(Direction::ServerToClient, &start.bytes, "too_long");
        }
        return admitted.failed(bad, text).await;
    }
    headers.remove(CONTENT_LENGTH);
    whole(admitted, head.status, headers, start).await
}

fn response_of(status: StatusCode, headers: HeaderMap, flow: Flow) -> Response<Flow> {
    let mut response = Response::new(flow);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whether a redirect stays on this server; if it does, it leads through the gateway.
fn stays(admitted: &AdmittedRequest, headers: &mut HeaderMap) -> bool {
    let Some(location) = headers.get(LOCATION) else {
        return true;
    };
    let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
    if let Some(path) = admitted.hub.upstream.own(&admitted.uri, &location) {
        if let Ok(path) = HeaderValue::from_str(&path) {
            headers.insert(LOCATION, path);
        }
        return true;
    }
    // A person may be led to a sign-in page. Messages may not.
    let accepts = admitted.headers.get(hyper::header::ACCEPT);
    let accepts = accepts.map_or(&b""[..], HeaderValue::as_bytes);
    admitted.method == Method::GET && memchr::memmem::find(accepts, b"text/html").is_some()
}

/// Remembers the session that a response begins, and forgets one that it ends.
fn remembered(
    mut admitted: AdmittedRequest,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<AdmittedRequest, super::sessions::Full> {
    let table = &admitted.hub.table;
    if !status.is_success() {
        return Ok(admitted);
    }
    if admitted.summary.is_greeting {
        let named = headers.get(SESSION).or(admitted.session());
        let key = match named {
            Some(session) => Key::Session(session.as_bytes().into()),
            None => admitted.nobody.clone(),
        };
        // This one knows what was asked.
        let known = table.add(key, std::sync::Arc::clone(&admitted.client_session))?;
        if named.is_some() {
            admitted.client_session = known;
        }
    } else if admitted.method == Method::DELETE
        && let Some(session) = admitted.session()
    {
        table.remove(&Key::Session(session.as_bytes().into()));
    }
    Ok(admitted)
}

/// A body that is passed on as it comes.
fn raw(start: Bytes, mut source: Source) -> Flow {
    let (out, flow) = Flow::pieces();
    tokio::spawn(async move {
        if !start.is_empty() && out.send(Ok(start)).await.is_err() {
            return;
        }
        loop {
            let next = tokio::select! {
                () = out.closed() => return,
                next = source.next() => next,
            };
            let Some(next) = next else { return };
            let is_over = next.is_err();
            if out.send(next).await.is_err() || is_over {
                return;
            }
        }
    });
    flow
}

/// What has come of a body so far.
struct PartialBody {
    bytes: BytesMut,
    reservation: MemoryReservation,
    /// How long the next piece may take.
    wait: Duration,
}

const TOO_LONG: &str = "the server's answer is too large";
const BROKEN: &str = "the connection to the server was lost in the middle of its answer";

impl PartialBody {
    fn new(hub: &Hub) -> Self {
        Self {
            bytes: BytesMut::new(),
            reservation: hub.memory.hold(),
            wait: hub.upstream.wait(),
        }
    }

    /// Takes in the next piece; false at the end.
    async fn more(&mut self, source: &mut Source) -> Result<bool, &'static str> {
        match timeout(self.wait, source.next()).await {
            Ok(None) => Ok(false),
            Ok(Some(Err(_))) | Err(_) => Err(BROKEN),
            Ok(Some(Ok(piece))) => {
                let length = self.bytes.len() + piece.len();
                if length > DEFAULT_MAX_FRAME || !self.reservation.set(length) {
                    return Err(TOO_LONG);
                }
                self.bytes.extend_from_slice(&piece);
                Ok(true)
            }
        }
    }

    /// Whether it begins like JSON, whatever its type says.
    async fn peek(&mut self, source: &mut Source) -> Result<bool, &'static str> {
        loop {
            let graphic = self.bytes.iter().find(|byte| byte.is_ascii_graphic());
            if let Some(first) = graphic {
                return Ok(matches!(first, b'{' | b'['));
            }
            if !self.more(source).await? {
                return Ok(false);
            }
        }
    }

    async fn finish(&mut self, source: &mut Source) -> Result<(), &'static str> {
        while self.more(source).await? {}
        Ok(())
    }
}

/// Passes a whole body on, as the policy says.
async fn whole(
    admitted: AdmittedRequest,
    status: StatusCode,
    mut headers: HeaderMap,
    body: PartialBody,
) -> Response<Flow> {
    let PartialBody {
        bytes, reservation, ..
    } = body;
    let mut bytes = bytes.freeze();
    if admitted.client_session.judge.is_idle() {
        return response_of(status, headers, Flow::holding(bytes, reservation));
    }
    let judgement = judged(&admitted, Direction::ServerToClient, &bytes);
    let JudgedFrame {
        forward,
        replies,
        delay,
        ..
    } = judgement;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    for reply in replies {
        let headers = heads::in_the_clients_place(&admitted.headers, headers.get(SESSION));
        let uri = admitted.uri.clone();
        admitted.hub.upstream.tell(uri, headers, reply).await;
    }
    match forward {
        ForwardedPart::AsIs => {}
        ForwardedPart::Changed(changed) => bytes = changed,
        ForwardedPart::Nothing => {
            let answered = BodySummary::read(&bytes);
            let waits = admitted.summary.requests.iter();
            let error = |id: &String| {
                reply::error(Some(id), INVALID, &format!("Refused by policy: {BOTH}"))
            };
            let mut all: Vec<String> = waits.map(error).collect();
            all.extend(admitted.own);
            if all.is_empty() {
                return match answered.requests.is_empty() {
                    true => reply::refusal(StatusCode::BAD_GATEWAY, None, INVALID, BOTH),
                    false => reply::accepted(),
                };
            }
            let json = HeaderValue::from_static("application/json");
            headers.insert(CONTENT_TYPE, json);
            let batch = admitted.summary.is_batch;
            let messages = reply::messages(StatusCode::OK, &all, batch);
            let (_, flow) = messages.into_parts();
            return response_of(StatusCode::OK, headers, flow);
        }
    }
    if admitted.own.is_empty() {
        return response_of(status, headers, Flow::holding(bytes, reservation));
    }
    let status = match bytes.is_empty() {
        true => StatusCode::OK,
        false => status,
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response_of(status, headers, Flow::of(joined(&bytes, &admitted.own)))
}

/// A batch with messages added.
fn joined(body: &[u8], own: &[String]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let inner = inner.unwrap_or(text).trim();
    let own = own.join(",");
    match inner.is_empty() {
        true => format!("[{own}]"),
        false => format!("[{inner},{own}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_joined() {
        let own = ["{\"id\":2}".to_owned()];
        for (body, expected) in [
            ("[ {\"id\":1} ]\n", "[{\"id\":1},{\"id\":2}]"),
            ("{\"id\":1}", "[{\"id\":1},{\"id\":2}]"),
            ("", "[{\"id\":2}]"),
            ("[]", "[{\"id\":2}]"),
        ] {
            assert_eq!(joined(body.as_bytes(), &own), expected, "{body}");
        }
    }
}
