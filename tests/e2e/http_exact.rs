//! MCP over HTTP at its limits: a hundred sessions at once, very large bodies, and every byte in a segment of its
//! own. This process is the client, and knows what it said and heard.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result, anyhow, ensure};
use mcpinspect_tests::tap::{Capture, Tap};
use mcpinspect_tests::verify::{self, Reported};
use mcpinspect_tests::wirelog::{Frame, Way};
use serde_json::{Value, json};

use crate::http::Server;
use crate::{BEHIND, verdict};

/// Sessions at once.
const SESSIONS: usize = 100;
/// Bytes of a call that sends a large body: what a socket takes, where a program does not wait for more.
const PIECE: usize = 200_000;
/// Calls of each.
const CALLS: usize = 4;

/// What one client said and heard.
#[derive(Default)]
struct ExchangedMessages {
    to_server: Vec<String>,
    to_client: Vec<String>,
}

/// A client that has one connection.
struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    port: u16,
    session: Option<String>,
    exchanged: ExchangedMessages,
}

impl Client {
    fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            reader: BufReader::new(stream.try_clone()?),
            stream,
            port,
            session: None,
            exchanged: ExchangedMessages::default(),
        })
    }

    /// Says something, and takes the answer in if there is one.
    fn post(&mut self, message: &Value) -> Result<()> {
        let body = message.to_string();
        let session = self.session.as_ref();
        let session = session.map_or_else(String::new, |id| format!("Mcp-Session-Id: {id}\r\n"));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}Content-Length: {}\r\n\r\n",
            self.port,
            body.len()
        );
        self.stream.write_all(format!("{head}{body}").as_bytes())?;
        self.exchanged.to_server.push(body);
        let answer = self.answer()?;
        if !answer.is_empty() {
            self.exchanged.to_client.push(answer);
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        ensure!(line.ends_with('\n'), "the server hung up: {line:?}");
        Ok(line.trim_end().to_owned())
    }

    /// The body of an answer, which has a length.
    fn answer(&mut self) -> Result<String> {
        let status = self.line()?;
        ensure!(status.starts_with("HTTP/1.1 20"), "{status}");
        let mut length = 0;
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "mcp-session-id" => self.session = Some(value.to_owned()),
                "content-length" => length = value.parse()?,
                "transfer-encoding" => return Err(anyhow!("an answer without a length")),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(String::from_utf8(body)?)
    }

    fn talk(mut self, number: usize) -> Result<ExchangedMessages> {
        self.post(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": format!("client-{number}"), "version": "1"}}}),
        )?;
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        for call in 1..=CALLS {
            let text = format!("{call} of client {number} {}", "x".repeat(number * 10));
            let params = json!({"name": "echo", "arguments": {"message": text}});
            self.post(
                &json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": params}),
            )?;
        }
        Ok(self.exchanged)
    }
}

fn frames<S: AsRef<str>>(texts: &[S], way: Way) -> Vec<Frame> {
    let frame = |text: &S| Frame::of(way, text.as_ref().as_bytes());
    texts.iter().map(frame).collect()
}

/// The session in which this was said: exactly that, in order, by and to these processes.
fn matches(
    exchanged: &ExchangedMessages,
    session: Option<&Reported<'_>>,
    server: u32,
) -> Result<()> {
    let session = session.context("its session is not reported")?;
    ensure!(session.gaps.is_empty(), "losses: {:?}", session.gaps);
    let own = std::process::id();
    let stranger = session
        .messages()
        .find(|message| message.server_pid != Some(server) || message.client_pid != Some(own));
    ensure!(stranger.is_none(), "another process: {stranger:?}");
    verify::same(&frames(&exchanged.to_server, Way::Sent), &session.to_server)?;
    verify::same(
        &frames(&exchanged.to_client, Way::Received),
        &session.to_client,
    )
}

