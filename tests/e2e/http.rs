//! MCP over HTTP: real servers and clients on this machine, found without any configuration.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use mcpinspect_tests::busy::Busy;
use mcpinspect_tests::places;
use mcpinspect_tests::talk::{Talk, Truth};
use mcpinspect_tests::tap::{Capture, Tap};
use mcpinspect_tests::verify::{self, Reported};
use mcpinspect_tests::wirelog::Frame;

use crate::{BEHIND, SESSION, verdict};

/// How long a server may take to listen: a Python one needs most of a minute on an emulated machine.
const START: Duration = Duration::from_secs(120);

/// A server that listens on this machine.
pub struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts what `command` describes for a free port, and waits until it listens.
    pub fn start(command: impl FnOnce(u16) -> Result<Command>) -> Result<Self> {
        let free = TcpListener::bind("127.0.0.1:0")?;
        let port = free.local_addr()?.port();
        drop(free);
        let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        Self::start_until(listens, port, command(port)?)
    }

    /// Starts a server, and waits until it listens.
    fn start_until(listens: impl Fn() -> bool, port: u16, mut command: Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port };
        let until = Instant::now() + START;
        while !listens() {
            ensure!(Instant::now() < until, "nobody listens");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The Python SDK's.
    pub fn python(words: &[&str]) -> Result<Self> {
        Self::prepared_python(words, |_| {})
    }

    /// The same, with its command prepared.
    pub fn prepared_python(words: &[&str], prepare: impl FnOnce(&mut Command)) -> Result<Self> {
        Self::start(|port| {
            let mut command = Command::new(places::python()?);
            command
                .arg(places::script("python/http_serve.py")?)
                .arg(port.to_string())
                .args(words);
            prepare(&mut command);
            Ok(command)
        })
    }

    /// The Python SDK's, on a Unix socket at this path.
    pub fn python_at(path: &Path) -> Result<Self> {
        let mut command = Command::new(places::python()?);
        command
            .arg(places::script("python/http_serve.py")?)
            .arg("0")
            .env("UNIX_SOCKET", path);
        Self::start_until(|| UnixStream::connect(path).is_ok(), 0, command)
    }

    /// The official one that has everything, on the TypeScript SDK, with its command prepared.
    pub fn everything(transport: &str, prepare: impl FnOnce(&mut Command)) -> Result<Self> {
        let package = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let script = places::node_directory()?.join(package);
        Self::start(|port| {
            let mut command = Command::new("node");
            command
                .arg(script)
                .arg(transport)
                .env("PORT", port.to_string());
            prepare(&mut command);
            Ok(command)
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub fn secure_url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that calls `echo` with so many letters, one call after the other.
pub fn client(url: &str, sizes: &[usize], words: &[&str]) -> Result<Command> {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let mut command = Command::new(places::python()?);
    command
        .arg(places::script("python/http_client.py")?)
        .arg(url)
        .arg(sizes.join(","))
        .args(words);
    Ok(command)
}

/// Waits for as many messages as the peers exchanged. What is missing then, the verdict says.
pub fn await_all(tap: &mut Tap, truths: &[Truth]) {
    let frames = truths
        .iter()
        .map(|truth| truth.to_server.len() + truth.to_client.len())
        .sum::<usize>();
    let _ = tap.wait_until(BEHIND, "all messages", |capture| {
        capture.messages.len() >= frames || !capture.gaps.is_empty()
    });
}

/// The session of these peers, without a loss.
fn session<'a>(truth: &Truth, server: &Server, capture: &'a Capture) -> Result<Reported<'a>> {
    let session = verify::session_of(truth, capture)?;
    ensure!(session.gaps.is_empty(), "losses: {:?}", session.gaps);
    let wrong = session
        .messages()
        .find(|message| message.server_pid != Some(server.pid()));
    ensure!(wrong.is_none(), "another server: {wrong:?}");
    let server = session.messages().next().map(|message| &message.server_id);
    ensure!(
        server.is_some_and(|id| !id.starts_with("unknown")),
        "{server:?}"
    );
    Ok(session)
}

/// Every message once, in order, in the right direction.
pub fn in_order(truth: &Truth, server: &Server, capture: &Capture) -> Result<()> {
    let session = session(truth, server, capture)?;
    verify::same(&truth.to_server, &session.to_server).context("to the server")?;
    verify::same(&truth.to_client, &session.to_client).context("to the client")
}

/// Every message once, in the right direction; what goes over several connections has no order.
pub fn complete(truth: &Truth, server: &Server, capture: &Capture) -> Result<()> {
    let session = session(truth, server, capture)?;
    for (direction, expected, reported) in [
        ("to the server", &truth.to_server, &session.to_server),
        ("to the client", &truth.to_client, &session.to_client),
    ] {
        let mut expected: Vec<&Frame> = expected.iter().collect();
        let mut reported = reported.clone();
        expected.sort_by(|a, b| a.sha256.cmp(&b.sha256));
        reported.sort_by(|a, b| a.sha256.cmp(&b.sha256));
        let expected: Vec<Frame> = expected.into_iter().cloned().collect();
        verify::same(&expected, &reported).context(direction)?;
    }
    Ok(())
}

/// The sessions of these clients, one after another, each in order.
pub fn one_after_another(mut tap: Tap, server: &Server, clients: Vec<Command>) -> Result<()> {
    let mut truths = Vec::new();
    for client in clients {
        truths.push(Talk::start(client)?.finish(SESSION)?);
        await_all(&mut tap, &truths);
    }
    let capture = tap.finish()?.capture;
    verdict(
        truths.len(),
        truths
            .iter()
            .filter_map(|truth| Some(format!("{:#}", in_order(truth, server, &capture).err()?))),
    )
}

/// The sessions of these clients, all at once, each complete.
pub fn all_at_once(mut tap: Tap, server: &Server, clients: Vec<Command>) -> Result<()> {
    let talks: Vec<Talk> = clients
        .into_iter()
        .map(Talk::start)
        .collect::<Result<_>>()?;
    let truths: Vec<Truth> = talks
        .into_iter()
        .map(|talk| talk.finish(SESSION))
        .collect::<Result<_>>()?;
    await_all(&mut tap, &truths);
    let capture = tap.finish()?.capture;
    verdict(
        truths.len(),
        truths
            .iter()
            .filter_map(|truth| Some(format!("{:#}", complete(truth, server, &capture).err()?))),
    )
}

/// Sizes of ten calls that a client makes at once.
pub fn calls_of_a_crowd() -> Vec<usize> {
    (0..10).map(|call| 10 + call * 3000).collect()
}

/// One session after another, each in order.
fn one_by_one(server: &Server, path: &str, words: &[&str], calls: &[&[usize]]) -> Result<()> {
    let clients = calls
        .iter()
        .map(|calls| client(&server.url(path), calls, words))
        .collect::<Result<_>>()?;
    one_after_another(Tap::start()?, server, clients)
}

#[test]
fn python_over_streamable_http() -> Result<()> {
    let server = Server::python(&[])?;
    let calls = [
        &[5][..],
        &[5, 300_000, 5],
        // The client takes events of a megabyte.
        &[400_000, 5, 400_000],
    ];
    one_by_one(&server, "/mcp", &[], &calls)
}

#[test]
fn python_with_json_and_without_sessions() -> Result<()> {
    for words in [&["json"][..], &["stateless"], &["json", "stateless"]] {
        let server = Server::python(words)?;
        one_by_one(&server, "/mcp", &[], &[&[5, 300_000], &[7]])
            .with_context(|| format!("{words:?}"))?;
    }
    let server = Server::python(&["json"])?;
    one_by_one(&server, "/mcp", &["large"], &[&[5, 3 << 20]])
}

#[test]
fn python_over_the_transport_of_2024() -> Result<()> {
    let server = Server::python(&["sse"])?;
    one_by_one(&server, "/sse", &["sse"], &[&[5, 300_000], &[7]])
}

#[test]
fn the_everything_server() -> Result<()> {
    let server = Server::everything("streamableHttp", |_| {})?;
    one_by_one(&server, "/mcp", &[], &[&[5, 200_000]])?;
    let server = Server::everything("sse", |_| {})?;
    one_by_one(&server, "/sse", &["sse"], &[&[5, 200_000]])
}

/// So many clients at once, each with calls at once.
fn crowd(clients: usize) -> Result<()> {
    let server = Server::python(&[])?;
    let sizes = calls_of_a_crowd();
    let clients = (0..clients)
        .map(|_| client(&server.url("/mcp"), &sizes, &["together"]))
        .collect::<Result<_>>()?;
    all_at_once(Tap::start()?, &server, clients)
}

#[test]
fn many_clients_over_many_connections() -> Result<()> {
    crowd(8)
}

#[test]
fn on_a_busy_machine() -> Result<()> {
    let _busy: Vec<Busy> = (0..6).map(|_| Busy::start()).collect::<Result<_>>()?;
    crowd(3)
}

/// Sends a request to a server and reads its answer to the end.
fn request(port: u16, text: &str) -> Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn other_servers_are_not_reported() -> Result<()> {
    let files = tempfile::tempdir()?;
    std::fs::write(files.path().join("page.html"), "x".repeat(100_000))?;
    let web = Server::start(|port| {
        let mut command = Command::new(places::python()?);
        command
            .args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"])
            .arg(files.path())
            .arg(port.to_string());
        Ok(command)
    })?;
    let mcp = Server::python(&[])?;
    let mut tap = Tap::start()?;
    for _ in 0..200 {
        let answer = request(web.port, "GET /page.html HTTP/1.0\r\n\r\n")?;
        ensure!(answer.len() > 100_000, "{answer}");
        let post = "POST /rpc HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_call\"}  ";
        request(web.port, post)?;
        // Not HTTP at all.
        request(web.port, "\x16\x03\x01\x02\0\n\n")?;
    }
    let talk = Talk::start(client(&mcp.url("/mcp"), &[5], &[])?)?;
    let truth = talk.finish(SESSION)?;
    await_all(&mut tap, std::slice::from_ref(&truth));
    let capture = tap.finish()?.capture;
    in_order(&truth, &mcp, &capture)?;
    let others: Vec<_> = capture
        .messages
        .iter()
        .filter(|message| message.server_pid == Some(web.pid()))
        .collect();
    ensure!(others.is_empty(), "{others:?}");
    Ok(())
}

pub const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hostile","version":"1"}}}"#;

pub fn post(fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    )
}

/// Speaks both sides of a connection in this process: each pair is what the client sends, and what the
/// server answers.
fn both_sides(exchanges: &[(&[u8], &[u8])]) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    for (asked, answered) in exchanges {
        carry(&mut client, &mut server, asked)?;
        carry(&mut server, &mut client, answered)?;
    }
    Ok(())
}

