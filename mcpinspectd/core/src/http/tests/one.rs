//! MCP over HTTP/1.

use proptest::prelude::*;

use super::conversation::*;
use super::*;
use crate::wire::held::Scratch;

#[test]
fn a_session_comes_out_whole() {
    let lines = run_any(&session());
    let text = lines.join("\n");
    let expected = format!(
        "1 > 0 Post /mcp\n\
         1 > 201 {INITIALIZE}\n\
         1 < 0 200 Json session=abc\n\
         1 < 113 {HELLO}\n\
         1 closed true\n\
         2 > 354 Post /mcp session=abc version=2025-06-18\n\
         2 > 503 {INITIALIZED}\n\
         2 < 241 202 Unknown\n\
         2 closed true\n\
         3 > 557 Post /mcp session=abc\n\
         3 > 695 {LIST}\n\
         3 < 310 200 Events\n\
         3 < 400 id=1 {PROGRESS}\n\
         3 < 513 id=2 {TOOLS}\n\
         3 closed true\n\
         4 > 741 Delete /mcp session=abc\n\
         4 < 600 204 Unknown\n\
         4 closed true"
    );
    let strip = |text: &str| -> Vec<Vec<String>> {
        // Positions are checked below, by the bytes found there.
        let words = |line: &str| {
            let words = line.split(' ').map(str::to_owned).enumerate();
            words
                .filter(|(at, _)| *at != 2)
                .map(|(_, word)| word)
                .collect()
        };
        text.lines().map(words).collect()
    };
    assert_eq!(strip(&text), strip(&expected), "{text}");
    assert!(!text.contains("se-cret"));
}

#[test]
fn positions_are_where_the_messages_are() {
    let turns = session();
    let mut bytes = [Vec::new(), Vec::new()];
    for (direction, turn) in &turns {
        bytes[usize::from(*direction == ServerToClient)].extend_from_slice(turn);
    }
    let mut connection = Connection::new(Limits::default());
    let mut count = 0;
    let mut take = |event: Event<'_>| {
        if let Event::Message(message) = event {
            count += 1;
            let bytes = &bytes[usize::from(message.direction == ServerToClient)];
            let at = &bytes[usize::try_from(message.position).unwrap_or(0)..];
            let start: &[u8] = match message.carrier {
                Carrier::Event { .. } => b"event: message",
                Carrier::Request | Carrier::Response => message.bytes,
            };
            assert!(at.starts_with(start));
        }
    };
    let mut positions = [0; 2];
    for (direction, turn) in &turns {
        let position = &mut positions[usize::from(*direction == ServerToClient)];
        connection.push(*direction, *position, turn, &mut take);
        *position += turn.len() as u64;
    }
    assert_eq!(count, 6);
}

#[test]
fn ordinary_traffic_says_nothing() {
    assert_eq!(run_any(&web()), Vec::<String>::new());
}

