//! The server's response: its head, and a body that is JSON, a stream of events, or of no interest.

use std::time::Duration;

use bytes::BytesMut;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use hyper::{Method, Response, StatusCode};
use mcpinspect_core::model::Direction;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use tokio::time::timeout;

use super::asked::{Asked, Judged, Passed, judged};
use super::body::{Flow, Source};
use super::heads::{self, Kind, SESSION};
use super::hub::Hub;
use super::reply::{self, INVALID};
use super::room::Held;
use super::said::Said;
use super::sessions::Key;
use super::stream::Stream;

const BOTH: &str = "the server's answer can be read in more than one way";

/// Passes the response on.
pub async fn answer(asked: Asked, response: Response<Incoming>) -> Response<Flow> {
    let (head, body) = response.into_parts();
    let bad = StatusCode::BAD_GATEWAY;
    if heads::repeated(&head.headers).is_some() {
        return asked.failed(bad, BOTH).await;
    }
    let mut headers = heads::downward(&head.headers);
    if head.status.is_redirection() && !stays(&asked, &mut headers) {
        let words = "the server redirects to another server, which is not behind this gateway";
        return asked.failed(bad, words).await;
    }
    let Ok(asked) = remembered(asked, head.status, &headers) else {
        let words = "the gateway has reached its maximum number of sessions; raise it with `--max-sessions`";
        return reply::refusal(StatusCode::SERVICE_UNAVAILABLE, None, INVALID, words);
    };
    let is_empty = body.is_end_stream() && asked.own.is_empty();
    if is_empty || asked.method == Method::HEAD {
        return response_of(head.status, headers, Flow::of(""));
    }
    let Ok(mut source) = Source::new(&mut headers, body) else {
        let words = "the server's answer has an unsupported content encoding";
        return asked.failed(bad, words).await;
    };
    let kind = heads::kind(&headers);
    match kind {
        Kind::Both => return asked.failed(bad, BOTH).await,
        Kind::Events => {
            headers.remove(CONTENT_LENGTH);
            let session = headers.get(SESSION).or(asked.session()).cloned();
            let flow = Stream::start(asked, source, session);
            return response_of(head.status, headers, flow);
        }
        Kind::Json | Kind::Other => {}
    }
    let mut start = Beginning::new(&asked.hub);
    if kind == Kind::Other && asked.own.is_empty() {
        match start.peek(&mut source).await {
            Ok(true) => {}
            Ok(false) => {
                let flow = raw(start.bytes.freeze(), source);
                return response_of(head.status, headers, flow);
            }
            Err(words) => return asked.failed(bad, words).await,
        }
    }
    if let Err(words) = start.finish(&mut source).await {
        if words == TOO_LONG {
            let judge = &asked.party.judge;
            judge.ambiguous(Direction::ServerToClient, &start.bytes, "too_long");
        }
        return asked.failed(bad, words).await;
    }
    headers.remove(CONTENT_LENGTH);
    whole(asked, head.status, headers, start).await
}

fn response_of(status: StatusCode, headers: HeaderMap, flow: Flow) -> Response<Flow> {
    let mut response = Response::new(flow);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whether a redirect stays on this server; if it does, it leads through the gateway.
fn stays(asked: &Asked, headers: &mut HeaderMap) -> bool {
    let Some(location) = headers.get(LOCATION) else {
        return true;
    };
    let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
    if let Some(path) = asked.hub.upstream.own(&asked.uri, &location) {
        if let Ok(path) = HeaderValue::from_str(&path) {
            headers.insert(LOCATION, path);
        }
        return true;
    }
    // A person may be led to a sign-in page. Messages may not.
    let accepts = asked.headers.get(hyper::header::ACCEPT);
    let accepts = accepts.map_or(&b""[..], HeaderValue::as_bytes);
    asked.method == Method::GET && memchr::memmem::find(accepts, b"text/html").is_some()
}

/// Remembers the session that a response begins, and forgets one that it ends.
fn remembered(
    mut asked: Asked,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Asked, super::sessions::Full> {
    let table = &asked.hub.table;
    if !status.is_success() {
        return Ok(asked);
    }
    if asked.said.is_greeting {
        let named = headers.get(SESSION).or(asked.session());
        let key = match named {
            Some(session) => Key::Session(session.as_bytes().into()),
            None => asked.nobody.clone(),
        };
        // This one knows what was asked.
        let known = table.add(key, std::sync::Arc::clone(&asked.party))?;
        if named.is_some() {
            asked.party = known;
        }
    } else if asked.method == Method::DELETE
        && let Some(session) = asked.session()
    {
        table.remove(&Key::Session(session.as_bytes().into()));
    }
    Ok(asked)
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
struct Beginning {
    bytes: BytesMut,
    held: Held,
    /// How long the next piece may take.
    wait: Duration,
}

const TOO_LONG: &str = "the server's answer is too large";
const BROKEN: &str = "the connection to the server was lost in the middle of its answer";

impl Beginning {
    fn new(hub: &Hub) -> Self {
        Self {
            bytes: BytesMut::new(),
            held: hub.room.hold(),
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
                if length > DEFAULT_MAX_FRAME || !self.held.set(length) {
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
    asked: Asked,
    status: StatusCode,
    mut headers: HeaderMap,
    body: Beginning,
) -> Response<Flow> {
    let Beginning { bytes, held, .. } = body;
    let mut bytes = bytes.freeze();
    if asked.party.judge.is_idle() {
        return response_of(status, headers, Flow::holding(bytes, held));
    }
    let judgement = judged(&asked, Direction::ServerToClient, &bytes);
    let Judged {
        forward,
        replies,
        delay,
        ..
    } = judgement;
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
    for reply in replies {
        let headers = heads::in_the_clients_place(&asked.headers, headers.get(SESSION));
        let uri = asked.uri.clone();
        asked.hub.upstream.tell(uri, headers, reply).await;
    }
    match forward {
        Passed::AsIs => {}
        Passed::Changed(changed) => bytes = changed,
        Passed::Nothing => {
            let answered = Said::read(&bytes);
            let waits = asked.said.requests.iter();
            let error = |id: &String| {
                reply::error(Some(id), INVALID, &format!("Refused by policy: {BOTH}"))
            };
            let mut all: Vec<String> = waits.map(error).collect();
            all.extend(asked.own);
            if all.is_empty() {
                return match answered.requests.is_empty() {
                    true => reply::refusal(StatusCode::BAD_GATEWAY, None, INVALID, BOTH),
                    false => reply::accepted(),
                };
            }
            let json = HeaderValue::from_static("application/json");
            headers.insert(CONTENT_TYPE, json);
            let batch = asked.said.is_batch;
            let messages = reply::messages(StatusCode::OK, &all, batch);
            let (_, flow) = messages.into_parts();
            return response_of(StatusCode::OK, headers, flow);
        }
    }
    if asked.own.is_empty() {
        return response_of(status, headers, Flow::holding(bytes, held));
    }
    let status = match bytes.is_empty() {
        true => StatusCode::OK,
        false => status,
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response_of(status, headers, Flow::of(joined(&bytes, &asked.own)))
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
