//! Many round trips at a time, past the gateway and through it: each answer comes to its request. What they cost,
//! `cargo xtask bench` says.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::stub::StubServer;
use super::{Gateway, call};

/// Requests of a connection.
const REQUESTS: u64 = 20;

/// A hundred rules, of which 70 look at the call and 20 at its result, and none matches.
fn rules() -> String {
    let rule = |number: usize| {
        let when = match number {
            0..70 => format!(
                "method = \"tools/call\", param = {{ path = \"arguments.p{number}\", contains = \"x\" }}"
            ),
            70..90 => {
                format!("result = {{ path = \"content[*].text\", contains = \"never {number}\" }}")
            }
            _ => format!("tool = \"never-{number}\""),
        };
        format!("[[rule]]\nid = \"r{number}\"\nwhen = {{ {when} }}\naction = \"block\"\n")
    };
    (0..100).map(rule).collect()
}

/// Asks over one connection, which is a session, and demands the answer to each request.
fn client(address: &str, session: usize) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut piece = [0; 4096];
    for number in 0..REQUESTS {
        let number = session as u64 * REQUESTS + number;
        let body = call(number, "read");
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: {session}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"}") {
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0);
            got.extend_from_slice(&piece[..length]);
        }
        let got = String::from_utf8(got).unwrap();
        assert!(
            got.contains(&format!(r#""id":{number},"#)),
            "{number}: {got}"
        );
        assert!(
            got.contains(&format!(r#""text":"of session {session}""#)),
            "{session}: {got}"
        );
    }
}

#[test]
fn every_answer_comes_to_its_request() {
    let stub = StubServer::start(|seen, out| {
        let (id, session) = (seen.id(), seen.field("mcp-session-id").unwrap_or_default());
        out.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"of session {session}"}}]}}}}"#));
    });
    let url = stub.url("/mcp");
    let idle = Gateway::start("", &url, &[]);
    let judging = Gateway::start(&rules(), &url, &[]);
    for connections in [1, 64] {
        for gateway in [&idle, &judging] {
            std::thread::scope(|scope| {
                for session in 0..connections {
                    scope.spawn(move || client(gateway.address(), session));
                }
            });
        }
    }
}