#[test]
fn a_connection_without_mcp_is_left_after_a_while() {
    let mut turns = Vec::new();
    for _ in 0..50 {
        turns.push(up("GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
        turns.push(down("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    }
    assert_eq!(run_any(&turns), ["> left not_mcp"]);
    turns.splice(60..60, session());
    let lines = run_any(&turns);
    assert!(lines.len() > 15, "{lines:#?}");
}

#[test]
fn the_rest_of_a_body_can_be_skipped() {
    let mut connection = Connection::new(Limits::default());
    let mut nothing = |event: Event<'_>| panic!("{event:?}");
    let head = b"PUT /x HTTP/1.1\r\nContent-Length: 1000\r\n\r\nabc";
    connection.push(ClientToServer, 0, head, &mut nothing);
    assert_eq!(connection.skippable(ClientToServer), 997);
    assert_eq!(connection.skippable(ServerToClient), 0);
    connection.gap(ClientToServer, Some(997), &mut nothing);
    assert_eq!(connection.skippable(ClientToServer), 0);
    let next = head.len() as u64 + 997;
    let (_, request) = post("", INITIALIZE);
    let mut log = Log::default();
    connection.push(ClientToServer, next, &request, &mut |event| {
        log.take(&event)
    });
    assert_eq!(log.lines.len(), 2, "{:?}", log.lines);
    connection.gap(ServerToClient, Some(1), &mut |event| log.take(&event));
}

#[test]
fn pipelined_requests_find_their_answers() {
    let mut requests = Vec::new();
    let mut answers = Vec::new();
    for index in 0..20 {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{index},"method":"tools/list"}}"#);
        requests.extend(post("", &message).1);
        if index % 3 == 0 {
            requests.extend(b"GET /x HTTP/1.1\r\n\r\n");
        }
        answers.extend(json("", &message.replace("method", "result")).1);
        if index % 3 == 0 {
            answers.extend(b"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx");
        }
    }
    let lines = run_any(&[up(&requests), down(&answers)]);
    let of = |way: &str| -> Vec<String> {
        let start = format!(" {way} ");
        let lines = lines
            .iter()
            .filter(|line| line.contains(&start) && line.contains("\"id\""));
        lines
            .map(|line| line.split(' ').next().unwrap_or("").to_owned())
            .collect()
    };
    assert_eq!(of(">").len(), 20);
    assert_eq!(of(">"), of("<"));
}

#[test]
fn the_older_transport_is_followed() {
    let stream = [
        up("GET /sse HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n"),
        down("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"),
        down("event: endpoint\ndata: /messages/?session_id=se-cret\n\n"),
        down(format!("event: message\ndata: {HELLO}\n\n")),
    ];
    let lines = run_any(&stream);
    let expected = [
        "1 > 0 Get /sse".to_owned(),
        "1 < 0 200 Events".to_owned(),
        "1 endpoint Some(\"/messages/\")".to_owned(),
        format!("1 < 105 event {HELLO}"),
        "1 closed true".to_owned(),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn heads_that_disagree_with_their_message_are_told() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}"#;
    let lines = run_any(&[
        post(
            "Mcp-Method: tools/list\r\nMcp-Name: ls\r\nMCP-Protocol-Version: 2026-07-28\r\n",
            call,
        ),
        json("", TOOLS),
    ]);
    assert!(
        lines.contains(&"1 Mcp-Method tools/list Some(\"tools/call\")".to_owned()),
        "{lines:#?}"
    );
    assert!(lines.contains(&"1 Mcp-Name ls Some(\"rm\")".to_owned()));
}

#[test]
fn two_readers_may_disagree_and_neither_is_chosen() {
    let good = post("Mcp-Session-Id: s\r\n", LIST);
    let start = "POST /mcp HTTP/1.1\r\nMcp-Session-Id: s\r\nContent-Type: application/json\r\n";
    for (anomaly, rest) in [
        (
            "length_and_coding",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "several_lengths",
            "Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456",
        ),
        ("malformed_length", "Content-Length: +5\r\n\r\n12345"),
        (
            "unknown_transfer_coding",
            "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        ),
        (
            "unknown_transfer_coding",
            "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        ),
        ("folded_field", "X: a\r\n b\r\n\r\n"),
        ("space_in_field_name", "Content-Length : 5\r\n\r\n12345"),
        ("bare_line_feed", "X: a\nContent-Length: 5\r\n\r\n12345"),
        (
            "bare_carriage_return",
            "X: a\rContent-Length: 5\r\n\r\n12345",
        ),
        (
            "malformed_chunk",
            "Transfer-Encoding: chunked\r\n\r\n0x5\r\n12345\r\n0\r\n\r\n",
        ),
        (
            "malformed_chunk",
            "Transfer-Encoding: chunked\r\n\r\n5 \r\n12345\r\n0\r\n\r\n",
        ),
        (
            "malformed_chunk",
            "Transfer-Encoding: chunked\r\n\r\n5\n12345\r\n0\r\n\r\n",
        ),
        (
            "malformed_chunk",
            "Transfer-Encoding: chunked\r\n\r\n5\r\n12345X\r\n0\r\n\r\n",
        ),
        (
            "malformed_chunk",
            "Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\n",
        ),
        ("malformed_head", "Bad\x01Name: x\r\n\r\n"),
    ] {
        // What follows would be a message to a reader who chose wrongly.
        let bad = up(format!("{start}{rest}{}", String::from_utf8_lossy(&good.1)));
        let lines = run_any(&[good.clone(), json("", TOOLS), bad, json("", TOOLS)]);
        let told = lines.iter().filter(|line| line.ends_with(anomaly)).count();
        assert_eq!(told, 1, "{anomaly}: {lines:#?}");
        assert!(lines.contains(&"> left ambiguous".to_owned()), "{lines:#?}");
        let requests = lines
            .iter()
            .filter(|line| line.contains("tools/list"))
            .count();
        assert_eq!(requests, 1, "{lines:#?}");
    }
}

#[test]
fn a_protocol_that_replaces_http_ends_it() {
    let upgrade = "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    let lines = run_any(&[
        up(upgrade),
        down("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x01\x02\x03"),
        up(format!("\x01\x02{LIST}")),
    ]);
    assert_eq!(lines, ["< left upgraded"]);
    let lines = run_any(&[up("SSH-2.0-OpenSSH_9.2p1\r\n"), down("SSH-2.0-OpenSSH\r\n")]);
    assert_eq!(lines, ["> left not_http"]);
}

#[test]
fn heads_and_waiting_requests_are_bounded() {
    let limits = Limits::default();
    let mut connection = Connection::new(limits);
    let mut log = Log::default();
    let mut position = 0;
    let mut push = |connection: &mut Connection, bytes: &[u8], log: &mut Log| {
        connection.push(ClientToServer, position, bytes, &mut |event| {
            log.take(&event)
        });
        position += bytes.len() as u64;
    };
    push(&mut connection, &post("", LIST).1, &mut log);
    push(&mut connection, b"GET /x HTTP/1.1\r\n", &mut log);
    for _ in 0..10_000 {
        push(&mut connection, b"X-Endless: and another one\r\n", &mut log);
    }
    assert!(
        log.lines.contains(&"? > head_too_large".to_owned()),
        "{:?}",
        log.lines
    );
    let many: String = (0..300).map(|index| format!("X-{index}: y\r\n")).collect();
    let lines = run_any(&[
        post("", LIST),
        json("", TOOLS),
        up(format!("GET /x HTTP/1.1\r\n{many}\r\n")),
    ]);
    assert!(
        lines.contains(&"? > head_too_large".to_owned()),
        "{lines:?}"
    );
    let flood = post("", LIST).1.repeat(2 * limits.max_exchanges);
    let lines = run(&[up(flood)], usize::MAX);
    assert!(lines.contains(&"? > too_many_exchanges".to_owned()));
}

#[test]
fn compressed_bodies_are_read_and_bombs_are_not() {
    use std::io::Write as _;

    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder
            .write_all(text)
            .and_then(|()| encoder.finish())
            .unwrap_or_default()
    };
    let answer = |body: &[u8]| {
        let length = body.len();
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        down(bytes)
    };
    let lines = run_any(&[post("", LIST), answer(&gzip(TOOLS.as_bytes()))]);
    assert!(lines.iter().any(|line| line.ends_with(TOOLS)), "{lines:?}");
    let bomb = gzip(&vec![b' '; 65 << 20]);
    let lines = run(&[post("", LIST), answer(&bomb)], 1000);
    assert!(
        lines.iter().any(|line| line.ends_with("too_large")),
        "{lines:?}"
    );
}

#[test]
fn unfinished_messages_share_one_room() {
    let limits = Limits {
        max_unfinished: 100 << 10,
        ..Limits::default()
    };
    let mut connection = Connection::new(limits);
    let mut log = Log::default();
    let long = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":"{}""#,
        "x".repeat(1 << 20)
    );
    let (_, bytes) = post("", &long);
    for (index, piece) in bytes.chunks(1000).enumerate() {
        connection.push(ClientToServer, index as u64 * 1000, piece, &mut |event| {
            log.take(&event)
        });
        assert!(connection.usage().total() <= 120 << 10);
    }
    assert!(
        log.lines.iter().any(|line| line.ends_with("too_large")),
        "{:?}",
        log.lines
    );
}

#[test]
fn messages_in_files_are_the_same_messages() {
    let filler = "x".repeat(1 << 20);
    let call =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"a":"{filler}"}}}}"#);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{{\"a\":\"{filler}\"}}}}\n\n"
    );
    let told = |scratch: Option<&mut Scratch>| {
        let mut scratch = scratch;
        let mut connection = Connection::new(Limits::default());
        let mut log = Log::default();
        let mut most = 0;
        for (direction, bytes) in [post("", &call), down(answer.clone())] {
            for (index, piece) in bytes.chunks(1000).enumerate() {
                let position = index as u64 * 1000;
                connection.push(direction, position, piece, &mut |event| log.take(&event));
                if let Some(scratch) = &mut scratch
                    && connection.spillable() > 0
                {
                    connection.spill_largest(scratch);
                }
                most = most.max(connection.usage().files);
            }
        }
        connection.end(ServerToClient, &mut |event| log.take(&event));
        assert_eq!(connection.usage().files, 0);
        (log.lines, most)
    };
    let (in_memory, none) = told(None);
    let (in_files, most) = told(Some(&mut Scratch::new(std::env::temp_dir())));
    assert_eq!(in_files, in_memory);
    assert!(none == 0 && most > 1_000_000, "{none}, {most}");
}

