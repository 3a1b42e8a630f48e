//! Connections that speak HTTP, without a kernel.

use mcpinspect_common::{
    ConnectionReport, End, EndpointKey, EndpointKind, NO_REQUESTS, PLACE_WORDS, TlsNews,
    UNIX_ADDRESS,
};
use mcpinspect_core::model::{BlindMechanism, Direction, Segment, ServerEndpoint};
use mcpinspect_process::fds::Access;

use super::fixture::{Fixture, USER};
use super::{CLIENT, SECOND, SERVER};
use crate::capture::KernelRecord;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// One end of a connection.
fn socket(ino: u64) -> EndpointKey {
    EndpointKey {
        ino,
        dev: 0,
        kind: EndpointKind::HttpSocket as u32,
    }
}

fn ip(last: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, last]
}

/// The kernel's report of the client's end of a connection from a port; `end` is where its first bytes
/// crossed.
fn connect(fixture: &mut Fixture, key: EndpointKey, port: u16, is_client: bool) {
    connect_to(0, fixture, key, port, is_client);
}

/// The same, with a TLS greeting unless that is 0.
fn connect_to(greeting: u64, fixture: &mut Fixture, key: EndpointKey, port: u16, is_client: bool) {
    let requests_at = if is_client { End::Writer } else { End::Reader };
    let (local_port, remote_port) = if is_client { (port, 80) } else { (80, port) };
    let report = ConnectionReport {
        local: ip(1),
        remote: ip(1),
        local_port,
        remote_port,
        network: 1,
        requests_at: requests_at as u32,
        is_tls: u32::from(key.kind == EndpointKind::TlsSocket as u32),
        greeting,
        ..ConnectionReport::default()
    };
    fixture.hold(key, CLIENT, Access::Both);
    let tgid = if is_client { CLIENT } else { SERVER };
    fixture.record(
        tgid,
        KernelRecord::Connected {
            key,
            end: requests_at,
            report,
            uid: USER,
        },
    );
}

/// The report of a Unix socket that the `listener` at a place, in the form of `sun_path`, accepted.
pub fn unix(listener: u64, ino: u64, place: &[u8]) -> ConnectionReport {
    let address = |number: u64| {
        let mut address = [0; 16];
        address[..8].copy_from_slice(&UNIX_ADDRESS);
        address[8..].copy_from_slice(&number.to_ne_bytes());
        address
    };
    let mut words = [0; PLACE_WORDS];
    for (word, bytes) in words.iter_mut().zip(place.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    ConnectionReport {
        local: address(listener),
        remote: address(ino),
        requests_at: End::Reader as u32,
        peer: CLIENT,
        place_length: place.len() as u64,
        place: words,
        ..ConnectionReport::default()
    }
}

/// The kernel reports a socket that was accepted where a Unix socket listens.
fn accept_unix(fixture: &mut Fixture, key: EndpointKey) {
    let report = unix(9, key.ino, b"/run/mcp\0");
    fixture.hold(key, SERVER, Access::Both);
    fixture.record(
        SERVER,
        KernelRecord::Connected {
            key,
            end: End::Reader,
            report,
            uid: USER,
        },
    );
}

#[test]
fn connections_to_a_unix_socket_have_a_client_and_share_sessions() {
    let mut fixture = Fixture::new();
    let [one, two] = [1, 2].map(socket);
    accept_unix(&mut fixture, one);
    fixture.moves(SERVER, one, End::Reader, post("", INITIALIZE).as_bytes());
    fixture.moves(SERVER, one, End::Writer, ok(ID, ANSWER).as_bytes());
    accept_unix(&mut fixture, two);
    fixture.moves(SERVER, two, End::Reader, post(ID, LIST).as_bytes());
    fixture.wait(SECOND);
    assert_eq!(fixture.collected.starts.len(), 1);
    assert_eq!(fixture.collected.client, Some(CLIENT));
    let url = "http+unix://%2Frun%2Fmcp/mcp".to_owned();
    let start = &fixture.collected.starts[0];
    assert_eq!(start.endpoint, ServerEndpoint::Http { url });
    assert!(fixture.world.borrow().sought.is_empty(), "it is known");
    assert_eq!(
        told(&fixture),
        [format!("{INITIALIZE}{LIST}"), ANSWER.to_owned()]
    );
}

fn post(session: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{session}\r\n{body}"
    )
}

