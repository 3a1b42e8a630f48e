//! One request of a client: whether it may come in, what it says, and the way to the server.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use hyper::http::request;
use hyper::{Method, Request, Response, StatusCode};
use mcpinspect_client::failure::Code;
use mcpinspect_client::http_server::{Outgoing, Tools};
use mcpinspect_core::http::{Coding, disagreement};
use mcpinspect_core::model::Direction;
use mcpinspect_core::wire::framing::DEFAULT_MAX_FRAME;
use tokio::time::timeout;

use super::admitted::{AdmittedRequest, ForwardedPart, judged};
use super::answer;
use super::body::Flow;
use super::body_summary::BodySummary;
use super::front::Front;
use super::heads::{self, METHOD, NAME, SESSION};
use super::hub::Hub;
use super::memory::MemoryReservation;
use super::params;
use super::refusals;
use super::reply::{self, INVALID, MISMATCH};

/// How long a client may take for the next piece of a body, and for all of it.
const PIECE: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_secs(300);
/// The longest name of a session, in bytes.
const MAX_SESSION: usize = 1024;

/// A request that is not admitted.
struct Refusal {
    response: Response<Flow>,
    /// Why, in a word; `None` if a record already says so.
    reason: Option<&'static str>,
}

type Refused = Box<Refusal>;

/// Serves a request.
pub async fn serve(front: &Front, peer: IpAddr, request: Request<Incoming>) -> Response<Flow> {
    let (head, body) = request.into_parts();
    let hub = match front.hub(&head) {
        Ok(hub) => hub,
        Err(refused) => return *refused,
    };
    let shown = refusals::RefusedRequest::of(&head);
    match exchange(Arc::clone(&hub), peer, head, body).await {
        Ok(response) => response,
        Err(refused) => {
            if let Some(reason) = refused.reason {
                hub.refused(&shown, reason);
            }
            refused.response
        }
    }
}

fn refuse<T>(status: StatusCode, reason: &'static str, text: &str) -> Result<T, Refused> {
    Err(Box::new(Refusal {
        response: reply::refusal(status, None, INVALID, text),
        reason: Some(reason),
    }))
}

async fn exchange(
    hub: Arc<Hub>,
    peer: IpAddr,
    head: request::Parts,
    body: Incoming,
) -> Result<Response<Flow>, Refused> {
    check(&hub, &head)?;
    let path = head.uri.path_and_query().map_or("/", |all| all.as_str());
    let Some(uri) = hub.upstream.at(path) else {
        let text = "the request has no usable path";
        return refuse(StatusCode::BAD_REQUEST, "no_path", text);
    };
    let (body, _reservation) = read(&hub, body).await?;
    let mut summary = BodySummary::read(&body);
    let begins = summary.is_greeting || head.method == Method::GET;
    let Ok((client_session, exchange)) = hub.session_exchange(peer, path, &head.headers, begins)
    else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_sessions",
            "the gateway has reached its maximum number of sessions; raise it with `--max-sessions`",
        );
    };
    let mut headers = heads::upward(&head.headers);
    if let Some(field) = mismatch(&head.headers, &body) {
        let judge = &client_session.judge;
        let reason = "header_mismatch";
        let is_untold = judge.ambiguous(Direction::ClientToServer, &body, reason);
        let text = format!("{field} does not match the message");
        return Err(Box::new(Refusal {
            response: reply::refusal(StatusCode::BAD_REQUEST, summary.only(), MISMATCH, &text),
            reason: is_untold.then_some(reason),
        }));
    }
    let mut admitted = AdmittedRequest {
        nobody: hub.nobody(peer, &head.headers),
        method: head.method,
        headers: HeaderMap::new(),
        summary: BodySummary::default(),
        own: Vec::new(),
        hub,
        client_session,
        exchange,
        uri,
    };
    let mut message = body;
    if !admitted.client_session.judge.is_idle() && !message.is_empty() {
        let judged = judged(&admitted, Direction::ClientToServer, &message);
        if !judged.delay.is_zero() {
            tokio::time::sleep(judged.delay).await;
        }
        admitted.own = judged.replies;
        match judged.forward {
            ForwardedPart::AsIs => {}
            ForwardedPart::Nothing => {
                return Ok(admitted.blocked(&summary, judged.is_unreadable).await);
            }
            ForwardedPart::Changed(changed) => {
                params::follow(&mut headers, &message, &changed);
                message = changed;
                repeat(&mut headers, &message);
                summary = BodySummary::read(&message);
            }
        }
    }
    admitted.summary = summary;
    admitted.headers = headers;
    Ok(send(admitted, message).await)
}