#[test]
fn a_hundred_sessions_at_once() -> Result<()> {
    let server = Server::python(&["json"])?;
    let mut tap = Tap::start()?;
    // All are connected before the first one speaks.
    let clients: Vec<Client> = (0..SESSIONS)
        .map(|_| Client::connect(server.port()))
        .collect::<Result<_>>()?;
    let exchanged: Vec<ExchangedMessages> = std::thread::scope(|scope| {
        let talks: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| scope.spawn(move || client.talk(number)))
            .collect();
        let join = |talk: std::thread::ScopedJoinHandle<'_, Result<ExchangedMessages>>| {
            talk.join().map_err(|_| anyhow!("a client panicked"))?
        };
        talks.into_iter().map(join).collect::<Result<_>>()
    })?;
    let messages =
        |exchanged: &ExchangedMessages| exchanged.to_server.len() + exchanged.to_client.len();
    let expected: usize = exchanged.iter().map(messages).sum();
    let of_it = |capture: &Capture| {
        let all = capture.messages.iter();
        all.filter(|message| message.server_pid == Some(server.pid()))
            .count()
    };
    let _ = tap.wait_until(BEHIND, "all messages", |capture| of_it(capture) >= expected);
    let capture = tap.finish()?.capture;
    let all = verify::sessions(&capture);
    // Each client's greeting names it, so no other session has this message.
    let by_greeting: BTreeMap<&str, &Reported<'_>> = all
        .iter()
        .filter_map(|session| Some((session.to_server.first()?.sha256.as_str(), session)))
        .collect();
    let reported = all.iter().filter(|session| {
        let mut messages = session.messages();
        messages.any(|message| message.server_pid == Some(server.pid()))
    });
    let reported: Vec<&Reported<'_>> = reported.collect();
    ensure!(
        reported.len() == SESSIONS,
        "{} sessions are reported, of {SESSIONS}; messages: {:?}; losses: {:?}",
        reported.len(),
        reported
            .iter()
            .map(|session| session.messages().count())
            .collect::<Vec<_>>(),
        capture.gaps
    );
    verdict(
        SESSIONS,
        exchanged
            .iter()
            .enumerate()
            .filter_map(|(number, exchanged)| {
                let greeting = Frame::of(Way::Sent, exchanged.to_server.first()?.as_bytes());
                let session = by_greeting.get(greeting.sha256.as_str()).copied();
                let error = matches(exchanged, session, server.pid()).err()?;
                Some(format!("client {number}: {error:#}"))
            }),
    )
}

/// Both ends of a connection in this process.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok(Self { client, server })
    }

    /// One side says something, and the other one reads it: all of it as it comes, or byte for byte, each in a
    /// segment and a call of its own.
    fn carry(&mut self, to_server: bool, bytes: &[u8], by_byte: bool) -> Result<()> {
        let (from, to) = if to_server {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        if by_byte {
            let mut received = [0];
            for byte in bytes {
                from.write_all(std::slice::from_ref(byte))?;
                to.read_exact(&mut received)?;
                ensure!(received[0] == *byte, "the kernel does not lie");
            }
            return Ok(());
        }
        std::thread::scope(|scope| {
            let sent = scope.spawn(|| {
                let mut pieces = bytes.chunks(PIECE);
                pieces.try_for_each(|piece| from.write_all(piece))
            });
            let mut received = vec![0; bytes.len()];
            to.read_exact(&mut received)?;
            sent.join().map_err(|_| anyhow!("the sender panicked"))??;
            ensure!(received == bytes, "the kernel does not lie");
            Ok(())
        })
    }
}

fn initialize(name: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": name, "version": "1"}}})
    .to_string()
}

fn initialized() -> String {
    let info = json!({"name": "limits", "version": "1"});
    json!({"jsonrpc": "2.0", "id": 0, "result": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}})
    .to_string()
}

fn call(id: u32, text: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "echo", "arguments": {"message": text}}})
    .to_string()
}

fn result(id: u32, text: &str) -> String {
    let content = json!([{"type": "text", "text": text}]);
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": content}}).to_string()
}

