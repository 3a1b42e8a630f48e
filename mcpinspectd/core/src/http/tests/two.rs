//! MCP over HTTP/2.

use proptest::prelude::*;

use super::conversation::*;
use super::*;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// One party's compression.
pub(super) struct Peer(loona_hpack::Encoder<'static>);

impl Peer {
    pub(super) fn new() -> Self {
        Self(loona_hpack::Encoder::new())
    }

    pub(super) fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        self.0.encode(fields)
    }

    fn headers(&mut self, stream: u32, end: u8, fields: &[(&str, &str)]) -> Vec<u8> {
        let block = self.block(fields);
        frame(1, END_HEADERS | end, stream, &block)
    }

    fn post(&mut self, stream: u32, session: &str, body: &str) -> Vec<u8> {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/mcp?key=se-cret"),
            (":authority", "h:1"),
            ("content-type", "application/json"),
            ("authorization", "Bearer se-cret"),
            ("mcp-session-id", session),
        ];
        let mut bytes = self.headers(stream, 0, &fields);
        bytes.extend(frame(0, END_STREAM, stream, body.as_bytes()));
        bytes
    }
}

/// A session in which streams overlap, data is padded and cut, and a block spans frames.
pub(super) fn h2_session() -> Conversation {
    let mut start = one_preface();
    start.extend(frame(4, 0, 0, &[0, 3, 0, 0, 0, 100]));
    start.extend(frame(8, 0, 0, &[0, 1, 0, 0]));
    let mut turns = plain();
    turns.insert(0, up(start));
    turns.insert(1, down(frame(4, 0, 0, &[])));
    turns
}

fn one_preface() -> Vec<u8> {
    part::PREFACE.to_vec()
}

/// The same without its beginning.
pub(super) fn plain() -> Conversation {
    let (mut client, mut server) = (Peer::new(), Peer::new());
    let mut turns = vec![up(client.post(1, "abc", INITIALIZE))];
    let block = server.block(&[
        (":status", "200"),
        ("content-type", "application/json"),
        ("mcp-session-id", "abc"),
        ("set-cookie", "se-cret"),
    ]);
    let (one, other) = block.split_at(5);
    let mut answer = frame(1, 0, 1, one);
    answer.extend(frame(9, END_HEADERS, 1, other));
    let (one, other) = HELLO.split_at(20);
    answer.extend(frame(0, 0, 1, one.as_bytes()));
    let mut padded = vec![3];
    padded.extend_from_slice(other.as_bytes());
    padded.extend([0; 3]);
    answer.extend(frame(0, END_STREAM | PADDED, 1, &padded));
    turns.push(down(answer));
    // The stream of events stays open while another request passes.
    turns.push(up(client.headers(
        3,
        END_STREAM,
        &[
            (":method", "GET"),
            (":path", "/mcp"),
            ("accept", "text/event-stream"),
            ("mcp-session-id", "abc"),
        ],
    )));
    let events = [(":status", "200"), ("content-type", "text/event-stream")];
    let mut answer = server.headers(3, 0, &events);
    let event = format!("id: 9\r\ndata: {PROGRESS}\r\n\r\n");
    let (one, other) = event.split_at(30);
    answer.extend(frame(0, 0, 3, one.as_bytes()));
    turns.push(down(answer));
    turns.push(up(client.post(5, "abc", LIST)));
    let mut answer = server.headers(5, 0, &events);
    answer.extend(frame(0, 0, 5, format!("data: {TOOLS}\n\n").as_bytes()));
    answer.extend(frame(0, 0, 3, other.as_bytes()));
    answer.extend(server.headers(5, END_STREAM, &[("x-trailer", "y")]));
    answer.extend(frame(3, 0, 3, &[0, 0, 0, 8]));
    turns.push(down(answer));
    turns
}

#[test]
fn a_session_comes_out_whole() {
    let lines = run_any(&h2_session());
    let strip = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        if words.get(1).is_some_and(|word| word.len() == 1) {
            [&words[..2], &words[3..]].concat().join(" ")
        } else {
            line.clone()
        }
    };
    let lines: Vec<String> = lines.iter().map(strip).collect();
    let expected = [
        "1 > Post /mcp session=abc".to_owned(),
        format!("1 > {INITIALIZE}"),
        "1 < 200 Json session=abc".to_owned(),
        format!("1 < {HELLO}"),
        "1 closed true".to_owned(),
        "2 > Get /mcp session=abc".to_owned(),
        "2 < 200 Events".to_owned(),
        "3 > Post /mcp session=abc".to_owned(),
        format!("3 > {LIST}"),
        "3 < 200 Events".to_owned(),
        format!("3 < event {TOOLS}"),
        format!("2 < id=9 {PROGRESS}"),
        "3 closed true".to_owned(),
        "2 closed false".to_owned(),
    ];
    assert_eq!(lines, expected);
    assert!(!lines.concat().contains("se-cret"));
}

#[test]
fn a_connection_joined_midway_says_what_it_knows() {
    let turns = plain();
    // From the second request on: the session's id is in a table that was not observed.
    let mut connection = Connection::joined(Limits::default());
    let mut log = Log::default();
    let mut positions = [10_000; 2];
    for (direction, bytes) in &turns[2..] {
        let position = &mut positions[usize::from(*direction == ServerToClient)];
        connection.push(*direction, *position, bytes, &mut |event| log.take(&event));
        *position += bytes.len() as u64;
    }
    let text = log.lines.join("\n");
    assert!(text.contains(LIST) && text.contains(TOOLS), "{text}");
}

