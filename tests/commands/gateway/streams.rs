//! Streams of events: cut anywhere, resumed, broken off, read slowly, and in the transport of 2024.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;

use super::stub::{OpenStream, StubServer};
use super::{Gateway, JUDGED, RULES, call};

/// Events as odd as the standard allows; the answer to request 1 is in lines of its own.
const STREAM: &str = "\u{feff}: hello\r\n\r\nid: 1\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\r\n\r\nretry: 5\n\n: inside\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"t\":\"hunter2\"}}\nid: 2\n\nid: 3\rdata: {\"jsonrpc\":\"2.0\",\"method\":\"m\"}\r\r";

#[test]
fn a_stream_may_be_cut_anywhere() {
    let cuts = std::sync::atomic::AtomicUsize::new(0);
    let stub = StubServer::start(move |_, out| {
        let at = cuts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % STREAM.len();
        out.chunked("content-type: text/event-stream\r\n");
        for piece in [&STREAM.as_bytes()[..at], &STREAM.as_bytes()[at..]] {
            if !piece.is_empty() {
                out.chunk(piece);
            }
            // So that the pieces arrive one by one, most of the time.
            std::thread::sleep(Duration::from_millis(2));
        }
        out.end();
    });
    let masked = STREAM.replace(
        "{\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"t\":\"hunter2\"}}",
        "{\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{\"t\":\"«redacted»\"}}",
    );
    for (policy, expected) in [(JUDGED, STREAM), ("", STREAM), (RULES, &masked)] {
        let gateway = Gateway::before(policy, &stub);
        for at in 0..STREAM.len() {
            let answer = gateway.post(&call(1, "env"));
            assert_eq!(answer.text(), expected, "{at}");
        }
    }
}

/// Readers that end lines where the standard does not see another event.
#[test]
fn events_that_readers_cut_differently_do_not_pass() {
    for (text, expected) in [
        (
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"a\u{2028}\u{2028}data: {}\"}}\n\n",
            Some("a\\u2028\\u2028data: {}"),
        ),
        (
            "id: 7\u{2028}data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            None,
        ),
        (
            ": \u{85}data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            None,
        ),
        (
            "Data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n",
            None,
        ),
        // The last event lacks its end, and some readers take it all the same.
        (
            "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"hunter2\"}}",
            Some("«redacted»"),
        ),
    ] {
        let stub = StubServer::start(move |_, out| {
            out.respond(
                "200 OK",
                "content-type: text/event-stream\r\n",
                text.as_bytes(),
            );
        });
        let gateway = Gateway::before(RULES, &stub);
        let answer = gateway.post(&call(1, "env")).text();
        match expected {
            Some(expected) => assert!(answer.contains(expected), "{text:?}: {answer}"),
            None => assert!(
                !answer.contains("result") && answer.contains("-32603"),
                "{text:?}: {answer}"
            ),
        }
    }
}