fn request(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// An answer of a kind, in chunks of so many bytes.
fn chunked(kind: &str, body: &str, chunk: usize) -> Vec<u8> {
    let mut bytes =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nMcp-Session-Id: limits\r\nTransfer-Encoding: chunked\r\n\r\n")
            .into_bytes();
    for piece in body.as_bytes().chunks(chunk) {
        bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
        bytes.extend(piece);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\n\r\n");
    bytes
}

/// Waits for as many messages of this session as were said, and compares.
fn seen(mut tap: Tap, exchanged: &ExchangedMessages) -> Result<()> {
    let greeting = Frame::of(Way::Sent, exchanged.to_server[0].as_bytes());
    let expected = exchanged.to_server.len() + exchanged.to_client.len();
    let own = std::process::id();
    let of_it = |capture: &Capture| {
        let sessions = verify::sessions(capture);
        let mut sessions = sessions.into_iter();
        sessions
            .find(|one| one.to_server.first().map(|m| &m.sha256) == Some(&greeting.sha256))
            .map_or(0, |session| session.messages().count())
    };
    let _ = tap.wait_until(BEHIND, "all messages", |capture| of_it(capture) >= expected);
    let capture = tap.finish()?.capture;
    let sessions = verify::sessions(&capture);
    let mut of_it = sessions
        .iter()
        .filter(|one| one.to_server.first().map(|m| &m.sha256) == Some(&greeting.sha256));
    matches(exchanged, of_it.next(), own)?;
    ensure!(of_it.next().is_none(), "two sessions");
    Ok(())
}

#[test]
fn bodies_of_8_mib_in_both_directions() -> Result<()> {
    let large = "m".repeat(8 << 20);
    let mut exchanged = ExchangedMessages {
        to_server: vec![initialize("large"), call(1, &large), call(2, "small")],
        to_client: vec![initialized(), result(1, &large), result(2, &large)],
    };
    // All of it has room in the ring, however late the daemon's turn comes on a busy machine.
    let mut tap = Tap::configured("[capture]\nring_size = \"128MiB\"\n")?;
    let mut ends = Ends::new()?;
    let kinds = ["application/json", "application/json", "text/event-stream"];
    for (at, kind) in kinds.into_iter().enumerate() {
        ends.carry(true, &request(&exchanged.to_server[at]), false)?;
        let answer = &exchanged.to_client[at];
        let body = match kind {
            "text/event-stream" => format!("event: message\r\ndata: {answer}\r\n\r\n"),
            _ => answer.clone(),
        };
        ends.carry(false, &chunked(kind, &body, 60_000), false)?;
        if at == 0 {
            // Of a connection of which nothing is known yet, only the first bytes are taken.
            tap.wait_until(BEHIND, "the session", |capture| capture.messages.len() == 2)?;
        }
    }
    // And it goes on.
    exchanged.to_server.push(call(3, "small"));
    exchanged.to_client.push(result(3, "small"));
    ends.carry(true, &request(&exchanged.to_server[3]), false)?;
    let answer = chunked("application/json", &exchanged.to_client[3], 10);
    ends.carry(false, &answer, false)?;
    seen(tap, &exchanged)
}

#[test]
fn every_byte_in_a_segment_of_its_own() -> Result<()> {
    let progress = |step: u32| {
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": 1, "progress": step, "message": "zwölf \u{1f980}"}})
        .to_string()
    };
    let exchanged = ExchangedMessages {
        to_server: vec![initialize("slow"), call(1, "one"), call(2, "two")],
        to_client: vec![
            initialized(),
            progress(1),
            progress(2),
            result(1, "one"),
            result(2, "two"),
        ],
    };
    let [greeted, first, second, one, two] = &exchanged.to_client[..] else {
        return Err(anyhow!("five messages"));
    };
    let tap = Tap::start()?;
    let mut ends = Ends::new()?;
    let event = |id: u32, message: &str, end: &str| {
        format!("id: {id}{end}event: message{end}data: {message}{end}{end}")
    };
    // All three ends of lines, a comment, an event without data, and chunks that end in the middle of all that.
    let answers = [
        event(1, greeted, "\r\n"),
        format!(
            ": still there\r\n\r\nid: 7\r\ndata:\r\n\r\n{}{}{}",
            event(2, first, "\r\n"),
            event(3, second, "\n"),
            event(4, one, "\r")
        ),
        event(5, two, "\n"),
    ];
    for (at, answer) in answers.iter().enumerate() {
        ends.carry(true, &request(&exchanged.to_server[at]), true)?;
        ends.carry(false, &chunked("text/event-stream", answer, 17), true)?;
    }
    seen(tap, &exchanged)
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Result<Vec<u8>> {
    let [high, low] = u16::try_from(payload.len())?.to_be_bytes();
    let mut bytes = vec![0, high, low, kind, flags, 0, 0, 0, stream];
    bytes.extend(payload);
    Ok(bytes)
}

/// A request or an answer over HTTP/2, with fields that go into no table.
fn stream(number: u8, fields: &[(&str, &str)], body: &str) -> Result<Vec<u8>> {
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len())?);
            block.extend(text.bytes());
        }
    }
    let mut bytes = frame(1, END_HEADERS, number, &block)?;
    bytes.extend(frame(0, END_STREAM, number, body.as_bytes())?);
    Ok(bytes)
}

/// A server may send its settings before it has read anything.
#[test]
fn a_server_of_http_2_that_speaks_first() -> Result<()> {
    let exchanged = ExchangedMessages {
        to_server: vec![initialize("two"), call(1, "one"), call(2, "two")],
        to_client: vec![initialized(), result(1, "one"), result(2, "two")],
    };
    let tap = Tap::start()?;
    let mut ends = Ends::new()?;
    let settings = frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])?;
    ends.carry(false, &settings, false)?;
    let mut before = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    before.extend(&settings);
    let request = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/mcp"),
        (":authority", "h"),
        ("content-type", "application/json"),
    ];
    let answer = [
        (":status", "200"),
        ("content-type", "application/json"),
        ("mcp-session-id", "two"),
    ];
    for ((question, body), number) in exchanged
        .to_server
        .iter()
        .zip(&exchanged.to_client)
        .zip([1, 3, 5])
    {
        before.extend(stream(number, &request, question)?);
        ends.carry(true, &before, false)?;
        before.clear();
        ends.carry(false, &stream(number, &answer, body)?, false)?;
    }
    seen(tap, &exchanged)
}

/// A client that had its connection before the daemon came.
#[test]
fn a_client_whose_connection_is_older_than_the_daemon_is_named() -> Result<()> {
    let server = Server::python(&["json"])?;
    let mut client = Client::connect(server.port())?;
    client.post(&serde_json::from_str(&initialize("early"))?)?;
    client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
    let mut tap = Tap::start()?;
    client.post(&serde_json::from_str(&call(1, "late"))?)?;
    let is_named = |capture: &Capture| {
        let own = Some(std::process::id());
        let mut messages = capture.messages.iter();
        messages.any(|m| m.server_pid == Some(server.pid()) && m.client_pid == own)
    };
    tap.wait_until(BEHIND, "both processes", is_named)?;
    tap.finish()?;
    Ok(())
}