/// The field of a head that contradicts the message.
fn mismatch(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let field = disagreement(&heads::mcp(headers), body).map(|field| field.as_str().to_owned());
    field.or_else(|| Some(params::disagreement(headers, body)?.to_string()))
}

/// Whether a request is admitted, judging by its head.
fn check(hub: &Hub, head: &request::Parts) -> Result<(), Refused> {
    if let Err(shut) = hub.gate.check(&head.uri, &head.headers) {
        return refuse(StatusCode::FORBIDDEN, shut.reason(), &shut.to_string());
    }
    if head.method == Method::CONNECT {
        let text = "CONNECT is not supported";
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "tunnel", text);
    }
    if let Some(name) = heads::repeated(&head.headers) {
        let text = format!("the field `{name}` must not be repeated");
        return refuse(StatusCode::BAD_REQUEST, "repeated_field", &text);
    }
    let session = head.headers.get(SESSION);
    if session.is_some_and(|session| session.len() > MAX_SESSION) {
        let text = "the session's name is too long";
        return refuse(StatusCode::BAD_REQUEST, "session_too_long", text);
    }
    let coding = head.headers.get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| Coding::of(coding.as_bytes()) != Coding::Identity) {
        let text = "messages to the gateway must not be compressed";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "compressed", text);
    }
    if heads::has_foreign_alphabet(&head.headers) {
        let text = "the message is not valid UTF-8";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "foreign_alphabet", text);
    }
    Ok(())
}

fn too_large<T>() -> Result<T, Refused> {
    let limit = DEFAULT_MAX_FRAME >> 20;
    let text = format!("the message is larger than {limit} MiB");
    refuse(StatusCode::PAYLOAD_TOO_LARGE, "too_long", &text)
}

/// Reads a client's body, and reserves memory for it.
async fn read(hub: &Hub, mut body: Incoming) -> Result<(Bytes, MemoryReservation), Refused> {
    let mut reservation = hub.memory.hold();
    if body.size_hint().lower() > DEFAULT_MAX_FRAME as u64 {
        return too_large();
    }
    let all = async {
        let mut bytes = BytesMut::new();
        loop {
            let frame = match timeout(PIECE, body.frame()).await {
                Ok(None) => break,
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(_))) => {
                    let text = "the message is incomplete: the connection was lost";
                    return refuse(StatusCode::BAD_REQUEST, "broken_off", text);
                }
                Err(_) => {
                    let text = "the message is incomplete: nothing arrived for too long";
                    return refuse(StatusCode::REQUEST_TIMEOUT, "stalled", text);
                }
            };
            let Some(piece) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + piece.len() > DEFAULT_MAX_FRAME {
                return too_large();
            }
            if !reservation.set(bytes.len() + piece.len()) {
                let text = "the gateway's memory for messages is full; try again later";
                return refuse(StatusCode::SERVICE_UNAVAILABLE, "no_room", text);
            }
            bytes.extend_from_slice(piece);
        }
        Ok(bytes.freeze())
    };
    match timeout(WHOLE, all).await {
        Ok(bytes) => Ok((bytes?, reservation)),
        Err(_) => {
            let text = "the message did not arrive in time";
            refuse(StatusCode::REQUEST_TIMEOUT, "stalled", text)
        }
    }
}

/// Updates the fields that repeat a message, if there are any.
fn repeat(headers: &mut HeaderMap, message: &Bytes) {
    if !headers.contains_key(METHOD) {
        return;
    }
    let text = String::from_utf8_lossy(message).into_owned();
    let mirrored = Outgoing::read(text, &Tools::default()).mirrored;
    for name in [METHOD, NAME] {
        match mirrored.get(name) {
            Some(value) => drop(headers.insert(name, value.clone())),
            None => drop(headers.remove(name)),
        }
    }
}

/// Sends a message to the server, and passes the answer on.
async fn send(admitted: AdmittedRequest, message: Bytes) -> Response<Flow> {
    let sent = admitted.hub.upstream.ask(
        admitted.method.clone(),
        admitted.uri.clone(),
        admitted.headers.clone(),
        message,
    );
    match sent.await {
        Ok(response) => answer::answer(admitted, response).await,
        Err(failure) => {
            let status = match failure.code == Code::Name("timeout") {
                true => StatusCode::GATEWAY_TIMEOUT,
                false => StatusCode::BAD_GATEWAY,
            };
            admitted.failed(status, &failure.message).await
        }
    }
}