/// Sends bytes and receives them at the other end.
pub fn carry(
    from: &mut (impl std::io::Write + Send),
    to: &mut impl std::io::Read,
    bytes: &[u8],
) -> Result<()> {
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| from.write_all(bytes));
        let mut received = vec![0; bytes.len()];
        to.read_exact(&mut received)?;
        sent.join().map_err(|_| anyhow!("the sender panicked"))??;
        ensure!(received == bytes, "the kernel does not lie");
        Ok(())
    })
}

/// 400 MiB of spaces, compressed.
fn bomb() -> Result<Vec<u8>> {
    let script = "head -c 419430400 /dev/zero | tr '\\0' ' ' | gzip -1";
    let output = Command::new("sh").args(["-c", script]).output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(output.stdout)
}

#[test]
fn hostile_http_is_bounded_and_told() -> Result<()> {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: a\r\nContent-Length: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}";
    let hello = post("", INITIALIZE);
    let smuggled = "POST /mcp HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: a\r\nContent-Type: application/json\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nP";
    let bomb = bomb()?;
    let mut exploding = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    )
    .into_bytes();
    exploding.extend(bomb);
    let again = post("Mcp-Session-Id: a\r\n", INITIALIZE);
    let endless = "POST /mcp HTTP/1.1\r\n".to_owned() + &"X-Field: and on\r\n".repeat(1 << 20);

    let mut tap = Tap::start()?;
    let (before, _) = tap.memory()?;
    both_sides(&[(hello.as_bytes(), answer), (smuggled.as_bytes(), b"")])?;
    both_sides(&[(hello.as_bytes(), answer), (again.as_bytes(), &exploding)])?;
    // More than the ring holds.
    both_sides(&[(hello.as_bytes(), answer), (endless.as_bytes(), b"")])?;
    tap.wait_until(BEHIND, "what is told of them", |capture| {
        let is_reported = |mechanism: &str| {
            let mut others = capture.others.iter();
            others.any(|event| event["mechanism"] == mechanism)
        };
        is_reported("http_ambiguous") && !capture.gaps.is_empty()
    })?;
    // And it still sees others.
    let server = Server::python(&[])?;
    let talk = Talk::start(client(&server.url("/mcp"), &[5], &[])?)?;
    let truth = talk.finish(SESSION)?;
    tap.wait_until(BEHIND, "the other session", |capture| {
        let of_it =
            |message: &&mcpinspect_tests::tap::Message| message.server_pid == Some(server.pid());
        capture.messages.iter().filter(of_it).count()
            >= truth.to_server.len() + truth.to_client.len()
    })?;
    let finished = tap.finish()?;
    in_order(&truth, &server, &finished.capture)?;
    let most = before + (160 << 20);
    ensure!(
        finished.peak_memory < most,
        "{} bytes of memory, {most} expected at most",
        finished.peak_memory
    );
    Ok(())
}

#[test]
fn it_can_be_turned_off() -> Result<()> {
    let server = Server::python(&[])?;
    let tap = Tap::configured("[capture]\nhttp = false\n")?;
    let talk = Talk::start(client(&server.url("/mcp"), &[5], &[])?)?;
    talk.finish(SESSION)?;
    // Nothing can show that nothing comes.
    std::thread::sleep(Duration::from_secs(1));
    let capture = tap.finish()?.capture;
    let reported = capture.messages.iter();
    let reported = reported.filter(|message| message.server_pid == Some(server.pid()));
    ensure!(reported.count() == 0, "reported all the same");
    Ok(())
}