#[test]
fn a_server_that_dies_leaves_an_error_that_the_client_understands() {
    for (kind, text, resumable) in [
        ("application/json", "{\"jsonrpc\":\"2.0\",", false),
        (
            "text/event-stream",
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\ndata: {\"json",
            false,
        ),
        (
            "text/event-stream",
            "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\ndata: {\"json",
            true,
        ),
    ] {
        let stub = StubServer::start(move |_, out| {
            out.chunked(&format!("content-type: {kind}\r\n"));
            out.chunk(text.as_bytes());
            std::thread::sleep(Duration::from_millis(50));
            out.die();
        });
        for policy in [RULES, ""] {
            let gateway = Gateway::before(policy, &stub);
            let answer = gateway.post(&call(1, "x"));
            if resumable {
                assert!(
                    !answer.is_whole && answer.text().ends_with("\"a\"}\n\n"),
                    "{answer:?}"
                );
                continue;
            }
            assert!(
                answer.is_whole
                    && answer
                        .text()
                        .contains("\"id\":1,\"error\":{\"code\":-32603"),
                "{answer:?}"
            );
        }
    }
    let nobody = Gateway::start(RULES, "http://127.0.0.1:1/mcp", &[]);
    let answer = nobody.post(&call(1, "x"));
    assert_eq!((answer.status, &answer.json()["id"]), (502, &json!(1)));
    assert!(
        answer.text().contains("refused the connection"),
        "{answer:?}"
    );
    let silent = StubServer::start(|_, out| out.wait());
    let gateway = Gateway::start(RULES, &silent.url("/mcp"), &["--timeout", "1"]);
    assert_eq!(gateway.post(&call(1, "x")).status, 504);
}

/// An answer that was sent before comes again on a stream that is resumed, and is judged as it was.
#[test]
fn a_stream_is_resumed() {
    let stub = StubServer::start(|seen, out| {
        let event =
            "id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"hunter2\"}}\n\n";
        match seen.field("last-event-id") {
            Some(last) => assert_eq!(last, "1"),
            None if seen.head.starts_with("GET") => return out.respond("405 No", "", b""),
            None => {}
        }
        out.respond(
            "200 OK",
            "content-type: text/event-stream\r\n",
            event.as_bytes(),
        );
    });
    let gateway = Gateway::before(RULES, &stub);
    let session = "mcp-session-id: s\r\n";
    let first = gateway.ask("POST", "/mcp", session, &call(1, "env"));
    let fields = format!("{session}last-event-id: 1\r\n");
    let again = gateway.ask("GET", "/mcp", &fields, "");
    assert_eq!(first.text(), again.text());
    assert!(first.text().contains("«redacted»"), "{first:?}");
    assert_eq!(gateway.ask("GET", "/mcp", session, "").status, 405);
}

#[test]
fn the_transport_of_2024_posts_to_the_gateway() {
    let (said, says) = std::sync::mpsc::channel::<String>();
    let says = std::sync::Mutex::new(says);
    let said = std::sync::Mutex::new(said);
    let stub = StubServer::start(move |seen, out| {
        if seen.head.starts_with("POST") {
            let id = seen.id();
            let answer = format!(
                "event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"t\":\"hunter2\"}}}}\n\n"
            );
            said.lock().unwrap().send(answer).unwrap();
            return out.respond("202 Accepted", "", b"Accepted");
        }
        let host = seen.field("host").unwrap();
        let endpoint = match seen.head.contains("/away") {
            true => "http://evil.example/messages".to_owned(),
            false => format!("http://{host}/messages?sessionId=abc"),
        };
        out.chunked("content-type: text/event-stream\r\n");
        out.chunk(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes());
        if seen.head.contains("/away") {
            return out.wait();
        }
        let says = says.lock().unwrap();
        while let Ok(event) = says.recv_timeout(Duration::from_secs(20)) {
            out.chunk(event.as_bytes());
        }
    });
    let gateway = Gateway::start(RULES, &stub.url("/sse"), &[]);
    let away = OpenStream::get(gateway.address(), "/away", "").rest();
    assert!(!away.contains("evil"), "{away}");
    let mut stream = OpenStream::get(gateway.address(), "/sse", "");
    stream.until("data: /messages?sessionId=abc\n\n");
    let post = |message: &str| {
        gateway
            .ask("POST", "/messages?sessionId=abc", "", message)
            .status
    };
    assert_eq!(post(&call(1, "env")), 202);
    stream.until("«redacted»");
    assert_eq!(post(&call(2, "write")), 202);
    let text = stream.until("Read only.");
    assert!(
        !text.contains("hunter2") && text.contains("\"id\":2"),
        "{text}"
    );
}

#[test]
fn a_slow_client_costs_little_and_holds_up_nobody() {
    let stub = StubServer::start(|seen, out| {
        if seen.head.starts_with("POST") {
            return out.json(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        }
        out.chunked("content-type: text/event-stream\r\n");
        let text = "x".repeat(64 << 10);
        let event = format!(
            "data: {{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{{\"t\":\"{text}\"}}}}\n\n"
        );
        for _ in 0..4000 {
            out.chunk(event.as_bytes());
        }
    });
    let gateway = Gateway::before(JUDGED, &stub);
    let slow: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.address()).unwrap();
            let head = "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    // Long enough for a quarter of a gigabyte, were it not held back.
    std::thread::sleep(Duration::from_secs(3));
    for _ in 0..20 {
        assert_eq!(gateway.post(&call(1, "a")).status, 200);
    }
    let memory = gateway.running.memory();
    assert!(memory < 100 << 20, "{memory} bytes");
    drop(slow);
}
