//! The events of a connection do not depend on how it is cut into chunks, nothing panics, and memory is
//! bounded, whatever is sent and lost.
#![cfg_attr(fuzzing, no_main)]

use arbitrary::Arbitrary;
use mcpinspect_core::http::{Connection, Event, Limits};
use mcpinspect_core::model::Direction;
use mcpinspectd_fuzz::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Step<'a> {
    /// Arbitrary bytes.
    Bytes {
        up: bool,
        bytes: &'a [u8],
    },
    /// A request that the fuzzer would hardly find by itself.
    Request {
        fields: &'a str,
        body: &'a str,
    },
    /// A response of a type.
    Response {
        events: bool,
        fields: &'a str,
        body: &'a str,
    },
    /// HTTP/2: the preface, or a frame.
    Preface,
    Frame {
        up: bool,
        kind: u8,
        flags: u8,
        stream: u8,
        payload: &'a [u8],
    },
    Gap {
        up: bool,
        bytes: Option<u8>,
    },
    End {
        up: bool,
    },
}

/// Bytes that heads in progress, tables of compressed heads and open exchanges may take.
const BESIDE: usize = 1 << 20;

const LIMITS: Limits = Limits {
    max_head: 1000,
    max_fields: 20,
    max_message: 2000,
    max_unfinished: 3000,
    max_decompressed: 5000,
    max_compressed: 2,
    max_exchanges: 8,
    max_undecided: 100,
    max_others: 10,
};

fn way(up: bool) -> Direction {
    if up {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}

fn bytes(step: &Step<'_>) -> Option<(Direction, Vec<u8>)> {
    Some(match step {
        Step::Bytes { up, bytes } => (way(*up), bytes.to_vec()),
        Step::Request { fields, body } => {
            let length = body.len();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
            );
            (Direction::ClientToServer, head.into_bytes())
        }
        Step::Response {
            events,
            fields,
            body,
        } => {
            let kind = if *events {
                "text/event-stream"
            } else {
                "application/json"
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
            );
            (Direction::ServerToClient, head.into_bytes())
        }
        Step::Preface => {
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
            (Direction::ClientToServer, preface.to_vec())
        }
        Step::Frame {
            up,
            kind,
            flags,
            stream,
            payload,
        } => {
            let length = u32::try_from(payload.len()).ok()?.to_be_bytes();
            let mut frame = length[1..].to_vec();
            frame.extend([kind % 11, *flags, 0, 0, 0, *stream]);
            frame.extend_from_slice(payload);
            (way(*up), frame)
        }
        Step::Gap { .. } | Step::End { .. } => return None,
    })
}

fn run(steps: &[Step<'_>], piece: usize, limits: Limits) -> Vec<String> {
    let mut connection = Connection::new(limits);
    let mut lines = Vec::new();
    let mut take = |event: Event<'_>| lines.push(format!("{event:?}"));
    let mut positions = [0; 2];
    let place = |direction| usize::from(direction == Direction::ServerToClient);
    for step in steps {
        match step {
            Step::Gap { up, bytes } => {
                let bytes = bytes.map(u64::from);
                positions[place(way(*up))] += bytes.unwrap_or(0);
                connection.gap(way(*up), bytes, &mut take);
            }
            Step::End { up } => connection.end(way(*up), &mut take),
            step => {
                let Some((direction, bytes)) = bytes(step) else {
                    continue;
                };
                for piece in bytes.chunks(piece) {
                    let position = &mut positions[place(direction)];
                    connection.push(direction, *position, piece, &mut take);
                    *position += piece.len() as u64;
                    assert!(
                        connection.usage().total()
                            <= limits.max_unfinished + limits.max_message + BESIDE
                    );
                }
            }
        }
    }
    connection.finish(&mut take);
    assert_eq!(connection.usage().total(), 0);
    lines
}

fuzz_target!(|steps: Vec<Step<'_>>| {
    // What is given up for want of memory depends on how the bytes arrive.
    let roomy = Limits {
        max_unfinished: 1 << 20,
        ..LIMITS
    };
    let whole = run(&steps, usize::MAX, roomy);
    assert_eq!(run(&steps, 1, roomy), whole);
    run(&steps, 7, LIMITS);
});
