//! Whole connections: what comes out, however the bytes come in.

mod conversation;
mod loss;
mod one;
mod two;

use std::fmt::Write as _;

use super::*;
use crate::model::Direction;
use crate::model::Direction::{ClientToServer, ServerToClient};

/// What the parties of a connection send, in turn.
pub(super) type Conversation = Vec<(Direction, Vec<u8>)>;

/// Events, as lines that are easy to compare.
#[derive(Default)]
pub(super) struct Log {
    pub(super) lines: Vec<String>,
}

impl Log {
    pub(super) fn take(&mut self, event: &Event<'_>) {
        self.lines.push(line(event));
    }
}

fn arrow(direction: Direction) -> &'static str {
    match direction {
        ClientToServer => ">",
        ServerToClient => "<",
    }
}

fn number(exchange: Option<Exchange>) -> String {
    exchange.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

fn fields(line: &mut String, fields: &McpFields) {
    let McpFields {
        session,
        version,
        method,
        name,
        last_event,
    } = fields;
    for (key, value) in [
        ("session", session),
        ("version", version),
        ("method", method),
        ("name", name),
        ("last", last_event),
    ] {
        if let Some(value) = value {
            let _ = write!(line, " {key}={value}");
        }
    }
}

fn line(event: &Event<'_>) -> String {
    match event {
        Event::Opened(opened) => {
            let path = opened.target.path.as_deref().unwrap_or("?");
            let (exchange, position) = (opened.exchange, opened.position);
            let mut line = format!("{exchange} > {position} {:?} {path}", opened.method);
            fields(&mut line, opened.fields);
            line
        }
        Event::Answered(answer) => {
            let exchange = number(answer.exchange);
            let (position, status) = (answer.position, answer.status);
            let mut line = format!("{exchange} < {position} {status} {:?}", answer.content);
            fields(&mut line, answer.fields);
            line
        }
        Event::Message(message) => {
            let (exchange, way) = (number(message.exchange), arrow(message.direction));
            let (position, text) = (message.position, String::from_utf8_lossy(message.bytes));
            let id = match message.carrier {
                Carrier::Event { id: Some(id) } => format!(" id={}", String::from_utf8_lossy(id)),
                Carrier::Event { id: None } => " event".to_owned(),
                Carrier::Request | Carrier::Response => String::new(),
            };
            format!("{exchange} {way} {position}{id} {text}")
        }
        Event::Endpoint {
            exchange, target, ..
        } => format!("{} endpoint {:?}", number(*exchange), target.path),
        Event::Disagreement {
            exchange,
            field,
            head,
            message,
            ..
        } => format!(
            "{} {} {head} {message:?}",
            number(*exchange),
            field.as_str()
        ),
        Event::Lost {
            exchange,
            direction,
            position,
            seen,
            missing,
            loss,
        } => {
            let (exchange, way) = (number(*exchange), arrow(*direction));
            format!(
                "{exchange} {way} {position} lost {seen} {missing:?} {}",
                loss.as_str()
            )
        }
        Event::Anomaly {
            exchange,
            direction,
            anomaly,
            ..
        } => format!("{} {} {anomaly}", number(*exchange), arrow(*direction)),
        Event::Closed { exchange, is_whole } => format!("{exchange} closed {is_whole}"),
        Event::Left {
            direction, reason, ..
        } => format!("{} left {}", arrow(*direction), reason.as_str()),
    }
}

/// Runs a connection with each turn cut into pieces of `piece` bytes.
pub(super) fn run(turns: &[(Direction, Vec<u8>)], piece: usize) -> Vec<String> {
    run_with(Connection::new(Limits::default()), turns, piece)
}

pub(super) fn run_with(
    mut connection: Connection,
    turns: &[(Direction, Vec<u8>)],
    piece: usize,
) -> Vec<String> {
    let mut log = Log::default();
    let mut positions = [0; 2];
    for (direction, bytes) in turns {
        let position = &mut positions[usize::from(*direction == ServerToClient)];
        for piece in bytes.chunks(piece.max(1)) {
            connection.push(*direction, *position, piece, &mut |event| log.take(&event));
            *position += piece.len() as u64;
        }
    }
    connection.finish(&mut |event| log.take(&event));
    assert_eq!(connection.usage().total(), 0);
    assert!(connection.is_over());
    log.lines
}

/// Runs a connection whole, byte by byte and in between, and expects the same each time.
pub(super) fn run_any(turns: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let whole = run(turns, usize::MAX);
    for piece in [1, 2, 3, 7, 31, 64, 100] {
        assert_eq!(run(turns, piece), whole, "in pieces of {piece}");
    }
    whole
}

pub(super) fn up(text: impl AsRef<[u8]>) -> (Direction, Vec<u8>) {
    (ClientToServer, text.as_ref().to_vec())
}

pub(super) fn down(text: impl AsRef<[u8]>) -> (Direction, Vec<u8>) {
    (ServerToClient, text.as_ref().to_vec())
}

pub(super) fn post(head: &str, body: &str) -> (Direction, Vec<u8>) {
    let length = body.len();
    up(format!(
        "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n{head}Content-Length: {length}\r\n\r\n{body}"
    ))
}

pub(super) fn json(head: &str, body: &str) -> (Direction, Vec<u8>) {
    let length = body.len();
    down(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}Content-Length: {length}\r\n\r\n{body}"
    ))
}
