//! A server on HTTP with a thousand sessions, behind a gateway and not.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mcpinspect_tests::listening::Listening;

use super::{answer, call, id, policy};
use crate::stats::{Samples, grouped, head, row};

/// Connections that are open at once, each a session.
const SESSIONS: usize = 1_000;
/// Threads that ask; each has a request of all its sessions under way at once.
const CLIENTS: usize = 8;
/// Requests of each session in a round.
const REQUESTS: u64 = 10;

/// The server: names its place, and answers every request on every connection.
pub fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}/mcp", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::Builder::new()
            .stack_size(1 << 17)
            .spawn(move || {
                // A client that leaves ends its connection.
                let _ = answer_all(stream);
            })?;
    }
    Ok(())
}

fn answer_all(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::with_capacity(4096, stream.try_clone()?);
    while let Some(body) = read_message(&mut input)? {
        let body = answer(id(&body)?);
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes())?;
    }
    Ok(())
}

/// The body of the next request or response; none at the end.
fn read_message(input: &mut impl BufRead) -> Result<Option<String>> {
    let mut line = String::new();
    let mut length = None;
    loop {
        line.clear();
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let field = line.trim_end().to_ascii_lowercase();
        if field.is_empty() {
            break;
        }
        if let Some(value) = field.strip_prefix("content-length:") {
            length = Some(value.trim().parse::<usize>()?);
        }
    }
    let mut body = vec![0; length.context("a body without a length")?];
    input.read_exact(&mut body)?;
    Ok(Some(String::from_utf8(body)?))
}

/// Host and port of a URL.
fn place(url: &str) -> &str {
    let rest = url.trim_start_matches("http://");
    rest.split('/').next().unwrap_or(rest)
}

/// Some sessions of one client.
struct Client(Vec<(usize, BufReader<TcpStream>)>);

impl Client {
    fn connect(place: &str, sessions: impl Iterator<Item = usize>) -> Result<Self> {
        let connect = |session| {
            let stream = TcpStream::connect(place)?;
            stream.set_nodelay(true)?;
            Ok((session, BufReader::with_capacity(4096, stream)))
        };
        sessions.map(connect).collect::<Result<_>>().map(Self)
    }

    /// One request in each session, all of them under way at once. Every answer has to be its session's.
    fn ask(&mut self, place: &str, round: u64) -> Result<()> {
        let number = |session: usize| session as u64 * 1_000_000 + round;
        for (session, stream) in &mut self.0 {
            let body = call(number(*session));
            let head = format!(
                "POST /mcp HTTP/1.1\r\nhost: {place}\r\nmcp-session-id: s{session}\r\n\
                 content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            stream.get_mut().write_all((head + &body).as_bytes())?;
        }
        for (session, stream) in &mut self.0 {
            let body = read_message(stream)?.context("the connection ended")?;
            let expected = number(*session).to_string();
            ensure!(id(&body)? == expected, "session {session} got {body}");
        }
        Ok(())
    }
}

/// Requests a second over all sessions.
fn rate(place: &str, clients: &mut [Client]) -> Result<f64> {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let ask =
            |client: &mut Client| (0..REQUESTS).try_for_each(|round| client.ask(place, round));
        let running: Vec<_> = clients
            .iter_mut()
            .map(|client| scope.spawn(move || ask(client)))
            .collect();
        running
            .into_iter()
            .try_for_each(|client| client.join().ok().context("a client panicked")?)
    })?;
    Ok((SESSIONS as u64 * REQUESTS) as f64 / begun.elapsed().as_secs_f64())
}

/// Measures, and prints the table.
pub fn measure(rounds: usize) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = Listening::start(Command::new(std::env::current_exe()?).arg("--echo-http"))?;
    let guard = |rules| -> Result<_> {
        let policy = policy(directory.path(), rules)?;
        Listening::guard(&server.url, &policy, "/dev/null")
    };
    let (idle, judging) = (guard(false)?, guard(true)?);
    let places = [
        ("none", place(&server.url)),
        ("no rules", place(&idle.url)),
        ("100 rules", place(&judging.url)),
    ];
    let mut rates: [Samples; 3] = Default::default();
    let mut trips: [Samples; 3] = Default::default();
    for (index, (_, place)) in places.iter().enumerate() {
        let mut single = Client::connect(place, std::iter::once(0))?;
        for round in 0..2_000 {
            let begun = Instant::now();
            single.ask(place, round)?;
            trips[index].push(begun.elapsed().as_secs_f64() * 1e6);
        }
        let mut clients = (0..CLIENTS)
            .map(|client| Client::connect(place, (client..SESSIONS).step_by(CLIENTS)))
            .collect::<Result<Vec<_>>>()?;
        // The first round opens the gateway's own connections.
        rate(place, &mut clients)?;
        for _ in 0..rounds {
            rates[index].push(rate(place, &mut clients)?);
        }
    }
    println!(
        "A gateway with {SESSIONS} sessions that ask at once; client and server share its cores\n"
    );
    head(&[
        "gateway",
        "one session: round trip, median",
        "p99",
        "all: requests/s",
    ]);
    for (index, (name, _)) in places.iter().enumerate() {
        row(&[
            (*name).to_owned(),
            format!("{:.0} µs", trips[index].median()),
            format!("{:.0} µs", trips[index].quantile(0.99)),
            grouped(rates[index].median()),
        ]);
    }
    println!();
    Ok(())
}