/// A server of HTTP/2 may send its settings before it has read anything, which looks like the middle of something.
#[test]
fn a_connection_on_which_the_server_speaks_first_is_read_from_its_beginning() {
    let mut turns = h2_session();
    turns.swap(0, 1);
    let mut connection = Connection::joined(Limits::default());
    let mut log = Log::default();
    let mut positions = [0; 2];
    for (direction, bytes) in &turns {
        let position = &mut positions[usize::from(*direction == ServerToClient)];
        connection.push(*direction, *position, bytes, &mut |event| log.take(&event));
        *position += bytes.len() as u64;
    }
    let text = log.lines.join("\n");
    for said in [INITIALIZE, HELLO, LIST, TOOLS, PROGRESS] {
        assert!(text.contains(said), "no {said} in {text}");
    }
}

#[test]
fn an_upgrade_goes_on_with_the_same_exchange() {
    let (mut client, mut server) = (Peer::new(), Peer::new());
    let mut after = one_preface();
    after.extend(frame(4, 0, 0, &[]));
    after.extend(client.post(3, "s", LIST));
    let mut answer =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_vec();
    answer.extend(frame(4, 0, 0, &[]));
    let json = [(":status", "200"), ("content-type", "application/json")];
    answer.extend(server.headers(1, 0, &json));
    answer.extend(frame(0, END_STREAM, 1, HELLO.as_bytes()));
    let mut more = server.headers(3, 0, &json);
    more.extend(frame(0, END_STREAM, 3, TOOLS.as_bytes()));
    let ask = post(
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        INITIALIZE,
    );
    for turns in [
        vec![ask.clone(), up(&after), down(&answer), down(&more)],
        vec![
            up([&ask.1[..], &after[..]].concat()),
            down([&answer[..], &more[..]].concat()),
        ],
        vec![ask.clone(), down(&answer), up(&after), down(&more)],
    ] {
        let lines = run_any(&turns);
        let count = |text: &str| lines.iter().filter(|line| line.ends_with(text)).count();
        for text in [INITIALIZE, HELLO, LIST, TOOLS] {
            assert_eq!(count(text), 1, "{lines:#?}");
        }
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("1 < ") && line.ends_with(HELLO))
        );
    }
}

#[test]
fn what_must_not_be_is_told() {
    let beginning = || {
        let mut bytes = one_preface();
        bytes.extend(frame(4, 0, 0, &[]));
        let mut client = Peer::new();
        bytes.extend(client.post(1, "s", LIST));
        (bytes, client)
    };
    let told = |bytes: Vec<u8>| run_any(&[up(bytes)]);
    for (kind, stream, payload) in [
        (0, 0, &b"x"[..]),
        (1, 0, b"x"),
        (3, 1, b"x"),
        (4, 1, b""),
        (6, 0, b"x"),
    ] {
        let (mut bytes, _) = beginning();
        bytes.extend(frame(kind, 0, stream, payload));
        let lines = told(bytes);
        assert!(
            lines.contains(&"? > malformed_frame".to_owned()),
            "{lines:?}"
        );
        assert!(lines.contains(&"> left ambiguous".to_owned()), "{lines:?}");
    }
    let (mut bytes, mut client) = beginning();
    let block = client.block(&[(":method", "POST")]);
    bytes.extend(frame(1, 0, 3, &block));
    bytes.extend(frame(0, 0, 3, b"x"));
    assert!(told(bytes).contains(&"? > interrupted_headers".to_owned()));

    // A wrong length, and a field of HTTP/1, as used to smuggle requests through gateways.
    let (mut bytes, mut client) = beginning();
    let fields = [
        (":method", "POST"),
        (":path", "/mcp"),
        ("content-type", "application/json"),
        ("mcp-session-id", "s"),
        ("content-length", "3"),
    ];
    bytes.extend(client.headers(3, 0, &fields));
    bytes.extend(frame(0, END_STREAM, 3, LIST.as_bytes()));
    assert!(told(bytes).contains(&"2 > wrong_length".to_owned()));
}

#[test]
fn floods_are_bounded() {
    let limits = Limits::default();
    let mut bytes = one_preface();
    bytes.extend(frame(4, 0, 0, &[]));
    let mut client = Peer::new();
    bytes.extend(client.post(1, "s", LIST));
    // Endless streams, and endless heads.
    let mut stream = 3;
    for _ in 0..2 * limits.max_exchanges {
        let fields = [
            (":method", "GET"),
            ("accept", "text/event-stream"),
            ("mcp-session-id", "s"),
        ];
        bytes.extend(client.headers(stream, END_STREAM, &fields));
        stream += 2;
    }
    let lines = run(&[up(&bytes)], 1000);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.ends_with("too_many_exchanges"))
            .count(),
        0
    );
    assert!(lines.len() < 3 * limits.max_exchanges);
    bytes.extend(frame(1, 0, stream, &[]));
    for _ in 0..100_000 {
        bytes.extend(frame(9, 0, stream, b"\x00\x01x\x01y"));
    }
    let lines = run(&[up(&bytes)], 1000);
    assert!(lines.len() < 3 * limits.max_exchanges);
}

proptest! {
    #[test]
    fn damage_is_the_same_in_pieces(
        damage in prop::collection::vec((0_usize..8, 0_usize..300, any::<u8>()), 1..6),
    ) {
        let mut turns = h2_session();
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