#[test]
fn the_window_of_a_compressed_stream_counts() {
    let limits = Limits {
        max_unfinished: 1 << 20,
        ..Limits::default()
    };
    let events = ": nothing is kept of a comment\n".repeat(4 << 15);
    let stream = zstd::encode_all(events.as_bytes(), 3).unwrap_or_default();
    let mut answer =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: zstd\r\n\r\n"
            .to_vec();
    answer.extend_from_slice(&stream);
    let mut connection = Connection::new(limits);
    let mut log = Log::default();
    for (direction, bytes) in [post("", LIST), down(answer)] {
        connection.push(direction, 0, &bytes, &mut |event| log.take(&event));
    }
    assert!(connection.usage().total() < 100 << 10, "given up");
    connection.end(ServerToClient, &mut |event| log.take(&event));
    let is_told = log.lines.iter().any(|line| line.ends_with("compressed"));
    assert!(is_told, "{:?}", log.lines);
}

#[test]
fn a_head_in_progress_counts() {
    let mut connection = Connection::new(Limits::default());
    let mut log = Log::default();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: h\r\nA: {}", "x".repeat(50_000));
    connection.push(ClientToServer, 0, head.as_bytes(), &mut |event| {
        log.take(&event)
    });
    assert!(connection.usage().total() >= 50_000);
    assert!(
        !connection.abandon_largest(),
        "there is no message to give up"
    );
}