fn ok(session: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{session}\r\n{body}"
    )
}

const ID: &str = "Mcp-Session-Id: abc\r\n";

/// What the sessions said, in order.
fn told(fixture: &Fixture) -> [String; 2] {
    [Direction::ClientToServer, Direction::ServerToClient]
        .map(|direction| String::from_utf8_lossy(fixture.sent(direction)).into_owned())
}

#[test]
fn a_session_spans_connections() {
    let mut fixture = Fixture::new();
    let [one, two] = [1, 2].map(socket);
    connect(&mut fixture, one, 5000, true);
    fixture.moves(CLIENT, one, End::Writer, post("", INITIALIZE).as_bytes());
    assert!(
        fixture.collected.starts.is_empty(),
        "the server may show itself"
    );
    fixture.moves(CLIENT, one, End::Reader, ok(ID, ANSWER).as_bytes());
    connect(&mut fixture, two, 5001, true);
    fixture.moves(CLIENT, two, End::Writer, post(ID, LIST).as_bytes());
    assert_eq!(fixture.collected.starts.len(), 1);
    let start = &fixture.collected.starts[0];
    let url = "http://h/mcp".to_owned();
    assert_eq!(start.endpoint, ServerEndpoint::Http { url: url.clone() });
    assert_eq!(
        (&*start.server.server_id.0, start.joined_midstream),
        (&*url, false)
    );
    assert_eq!(
        told(&fixture),
        [format!("{INITIALIZE}{LIST}"), ANSWER.to_owned()]
    );
    assert_eq!(fixture.limit(one), [u64::MAX; 2], "all of it from now on");
    // Another id is another session.
    let other = "Mcp-Session-Id: other\r\n";
    fixture.moves(CLIENT, two, End::Reader, ok("", ANSWER).as_bytes());
    fixture.moves(CLIENT, two, End::Writer, post(other, LIST).as_bytes());
    fixture.moves(CLIENT, two, End::Reader, ok("", ANSWER).as_bytes());
    assert_eq!(fixture.collected.starts.len(), 2);
    assert!(fixture.collected.starts[1].joined_midstream);
    // The client ends the first.
    let delete = format!("DELETE /mcp HTTP/1.1\r\nHost: h\r\n{ID}\r\n");
    fixture.moves(CLIENT, one, End::Writer, delete.as_bytes());
    fixture.moves(
        CLIENT,
        one,
        End::Reader,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(
        fixture.collected.lines.last().map(String::as_str),
        Some("ended deleted")
    );
}

#[test]
fn what_was_encrypted_goes_the_same_way() {
    let mut fixture = Fixture::new();
    let one = EndpointKey {
        kind: EndpointKind::TlsSocket as u32,
        ..socket(1)
    };
    connect(&mut fixture, one, 5000, true);
    fixture.moves(CLIENT, one, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, one, End::Reader, ok(ID, ANSWER).as_bytes());
    // The server's process is looked for, but not found.
    fixture.wait(SECOND / 10);
    fixture.wait(SECOND / 10);
    let url = "https://h/mcp".to_owned();
    assert_eq!(
        fixture.collected.starts[0].endpoint,
        ServerEndpoint::Http { url }
    );
    assert_eq!(told(&fixture), [INITIALIZE, ANSWER]);
}

#[test]
fn who_holds_the_other_end_is_named() {
    for kind in [EndpointKind::HttpSocket, EndpointKind::TlsSocket] {
        let mut fixture = Fixture::new();
        fixture.world.borrow_mut().owner = Some(CLIENT);
        let server = EndpointKey {
            kind: kind as u32,
            ..socket(2)
        };
        connect(&mut fixture, server, 5000, false);
        fixture.moves(SERVER, server, End::Reader, post("", INITIALIZE).as_bytes());
        fixture.moves(SERVER, server, End::Writer, ok(ID, ANSWER).as_bytes());
        fixture.wait(SECOND / 10);
        let sought = fixture.world.borrow().sought.clone();
        assert_eq!(sought.len(), 1);
        assert_eq!(sought[0].near, SERVER);
        assert_eq!(sought[0].local.to_string(), "127.0.0.1:5000");
        assert_eq!(sought[0].remote.to_string(), "127.0.0.1:80");
        fixture.wait(SECOND / 10);
        assert_eq!(fixture.collected.client, Some(CLIENT));
        assert_eq!(told(&fixture), [INITIALIZE, ANSWER]);
        fixture.wait(SECOND);
        assert_eq!(fixture.world.borrow().sought.len(), 1, "once");
    }
}

#[test]
fn who_was_seen_at_the_other_end_is_not_sought() {
    let mut fixture = Fixture::new();
    let socket = |ino| EndpointKey {
        kind: EndpointKind::TlsSocket as u32,
        ..socket(ino)
    };
    fixture.world.borrow_mut().greeters = [(2, CLIENT), (3, CLIENT + 1)].into();
    for (ino, client) in [(2, CLIENT), (3, CLIENT + 1)] {
        let key = socket(ino);
        connect_to(ino, &mut fixture, key, 5000 + ino as u16, false);
        fixture.moves(SERVER, key, End::Reader, post("", LIST).as_bytes());
        fixture.moves(SERVER, key, End::Writer, ok("", ANSWER).as_bytes());
        assert_eq!(fixture.collected.client, Some(client), "from the first");
    }
    assert_eq!(fixture.collected.starts.len(), 2, "two clients");
    fixture.wait(SECOND);
    assert!(fixture.world.borrow().sought.is_empty());
}

#[test]
fn clients_without_a_name_are_told_apart_once_they_are_known() {
    let mut fixture = Fixture::new();
    let socket = |ino| EndpointKey {
        kind: EndpointKind::TlsSocket as u32,
        ..socket(ino)
    };
    let exchange = |fixture: &mut Fixture, key| {
        fixture.moves(SERVER, key, End::Reader, post("", LIST).as_bytes());
        fixture.moves(SERVER, key, End::Writer, ok("", ANSWER).as_bytes());
        fixture.wait(SECOND / 10);
        fixture.wait(SECOND / 10);
        fixture.collected.starts.len()
    };
    fixture.world.borrow_mut().owner = Some(CLIENT);
    connect(&mut fixture, socket(2), 5000, false);
    assert_eq!(exchange(&mut fixture, socket(2)), 1);
    // Another process: until it is found, nothing distinguishes it from the first.
    fixture.world.borrow_mut().owner = Some(CLIENT + 1);
    connect(&mut fixture, socket(3), 5001, false);
    assert_eq!(exchange(&mut fixture, socket(3)), 1);
    assert_eq!(fixture.collected.client, Some(CLIENT), "still its client");
    assert_eq!(exchange(&mut fixture, socket(3)), 2);
    // One that arrives after both are gone is neither, even if it is never found.
    fixture.world.borrow_mut().owner = None;
    fixture.world.borrow_mut().gone.extend([CLIENT, CLIENT + 1]);
    connect(&mut fixture, socket(4), 5002, false);
    assert_eq!(exchange(&mut fixture, socket(4)), 3);
}

#[test]
fn another_library_for_tls_is_told_of_who_speaks_mcp() {
    let told = |fixture: &Fixture| {
        let lines = fixture.collected.lines.iter();
        let expected = format!("blind tls_library: no known TLS library in /bin/{CLIENT}");
        lines.filter(|line| **line == expected).count()
    };
    let mut fixture = Fixture::new();
    fixture.world.borrow_mut().unseen_tls = vec![CLIENT, SERVER + 1000];
    fixture.wait(SECOND);
    assert_eq!(told(&fixture), 0, "others may encrypt as they like");
    let one = socket(1);
    connect(&mut fixture, one, 5000, true);
    fixture.moves(CLIENT, one, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, one, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.wait(SECOND);
    fixture.wait(SECOND);
    assert_eq!(told(&fixture), 1, "once");
}

#[test]
fn another_library_is_not_told_of_who_has_a_number_later() {
    let mut fixture = Fixture::new();
    fixture.world.borrow_mut().unseen_tls = vec![CLIENT];
    fixture.wait(SECOND);
    fixture.world.borrow_mut().started = 7;
    let one = socket(1);
    connect(&mut fixture, one, 5000, true);
    fixture.moves(CLIENT, one, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, one, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.wait(SECOND);
    let mut lines = fixture.collected.lines.iter();
    assert!(!lines.any(|line| line.starts_with("blind")));
}

#[test]
fn a_process_that_pays_too_much_is_left_alone_until_it_speaks_mcp() {
    let mut fixture = Fixture::new();
    let busy = || KernelRecord::Library {
        news: TlsNews::Busy,
    };
    fixture.record(CLIENT, busy());
    fixture.record(SERVER + 1000, busy());
    fixture.wait(SECOND);
    let left = [(CLIENT, false), (SERVER + 1000, false)];
    assert_eq!(fixture.world.borrow().libraries, left);
    let one = socket(1);
    connect(&mut fixture, one, 5000, true);
    fixture.moves(CLIENT, one, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, one, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.wait(SECOND);
    fixture.record(CLIENT, busy());
    fixture.wait(SECOND);
    let wanted = [left[0], left[1], (CLIENT, true)];
    assert_eq!(fixture.world.borrow().libraries, wanted);
}

#[test]
fn of_two_ends_one_counts_and_nothing_is_told_twice() {
    let mut fixture = Fixture::new();
    let [client, server] = [1, 2].map(socket);
    // The server's call returns first.
    connect(&mut fixture, server, 5000, false);
    let request = post("", INITIALIZE);
    fixture.moves(SERVER, server, End::Reader, request.as_bytes());
    connect(&mut fixture, client, 5000, true);
    fixture.moves(CLIENT, client, End::Writer, request.as_bytes());
    let left = fixture.world.borrow().left_alone.get(&server).copied();
    assert_eq!(left.map(|left| left.requests_at), Some(NO_REQUESTS));
    let answer = ok(ID, ANSWER);
    fixture.moves(SERVER, server, End::Writer, answer.as_bytes());
    fixture.moves(CLIENT, client, End::Reader, answer.as_bytes());
    assert_eq!(told(&fixture), [INITIALIZE, ANSWER]);
    assert_eq!(fixture.collected.client, Some(CLIENT));
}

#[test]
fn what_is_not_mcp_is_left_alone_until_it_may_be() {
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    let get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi";
    for _ in 0..20 {
        fixture.moves(CLIENT, key, End::Writer, get.as_bytes());
        fixture.moves(CLIENT, key, End::Reader, page.as_bytes());
    }
    let left = fixture.world.borrow().left_alone.get(&key).copied();
    assert_eq!(left.map(|left| left.requests_at), Some(End::Writer as u32));
    assert!(fixture.collected.lines.is_empty());
    // The probes look again, and there is MCP.
    fixture.world.borrow_mut().counters.clear();
    connect(&mut fixture, key, 5000, true);
    fixture.moves(CLIENT, key, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, key, End::Reader, ok(ID, ANSWER).as_bytes());
    assert_eq!(told(&fixture), [INITIALIZE, ANSWER]);
}

#[test]
fn requests_without_a_session_are_told_apart_by_initialize() {
    let mut fixture = Fixture::new();
    for (ino, port) in [(1, 5000), (2, 5001), (3, 5002)] {
        connect(&mut fixture, socket(ino), port, true);
    }
    let say = |fixture: &mut Fixture, ino, text: &str| {
        fixture.moves(CLIENT, socket(ino), End::Writer, post("", text).as_bytes());
        fixture.moves(CLIENT, socket(ino), End::Reader, ok("", ANSWER).as_bytes());
    };
    say(&mut fixture, 1, INITIALIZE);
    say(&mut fixture, 1, LIST);
    say(&mut fixture, 2, LIST);
    assert_eq!(fixture.collected.starts.len(), 1);
    say(&mut fixture, 3, INITIALIZE);
    assert_eq!(fixture.collected.starts.len(), 2);
}

#[test]
fn bytes_that_do_not_come_are_told() {
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    fixture.moves(CLIENT, key, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, key, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.moves(CLIENT, key, End::Writer, post(ID, LIST).as_bytes());
    // The kernel counts the answer, but it is lost.
    fixture.count(CLIENT, key, End::Reader, ok(ID, ANSWER).len());
    fixture.wait(2 * SECOND);
    fixture.wait(2 * SECOND);
    let gap = fixture
        .collected
        .lines
        .iter()
        .find(|line| line.starts_with("gap"));
    assert!(
        gap.is_some_and(|gap| gap.contains("server_to_client")),
        "{gap:?}"
    );
}

#[test]
fn bytes_that_were_counted_a_moment_ago_are_on_their_way() {
    // Parties that were quiet for longer, as on a busy machine: with the first bytes, with a later call, and with
    // the last one of a connection that is gone.
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    let mut arrives_late = |end, bytes: &str| {
        fixture.wait(2 * SECOND);
        let position = fixture.count(CLIENT, key, end, bytes.len());
        for _ in 0..20 {
            fixture.wait(SECOND / 25);
        }
        let segment = Segment::new(position, bytes.as_bytes());
        fixture.record(CLIENT, KernelRecord::Segment { key, end, segment });
    };
    arrives_late(End::Writer, &post("", INITIALIZE));
    arrives_late(End::Reader, &ok(ID, ANSWER));
    arrives_late(End::Writer, &post(ID, LIST));
    let last = ok(ID, ANSWER);
    let position = fixture.count(CLIENT, key, End::Reader, last.len());
    fixture.world.borrow_mut().holders.clear();
    fixture.wait(9 * SECOND);
    let segment = Segment::new(position, last.as_bytes());
    let end = End::Reader;
    fixture.record(CLIENT, KernelRecord::Segment { key, end, segment });
    let [sent, received] = told(&fixture);
    assert_eq!(sent, format!("{INITIALIZE}{LIST}"));
    assert_eq!(received, format!("{ANSWER}{ANSWER}"));
    let lines = &fixture.collected.lines;
    assert!(
        !lines.iter().any(|line| line.starts_with("gap")),
        "{lines:?}"
    );
}

#[test]
fn a_busy_connection_that_shows_nothing_is_left_alone() {
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    let post = "POST /upload HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n";
    fixture.moves(CLIENT, key, End::Writer, post.as_bytes());
    // More than is shipped crosses it, without a pause.
    for _ in 0..10 {
        fixture.count(CLIENT, key, End::Writer, 1_000_000);
        fixture.wait(SECOND / 2);
    }
    assert!(fixture.world.borrow().forgotten.contains(&key));
}

#[test]
fn an_upgrade_and_ambiguous_bytes_are_told() {
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    fixture.moves(CLIENT, key, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, key, End::Reader, ok(ID, ANSWER).as_bytes());
    let smuggled = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    fixture.moves(CLIENT, key, End::Writer, smuggled.as_bytes());
    let blind = format!("blind {}", BlindMechanism::HttpAmbiguous);
    assert!(
        fixture.collected.lines.contains(&blind),
        "{:?}",
        fixture.collected.lines
    );
}

#[test]
fn sessions_of_2024_end_with_their_stream() {
    let mut fixture = Fixture::new();
    let [stream, posts] = [1, 2].map(socket);
    connect(&mut fixture, stream, 5000, true);
    connect(&mut fixture, posts, 5001, true);
    let get = "GET /sse HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n";
    fixture.moves(CLIENT, stream, End::Writer, get.as_bytes());
    let events = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: /messages?session_id=1\n\n";
    fixture.moves(CLIENT, stream, End::Reader, events.as_bytes());
    let post = post("", INITIALIZE).replace("/mcp", "/messages?session_id=1");
    fixture.moves(CLIENT, posts, End::Writer, post.as_bytes());
    let accepted = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    fixture.moves(CLIENT, posts, End::Reader, accepted.as_bytes());
    let event = format!("data: {ANSWER}\n\n");
    fixture.moves(CLIENT, stream, End::Reader, event.as_bytes());
    assert_eq!(told(&fixture), [INITIALIZE, ANSWER]);
    let url = "http://h/sse".to_owned();
    assert_eq!(
        fixture.collected.starts[0].endpoint,
        ServerEndpoint::Sse { url }
    );
    fixture.record(CLIENT, KernelRecord::EndOfStream { key: stream });
    assert_eq!(
        fixture.collected.lines.last().map(String::as_str),
        Some("ended server_closed")
    );
}

#[test]
fn sockets_that_are_gone_are_forgotten() {
    let mut fixture = Fixture::new();
    let key = socket(1);
    connect(&mut fixture, key, 5000, true);
    fixture.moves(CLIENT, key, End::Writer, post("", INITIALIZE).as_bytes());
    fixture.moves(CLIENT, key, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.world.borrow_mut().holders.clear();
    for _ in 0..5 {
        fixture.wait(4 * SECOND);
    }
    assert!(fixture.world.borrow().forgotten.contains(&key));
    assert_eq!(
        fixture.tracker.sessions(),
        1,
        "it may go on over another connection"
    );
    fixture.wait(700 * SECOND);
    fixture.wait(4 * SECOND);
    assert_eq!(
        fixture.collected.lines.last().map(String::as_str),
        Some("ended idle")
    );
}

#[test]
fn unfinished_messages_of_all_connections_share_one_room() {
    let mut fixture = Fixture::new();
    let honest = socket(1);
    connect(&mut fixture, honest, 5000, true);
    fixture.moves(CLIENT, honest, End::Writer, post("", INITIALIZE).as_bytes());
    let long = LIST.replace(
        '}',
        &format!(r#","params":{{"a":"{}"}}}}"#, "x".repeat(900_000)),
    );
    let long = post("", &long);
    let (begun, rest) = long.as_bytes().split_at(long.len() - 10);
    let connections: Vec<EndpointKey> = (100..140).map(socket).collect();
    for (key, port) in connections.iter().zip(6000..) {
        connect(&mut fixture, *key, port, true);
        fixture.moves(CLIENT, *key, End::Writer, begun);
    }
    let budget = format!("blind connection_budget of {USER}");
    let lines = &fixture.collected.lines;
    assert!(lines.contains(&budget), "{lines:?}");
    // What was given up is a gap, and what was not is there.
    for key in &connections {
        fixture.moves(CLIENT, *key, End::Writer, rest);
    }
    fixture.moves(CLIENT, honest, End::Reader, ok(ID, ANSWER).as_bytes());
    fixture.wait(SECOND);
    let [sent, answered] = told(&fixture);
    assert!(sent.contains(INITIALIZE) && answered.contains(ANSWER));
    assert!((10 * 900_000..30 * 900_000).contains(&sent.len()));
}

#[test]
fn heads_that_never_end_have_a_bound() {
    let mut fixture = Fixture::new();
    for port in 6000..6600 {
        let key = socket(port.into());
        connect(&mut fixture, key, port, true);
        let head = format!("POST /mcp HTTP/1.1\r\nHost: h\r\nA: {}", "x".repeat(60_000));
        fixture.moves(CLIENT, key, End::Writer, head.as_bytes());
    }
    let told = format!("blind connection_budget of {USER}");
    assert_eq!(fixture.collected.lines, [told]);
    let left = fixture.world.borrow().left_alone.len();
    assert!((100..400).contains(&left), "{left}");
}
