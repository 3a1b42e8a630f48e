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
use mcpinspectd::client::failure::Code;
use mcpinspectd::http::{Coding, disagreement};
use mcpinspectd::model::Direction;
use mcpinspectd::wire::framing::DEFAULT_MAX_FRAME;
use tokio::time::timeout;

use super::answer;
use super::asked::{Asked, Passed, judged};
use super::body::Flow;
use super::heads::{self, METHOD, NAME, SESSION};
use super::hub::Hub;
use super::reply::{self, INVALID, MISMATCH};
use super::room::Held;
use super::said::Said;
use crate::http_server::{Outgoing, Tools};

/// How long a client may take for the next piece of a body, and for all of it.
const PIECE: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_secs(300);
/// The longest name of a session, in bytes.
const MAX_SESSION: usize = 1024;

type Refused = Box<Response<Flow>>;

/// Serves a request.
pub async fn serve(hub: Arc<Hub>, peer: IpAddr, request: Request<Incoming>) -> Response<Flow> {
    match exchange(hub, peer, request).await {
        Ok(response) => response,
        Err(refused) => *refused,
    }
}

fn refuse<T>(status: StatusCode, words: &str) -> Result<T, Refused> {
    Err(Box::new(reply::refusal(status, None, INVALID, words)))
}

async fn exchange(
    hub: Arc<Hub>,
    peer: IpAddr,
    request: Request<Incoming>,
) -> Result<Response<Flow>, Refused> {
    let (head, body) = request.into_parts();
    check(&hub, &head)?;
    let path = head.uri.path_and_query().map_or("/", |all| all.as_str());
    let Some(uri) = hub.upstream.at(path) else {
        return refuse(StatusCode::BAD_REQUEST, "the request has no usable path");
    };
    let (body, _held) = read(&hub, body).await?;
    let mut said = Said::read(&body);
    let begins = said.is_greeting || head.method == Method::GET;
    let Ok((party, exchange)) = hub.place(peer, path, &head.headers, begins) else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "all sessions that the gateway has room for are in use; `--max-sessions` allows more",
        );
    };
    let mut headers = heads::upward(&head.headers);
    if let Some(field) = disagreement(&heads::mcp(&head.headers), &body) {
        party
            .judge
            .ambiguous(Direction::ClientToServer, &body, "header_mismatch");
        let words = format!("{} does not say what the message says", field.as_str());
        let status = StatusCode::BAD_REQUEST;
        let refusal = reply::refusal(status, said.only(), MISMATCH, &words);
        return Err(Box::new(refusal));
    }
    let mut asked = Asked {
        nobody: hub.nobody(peer, &head.headers),
        method: head.method,
        headers: HeaderMap::new(),
        said: Said::default(),
        own: Vec::new(),
        hub,
        party,
        exchange,
        uri,
    };
    let mut message = body;
    if !asked.party.judge.is_idle() && !message.is_empty() {
        let judged = judged(&asked, Direction::ClientToServer, &message);
        if !judged.delay.is_zero() {
            tokio::time::sleep(judged.delay).await;
        }
        asked.own = judged.replies;
        match judged.forward {
            Passed::AsIs => {}
            Passed::Nothing => return Ok(asked.kept_back(&said, judged.is_unreadable).await),
            Passed::Changed(changed) => {
                message = changed;
                repeat(&mut headers, &message);
                said = Said::read(&message);
            }
        }
    }
    asked.said = said;
    asked.headers = headers;
    Ok(send(asked, message).await)
}

/// Whether a request may come in, by its head.
fn check(hub: &Hub, head: &request::Parts) -> Result<(), Refused> {
    if let Err(shut) = hub.gate.check(&head.uri, &head.headers) {
        return refuse(StatusCode::FORBIDDEN, &shut.to_string());
    }
    if head.method == Method::CONNECT {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "there are no tunnels here");
    }
    if let Some(name) = heads::repeated(&head.headers) {
        let words = format!("the field `{name}` may stand there once");
        return refuse(StatusCode::BAD_REQUEST, &words);
    }
    let session = head.headers.get(SESSION);
    if session.is_some_and(|session| session.len() > MAX_SESSION) {
        return refuse(StatusCode::BAD_REQUEST, "the session's name is too long");
    }
    let coding = head.headers.get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| Coding::of(coding.as_bytes()) != Coding::Identity) {
        let words = "messages to the gateway must not be compressed";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, words);
    }
    if heads::has_foreign_alphabet(&head.headers) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "JSON is UTF-8");
    }
    Ok(())
}

fn too_large<T>() -> Result<T, Refused> {
    let limit = DEFAULT_MAX_FRAME >> 20;
    let words = format!("the message is larger than {limit} MiB");
    refuse(StatusCode::PAYLOAD_TOO_LARGE, &words)
}

/// Reads a client's body, and holds memory for it.
async fn read(hub: &Hub, mut body: Incoming) -> Result<(Bytes, Held), Refused> {
    let mut held = hub.room.hold();
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
                    return refuse(StatusCode::BAD_REQUEST, "the message broke off");
                }
                Err(_) => return refuse(StatusCode::REQUEST_TIMEOUT, "the message stalled"),
            };
            let Some(piece) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + piece.len() > DEFAULT_MAX_FRAME {
                return too_large();
            }
            if !held.set(bytes.len() + piece.len()) {
                let words = "the gateway holds too many messages; try again later";
                return refuse(StatusCode::SERVICE_UNAVAILABLE, words);
            }
            bytes.extend_from_slice(piece);
        }
        Ok(bytes.freeze())
    };
    match timeout(WHOLE, all).await {
        Ok(bytes) => Ok((bytes?, held)),
        Err(_) => refuse(StatusCode::REQUEST_TIMEOUT, "the message took too long"),
    }
}

/// Brings the fields that repeat a message up to date, where there are such.
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
async fn send(asked: Asked, message: Bytes) -> Response<Flow> {
    let sent = asked.hub.upstream.ask(
        asked.method.clone(),
        asked.uri.clone(),
        asked.headers.clone(),
        message,
    );
    match sent.await {
        Ok(response) => answer::answer(asked, response).await,
        Err(failure) => {
            let status = match failure.code == Code::Word("timeout") {
                true => StatusCode::GATEWAY_TIMEOUT,
                false => StatusCode::BAD_GATEWAY,
            };
            asked.failed(status, &failure.message).await
        }
    }
}
