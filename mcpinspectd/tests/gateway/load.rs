//! Many round trips at a time, past the gateway and through it, in turns: each answer comes to its request.
//! To see what they cost, run this with `REQUESTS=2000` and `--nocapture`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stub::Stub;
use crate::{Gateway, call};

/// Requests of a connection, unless `REQUESTS` says otherwise.
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

/// Asks over one connection, and returns how long each answer took.
fn client(place: &str, session: usize) -> Vec<Duration> {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.set_nodelay(true).unwrap();
    let requests = std::env::var("REQUESTS").map_or(REQUESTS, |count| count.parse().unwrap());
    let mut times = Vec::new();
    let mut piece = [0; 4096];
    for number in 0..requests {
        let number = session as u64 * requests + number;
        let body = call(number, "read");
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nmcp-session-id: {session}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let start = Instant::now();
        stream.write_all(request.as_bytes()).unwrap();
        let mut got = Vec::new();
        while !got.ends_with(b"}") {
            let length = stream.read(&mut piece).unwrap();
            assert!(length > 0);
            got.extend_from_slice(&piece[..length]);
        }
        times.push(start.elapsed());
        let got = String::from_utf8(got).unwrap();
        assert!(
            got.contains(&format!(r#""id":{number},"#)),
            "{number}: {got}"
        );
    }
    times
}

fn measure(place: &str, connections: usize) -> (f64, Duration, Duration) {
    let all = Mutex::new(Vec::new());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for session in 0..connections {
            let all = &all;
            scope.spawn(move || all.lock().unwrap().extend(client(place, session)));
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    let at = |share: usize| all[all.len() * share / 100];
    (all.len() as f64 / seconds, at(50), at(99))
}

#[test]
fn round_trips_past_it_and_through_it() {
    let stub = Stub::start(|seen, out| {
        let id = seen.id();
        out.json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"some text"}}]}}}}"#));
    });
    let url = stub.url("/mcp");
    let direct = url
        .trim_start_matches("http://")
        .trim_end_matches("/mcp")
        .to_owned();
    let idle = Gateway::start("", &url, &[]);
    let judging = Gateway::start(&rules(), &url, &[]);
    for connections in [1, 8, 64] {
        for (name, place) in [
            ("past it", &*direct),
            ("no rules", idle.place()),
            ("100 rules", judging.place()),
        ] {
            let (rate, median, most) = measure(place, connections);
            println!(
                "{connections:3} connections, {name:9}: {rate:6.0}/s, p50 {median:?}, p99 {most:?}"
            );
        }
    }
}