proptest! {
    #[test]
    fn cuts_make_no_difference(cuts in prop::collection::vec(0_usize..1700, 0..12), piece in 1_usize..300) {
        let turns = session();
        let whole = run(&turns, usize::MAX);
        let mut cut: Conversation = Vec::new();
        let mut at = 0;
        for (direction, bytes) in turns {
            let mut rest = &bytes[..];
            for cut_at in &cuts {
                if let Some(here) = cut_at.checked_sub(at) && here < rest.len() {
                    let (one, other) = rest.split_at(here);
                    cut.push((direction, one.to_vec()));
                    at += one.len();
                    rest = other;
                }
            }
            at += rest.len();
            cut.push((direction, rest.to_vec()));
        }
        prop_assert_eq!(run(&cut, piece), whole);
    }

    /// Damaged bytes cause no panic, and cuts still make no difference.
    #[test]
    fn damage_is_the_same_in_pieces(
        damage in prop::collection::vec((0_usize..9, 0_usize..400, any::<u8>()), 1..6),
        is_web in any::<bool>(),
    ) {
        let mut turns = if is_web { web() } else { session() };
        for (turn, at, byte) in damage {
            if let Some((_, bytes)) = turns.get_mut(turn) && let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        let whole = run(&turns, usize::MAX);
        for piece in [1, 5, 40] {
            prop_assert_eq!(&run(&turns, piece), &whole);
        }
    }
}
